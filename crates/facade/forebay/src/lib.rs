//! The whole of forebay: its parts under one name, and how they are put together.
//!
//! ```text
//! path, URL ─► origin ─► open ─► format by content ─► Container (from the saved index, if there is one) ─► Opened ─► values
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `open` | the way from a path to an opened container |
//! | `origins` | which side a name belongs to: this machine, or behind a URL |
//! | `file_facts` | what is in a file, as JSON |
//! | `file_version` | by what a file is known again in another process |
//! | `files`, `set` | from patterns and fields to a set of samples |
//! | `joined_files/` | several files as one along an axis |
//! | `sample_words` | what a sample is, in words |
//! | `parallel_map` | the same work for each of many files, on threads |
//! | `describe_cost` | what it took to describe a file |
//! | `index_cache` | descriptions of files, kept in the user's cache folder |
//! | `statistics` | statistics of a set in one pass, saved beside the index |
//! | `told_containers` | descriptions of files that another rank made |
//! | `selected_fields` | the fields that a loader gives out |
//! | `tier_observer` | the observer that passes a loader's schedule on to its tiers; what was read from where |
//! | `transformed_loader` | loaders whose batches are transformed |
//! | `foresight` | what a loader knows of the future, as tiers want to know it |
//! | `job_comm` | the ranks of the job, by what its launcher says |
//! | `store_set/` | a set of samples in the memory of all ranks, and batches from it |
//! | `job_peers` | the tiers in the memory of all ranks that this process has |
//! | `slow` | files as if behind a slow file system, for trials |

mod describe_cost;
mod file_facts;
mod file_version;
mod files;
mod foresight;
mod index_cache;
mod job_comm;
mod job_peers;
mod joined_files;
mod open;
mod origins;
mod parallel_map;
pub mod sample_words;
mod selected_fields;
mod set;
mod slow;
mod statistics;
mod store_set;
mod tier_observer;
mod told_containers;
mod transformed_loader;

pub use describe_cost::DescribeCost;
pub use file_facts::{file_facts, variable_facts};
pub use file_version::file_version;
pub use files::{expand, expand_among, expand_to_files};

pub use forebay_batch as batch;
pub use forebay_config as config;
pub use forebay_config::{Config, Settings, TierConfig, open_disk_tier, tiered};
pub use forebay_container as container;
pub use forebay_container::{Array, Container, Selection, Values, Variable};
pub use forebay_format as format;
pub use forebay_format::Opened;
pub use forebay_format::{describe, formats};
pub use forebay_loader as loader;
pub use forebay_loader::{Batch, Loader, Options, SampleSet, SampleSpec, Samples};
pub use forebay_mpi::MpiHandle;
#[cfg(feature = "remote")]
pub use forebay_object::ObjectOrigin;
pub use forebay_peer::PeerTier;
pub use forebay_plan as plan;
pub use forebay_process as process;
pub use forebay_process::size;
pub use forebay_process::{Error, ErrorKind, Result};
pub use forebay_source as source;
pub use forebay_source::{FileOrigin, Locator, Origin};
pub use forebay_stage as stage;
pub use forebay_store as store;
pub use forebay_tcp::Rendezvous;
pub use forebay_tier as tier;
pub use forebay_transform as transform;
pub use foresight::{LoaderForesight, PolicyForecast, TierForecast, TierPlan, foresee};
pub use index_cache::IndexCache;
pub use job_comm::{DataPath, Launcher, job_comm, mpi_comm, torch_comm};
pub use job_peers::join_job;
pub use joined_files::JoinedFiles;
pub use open::{open, open_file, open_file_with};
pub use origins::Origins;
pub use selected_fields::{selected_fields, selected_names};
pub use set::{NameKind, SetSpec, open_named_set, open_set, open_set_among, open_set_on};
pub use slow::SlowFiles;
pub use statistics::{StatisticsRun, forms_of, saved_statistics};
pub use store_set::{
    FillOptions, FillProgress, OnLost, StoreConcat, StoreMaker, StoredField, added_identity, auto_width,
    fill_store, store_options_within,
};
pub use tier_observer::{EpochTiers, TierObserver, TierReport};
pub use told_containers::ToldContainers;
pub use transformed_loader::transform_batches;
