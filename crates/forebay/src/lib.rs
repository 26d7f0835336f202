//! The whole of forebay: its parts under one name, and how they are put together.
//!
//! ```text
//! path ─► open ─► format by content ─► Container (from the saved index, if there is one) ─► Opened ─► values
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `open` | which format reads a file, and the way from a path to an opened container |
//! | `files`, `set` | from patterns and fields to a set of samples |
//! | `index_cache` | descriptions of files, kept in the user's cache folder |
//! | `foresight` | what a loader knows of the future, as tiers want to know it |
//! | `config` | what the user wants of tiers and placement |
//! | `places` | which places of this machine could hold copies, and why or why not |
//! | `size` | sizes as people write them |

pub mod config;
mod files;
mod foresight;
mod index_cache;
mod open;
pub mod places;
mod set;
pub mod size;

pub use config::{Config, Settings, TierConfig};
pub use files::expand;

pub use forebay_format as format;
pub use forebay_format::{Array, Container, Opened, Selection, Values, Variable};
pub use forebay_loader as loader;
pub use forebay_loader::{Batch, Loader, Options, SampleSet, SampleSpec, Samples};
pub use forebay_source as source;
pub use forebay_source::{Error, ErrorKind, FileOrigin, Locator, Origin, Result};
pub use forebay_tier as tier;
pub use foresight::{LoaderForesight, PolicyForecast, TierForecast, TierPlan, foresee};
pub use index_cache::IndexCache;
pub use open::{describe, formats, open, open_file};
pub use set::{SetSpec, open_set, open_set_on};
