//! Settings of tiers, staged writes and HDF5 plug-ins as plain data, where each value comes from, and tiers made from them.
//!
//! ```text
//! flags ──────┐
//! environment ┼─► Settings: a Config, and the origin of each value ─► tiered(origin) ─► Origin read through tiers
//! file ───────┘
//! ```
//!
//! This is what a library needs that is loaded into other programs: it knows no formats, no loader and no HTTP. A crate that
//! has an [`Origin`](forebay_source::Origin) of another kind hands it in.
//!
//! | file | idea |
//! |---|---|
//! | `config` | the configuration: origin, tiers, placement, staged writes, HDF5 plug-ins |
//! | `stage_config`, `hdf5_config` | its tables for staged writes and for the plug-ins |
//! | `fast_place` | memory, or a folder of this node |
//! | `policy` | policies by their names |
//! | `tier`, `amount` | one tier, as a table or a short word; bytes, or a share of something |
//! | `settings` | the settings in force: flags over the environment over a file over defaults |
//! | `layers` | values of several layers, of which the upper one wins |
//! | `setting` | what a setting of one value is: how it is called, read and printed |
//! | `table`, `stage_table`, `hdf5_table` | the settings of one value each, a row for each |
//! | `cache_vol` | the keys and variables of HDF5's Cache VOL, as settings of ours |
//! | `given` | a value as it is given: text, or a value of a TOML file |
//! | `find`, `file` | which file is read and whether it may be trusted; from TOML to values with their lines |
//! | `print` | settings as a file that can be read back |
//! | `value_origin` | where a value comes from |
//! | `environment` | variables and `~` in paths |
//! | `names` | one name for each file of this machine |
//! | `open_tiers` | from a configuration to tiers |
//! | `plugin_settings` | what HDF5 plug-ins are told, from the environment of the program that has loaded them |
//! | `info_text` | the text behind a connector's name, and the settings file that it names |
//! | `managed_paths` | whether a path lies under a configured one |
//! | `candidates` | which local disks could hold copies, and why or why not |

mod amount;
mod cache_vol;
pub mod candidates;
mod config;
mod environment;
mod fast_place;
mod file;
mod find;
mod given;
mod hdf5_config;
mod hdf5_table;
pub mod info_text;
mod layers;
mod managed_paths;
pub mod names;
mod open_tiers;
mod plugin_settings;
mod policy;
mod print;
mod setting;
mod settings;
mod stage_config;
mod stage_table;
mod table;
mod tier;
mod value_origin;

pub use amount::Amount;
pub use config::{Config, OriginConfig, PlacementConfig};
pub use environment::Environment;
pub use fast_place::FastPlace;
pub use forebay_process::suggest::nearest;
pub use hdf5_config::{Hdf5Config, PeerReads, PluginChoice, PrestageMode, StageScope};
pub use info_text::InfoText;
pub use managed_paths::ManagedPaths;
pub use open_tiers::{open_disk_tier, tiered};
pub use plugin_settings::PluginSettings;
pub use policy::PolicyName;
pub use setting::Overrides;
pub use settings::Settings;
pub use stage_config::StageConfig;
pub use table::variables;
pub use tier::{DISK_QUOTA, DiskConfig, MEMORY_QUOTA, TierConfig};
pub use value_origin::ValueOrigin;
