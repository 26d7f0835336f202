//! An HDF5 VOL connector: reads of data sets are cached, everything else passes through.
//!
//! ```text
//!  program ─► libhdf5 ─► H5VL_class_t ─► forward ────────────────────────────► connector below
//!                                          │ H5Dread of a managed file             ▲
//!                                          └─► cached_read ─► tier (units)         │
//!                                                   └─ what is not there ──────────┘
//!                                                        └─► UnitWriter ─► tier
//! ```
//!
//! How datasets are cut into units, and how those get into a tier, is in `units`. Nothing of this project's threads calls HDF5: they move bytes between memory, files and the tier.
//!
//! | file | what it holds |
//! |---|---|
//! | `connector` | the table of callbacks for each libhdf5, name and number |
//! | `vol_class`, `hdf5_arguments` | structures of HDF5's headers |
//! | `functions`, `slots` | HDF5's functions, and what is kept for each libhdf5 |
//! | `vol_object` | what a handle stands for |
//! | `forward` | a callback for each operation, one file per kind of object |
//! | `info` | the connector below, and what it is told |
//! | `file_access`, `file_driver`, `driver_handle`, `file_state` | how files are opened below, and which version of their bytes |
//! | `dataset_changes`, `chunk_addresses` | data sets that the program writes, and those whose bytes it reads beside HDF5 |
//! | `settings` | what the environment says |
//! | `selection`, `element_type`, `transfer_list` | what HDF5 says of selections, types and transfers |
//! | `under_dataset` | the data set below, described and read box by box |
//! | `cached_dataset`, `memory_target`, `cached_read`, `missed_units` | a read: planned, served, filled |
//! | `read_cache` | the tier of this process, and the thread that fills it |
//! | `units` | values of arrays in a tier, unit by unit |
//! | `prestage`, `prestage_queue` | data sets read before they are asked for |
//! | `parallel` | files that ranks have open together by MPI-IO |
//! | `operation_numbers`, `optional_ops`, `control` | what programs can ask for beyond HDF5's own interface |

mod cached_dataset;
mod cached_read;
mod chunk_addresses;
mod connector;
pub mod control;
mod dataset_changes;
mod driver_handle;
mod element_type;
mod file_access;
mod file_driver;
mod file_state;
mod forward;
mod functions;
mod hdf5_arguments;
mod info;
mod memory_target;
mod missed_units;
mod operation_numbers;
mod optional_ops;
mod parallel;
mod prestage;
mod prestage_queue;
mod read_cache;
mod selection;
mod settings;
mod slots;
mod transfer_list;
mod under_dataset;
mod units;
mod vol_class;
mod vol_object;

pub use parallel::parallel_stats::{ParallelCounters, forebay_hdf5_parallel_stats};
pub use units::cache_stats::CacheCounters;
