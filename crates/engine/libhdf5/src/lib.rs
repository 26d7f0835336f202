//! A libhdf5 found at run time: bindings and look-up, for readers that need the library and for plug-ins that it loads.
//!
//! ```text
//!  find ─► paths ─► load ─► Hdf5Library ─► Hdf5Calls: files written and read, by safe calls
//! ```
//!
//! A plug-in is called by the libhdf5 that it works for, and finds that one by the address it returns to:
//!
//! ```text
//!  libhdf5 ──dlopen──► plug-in                 one process may hold several libhdf5: each gets
//!     │ H5PLget_plugin_info()                  a slot of its own, with a table of its functions
//!     └─ return address ─► Hdf5Library ─► LibrarySlots<…, 8> ─► a struct of callbacks, made once
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `entry` | the macro that exports the two functions by which HDF5 asks for a plug-in |
//! | `find` | the libhdf5 to read with: where it may lie on this machine |
//! | `installed`, `python_packages` | every libhdf5 that programs of this machine may use; installed Python packages |
//! | `load`, `handle` | how one is loaded: as a copy of its own, for libraries loaded later, or for itself alone |
//! | `library`, `symbol_table` | one libhdf5, its version, its symbols, also where it is linked into the program |
//! | `functions` | the macro that declares a table of functions |
//! | `calls`, `open_id`, `arena` | the calls of a library by which files are written and read; its identifiers; memory lent to it |
//! | `build_facts` | what a library tells of its build and of its search path |
//! | `slots` | a place for each libhdf5 |
//! | `error_stack` | HDF5's error stack, kept over calls of ours and added to |
//! | `check` | a libhdf5 that plug-ins are tested with (feature `check`) |
//! | `hdf5_types` | names of HDF5's headers |

pub mod arena;
mod build_facts;
pub mod calls;
#[cfg(feature = "check")]
pub mod check;
pub mod entry;
pub mod error_stack;
pub mod find;
pub mod functions;
mod handle;
pub mod hdf5_types;
pub mod installed;
pub mod library;
mod load;
pub mod open_id;
pub mod python_packages;
pub mod slots;
mod symbol_table;

pub use calls::{Hdf5Calls, HyperslabTransfer};
pub use error_stack::ErrorStack;
pub use library::Hdf5Library;
pub use open_id::OpenId;
pub use slots::LibrarySlots;
