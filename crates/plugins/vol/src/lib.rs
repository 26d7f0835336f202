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
//! | module | content |
//! |---|---|
//! | `connector` | the table of callbacks for each libhdf5, name and number |
//! | `vol_class`, `hdf5_arguments` | structures of HDF5's headers |
//! | `functions`, `slots` | HDF5's functions, and what is kept for each libhdf5 |
//! | `vol_object` | what a handle stands for |
//! | `forward` | a callback for each operation, one file per kind of object |
//! | `info` | the connector below, and what it is told |
//! | `file` | how files are opened below, and which version of their bytes |
//! | `dataset` | datasets below: described, read box by box, written by the program; what HDF5 says of selections, types and transfers |
//! | `read` | a read: planned, served, filled; the tier of this process, and the thread that fills it; datasets read before they are asked for |
//! | `settings` | what the environment says |
//! | `units` | values of arrays in a tier, unit by unit |
//! | `parallel` | files that ranks have open together by MPI-IO |
//! | `operation_numbers`, `optional_ops`, `control` | what programs can ask for beyond HDF5's own interface |

mod connector;
pub mod control;
mod dataset;
mod file;
mod forward;
mod functions;
mod hdf5_arguments;
mod info;
mod operation_numbers;
mod optional_ops;
mod parallel;
mod read;
mod settings;
mod slots;
mod units;
mod vol_class;
mod vol_object;

pub use parallel::parallel_stats::{ParallelCounters, forebay_hdf5_parallel_stats};
pub use units::cache_stats::CacheCounters;
