//! A libhdf5 found at run time: the one that has called a plug-in, its functions, its error stack.
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
//! | `library`, `symbol_table` | the libhdf5 that an address belongs to, its version, its symbols, also where it is linked into the program |
//! | `functions` | the macro that declares a table of functions, and the table of the error stack |
//! | `slots` | a place for each libhdf5 |
//! | `error_stack` | HDF5's error stack, kept over calls of ours and added to |
//! | `hdf5_types` | names of HDF5's headers |

pub mod entry;
pub mod error_stack;
pub mod functions;
pub mod hdf5_types;
pub mod library;
pub mod slots;
mod symbol_table;

pub use error_stack::ErrorStack;
pub use library::Hdf5Library;
pub use slots::LibrarySlots;
