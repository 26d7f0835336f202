//! HDF5 files described in place, without the HDF5 library: every variable, every chunk's address, every filter.
//!
//! ```text
//! superblock ─► root group ─► links ─► object headers ─► messages ─► chunk index ─► Container
//!    file         group      tree_*       header         message/*      index/*       walk
//! ```
//!
//! [`describe`] ends at a [`Container`], plain data that can be saved and sent. What a file says is never trusted: whatever
//! its bytes are, it gives a container or an error that names the structure and its address, and takes no more memory than the
//! file's length justifies.
//!
//! ```no_run
//! use forebay_container::Extents;
//! use forebay_source::{FileOrigin, Locator};
//!
//! let container = forebay_hdf5::describe(&FileOrigin::new(), &Locator::new("train.h5"))?;
//! for variable in &container.variables {
//!     println!("{} {:?} in chunks of {:?}", variable.name, variable.grid.shape, variable.grid.chunk);
//!     if let Extents::Chunks(chunks) = &variable.extents {
//!         for (number, extent) in chunks.iter() {
//!             println!("  chunk {number}: {} bytes at {:#x}", extent.range.len(), extent.range.start);
//!         }
//!     }
//! }
//! # Ok::<(), forebay_process::Error>(())
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `cursor` | how all of them read metadata |
//! | `metadata` | bytes of a file by address, within an allowance |
//! | `file` | the superblock, and a file that is open |
//! | `header`, `message/`, `shared` | object headers, their messages, and those that several share (SOHM) |
//! | `group`, `local_heap`, `fractal_heap`, `tree_v1`, `tree_v2` | links and attributes, and the heaps and B-trees they lie in |
//! | `array`, `index/` | one variable, and the chunk indexes of all versions |
//! | `external`, `virtual_layout`, `mapped`, `overlap` | values in other files: raw external files and virtual data sets (VDS) |
//! | `attributes`, `axes` | attributes, dimension scales, what NetCDF-4 makes of them |
//! | `global_heap`, `heap_fill` | variable-length values, as an array or each where it shall stand |
//! | `swmr` | files that grow while they are read (single writer, multiple readers) |
//! | `files`, `placement` | the files that were opened, and where a variable's values are looked for in them |
//! | `walk`, `walk_order` | all of it, from the root group on, in the order of the file |

mod array;
mod attributes;
mod axes;
mod cursor;
mod external;
mod file;
mod files;
mod fractal_heap;
mod global_heap;
mod group;
mod header;
mod heap_fill;
mod index;
mod local_heap;
mod mapped;
mod message;
mod metadata;
mod overlap;
mod placement;
mod shared;
mod swmr;
mod tree_v1;
mod tree_v2;
mod virtual_layout;
mod walk;
mod walk_order;

use std::sync::Arc;

use forebay_container::{Container, SourceIndex};
use forebay_process::Result;
use forebay_source::{Locator, Origin, Source};

pub use file::{File, find_superblock, superblock_in};
pub use global_heap::HeapReader;
pub use heap_fill::{HeapFill, HeapReference, fill_from_heap};
pub use swmr::{SwmrSource, explained as explain_swmr};
pub use walk::{NamedType, describe_opened};

/// Describes the file at `at`.
pub fn describe(origin: &dyn Origin, at: &Locator) -> Result<Container> {
    walk::describe(origin, at)
}

/// Describes the file at `at`, and its named types: formats on top of HDF5 hang attributes on them.
pub fn describe_with_types(origin: &dyn Origin, at: &Locator) -> Result<(Container, Vec<NamedType>)> {
    walk::describe_with_types(origin, at)
}

/// True when the root group of the HDF5 file `file` has a link called `name`.
pub fn root_has(file: &File, name: &str) -> bool {
    // What is wrong with the file is said when it is described.
    file.header(file.root).and_then(|header| group::has_link(file, &header, name)).unwrap_or(false)
}

/// True when `source` is an HDF5 file whose root group has a link called `name`; false for any other file.
pub fn source_has(source: &Arc<dyn Source>, name: &str) -> bool {
    File::open(Arc::clone(source), SourceIndex(0)).is_ok_and(|file| root_has(&file, name))
}
