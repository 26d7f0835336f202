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
//! | module | content |
//! |---|---|
//! | `config` | the configuration: origin, tiers, placement, staged writes, HDF5 plug-ins |
//! | `settings` | the settings in force: flags over the environment over a file over defaults; a row for each setting; keys of HDF5's Cache VOL |
//! | `environment` | variables and `~` in paths |
//! | `names` | one name for each file of this machine |
//! | `open_tiers` | from a configuration to tiers |
//! | `plugin_settings` | what HDF5 plug-ins are told, from the environment of the program that has loaded them |
//! | `info_text` | the text behind a connector's name, and the settings file that it names |
//! | `managed_paths` | whether a path lies under a configured one |
//! | `candidates` | which local disks could hold copies, and why or why not |

pub mod candidates;
mod config;
mod environment;
pub mod info_text;
mod managed_paths;
pub mod names;
mod open_tiers;
mod plugin_settings;
mod settings;

pub use config::amount::Amount;
pub use config::fast_place::FastPlace;
pub use config::hdf5_config::{Hdf5Config, PeerReads, PluginChoice, PrestageMode, StageScope};
pub use config::policy::PolicyName;
pub use config::stage_config::StageConfig;
pub use config::tier::{DISK_QUOTA, DiskConfig, MEMORY_QUOTA, TierConfig};
pub use config::{Config, OriginConfig, PlacementConfig};
pub use environment::Environment;
pub use forebay_process::suggest::nearest;
pub use info_text::InfoText;
pub use managed_paths::ManagedPaths;
pub use open_tiers::{open_disk_tier, tiered};
pub use plugin_settings::PluginSettings;
pub use settings::Settings;
pub use settings::setting::Overrides;
pub use settings::table::variables;
pub use settings::value_origin::ValueOrigin;
