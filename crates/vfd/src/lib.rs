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
//! | `driver` | the callbacks, one set for each libhdf5 |
//! | `sec2` | HDF5's own driver, which opens every file |

mod class;
mod driver;
mod sec2;

pub use driver::{H5PLget_plugin_info, H5PLget_plugin_type, forebay_vfd_class_v1};
