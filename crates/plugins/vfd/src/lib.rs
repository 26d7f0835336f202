//! An HDF5 virtual file driver: reads come through the tiers, writes are staged and drained behind the program.
//!
//! ```text
//!  HDF5 ──► driver ──┬── not managed ──────────────────────────► sec2, the library's own driver
//!                    └── managed ──┬── reads ─► tiers ─► origin
//!                                  └── writes ─► redo log ─► drainers ─► the same file
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `class` | the structures of HDF5's virtual file layer |
//! | `driver` | the callbacks |
//! | `driver_library` | each libhdf5 that has loaded the driver |
//! | `driver_file` | a file, as HDF5 holds it |
//! | `sec2` | HDF5's own driver, which opens every file |
//! | `managed_file` | a managed file: through tiers, staged, or directly |
//! | `process` | settings, staging area and tiers of the process; what it does at its end |
//! | `forked_child` | detection of forked children, which delay no close |
//! | `settle` | a file that is opened again before all is in it |
//! | `ranks_opening` | a file that ranks are about to open by another driver |
//! | `failure` | errors of ours in the words of HDF5's own driver |

mod class;
mod driver;
mod driver_file;
mod driver_library;
mod failure;
mod forked_child;
mod managed_file;
mod process;
mod ranks_opening;
mod sec2;
mod settle;

pub use driver::{H5PLget_plugin_info, H5PLget_plugin_type, forebay_vfd_class_v1};
pub use ranks_opening::forebay_vfd_settle_v2;
