//! HDF5: read in place, without the HDF5 library.
//!
//! ```text
//! superblock ─► root group ─► links ─► object headers ─► messages ─► chunk index ─► Container
//!    file         group      tree_*       header         message/*      index/*       walk
//! ```
//!
//! The order of the files follows that road; `cursor` is what all of them read with, `shared`, `local_heap`,
//! `fractal_heap`, `tree_v1` and `tree_v2` are the structures they meet on the way, `array` describes one
//! variable, `axes` what its axes are called and what NetCDF-4 makes of it, `external`, `virtual_layout` and `mapped`
//! those whose values lie elsewhere.

mod array;
mod attributes;
pub(crate) mod axes;
mod cursor;
mod external;
mod file;
mod fractal_heap;
mod group;
mod header;
mod index;
mod local_heap;
mod mapped;
mod message;
mod overlap;
mod shared;
mod tree_v1;
mod tree_v2;
mod virtual_layout;
mod walk;

use std::sync::Arc;

use forebay_source::{Locator, Origin, Result, Source};

use crate::{Container, Format, Found};

pub(crate) use file::{File, find_superblock, superblock_in};
pub(crate) use walk::NamedType;

/// Describes the file at `at`, and its named types: formats on top of HDF5 hang attributes on them.
pub(crate) fn describe_with_types(origin: &dyn Origin, at: &Locator) -> Result<(Container, Vec<NamedType>)> {
    walk::describe_with_types(origin, at)
}

/// True when the root group of the HDF5 file `file` has a link called `name`.
pub(crate) fn root_has(file: &File, name: &str) -> bool {
    // What is wrong with the file is said by whoever describes it.
    header::Header::read(file, file.root)
        .and_then(|header| group::has_link(file, &header, name))
        .unwrap_or(false)
}

/// True when `source` is an HDF5 file whose root group has a link called `name`; false for any other file.
pub(crate) fn source_has(source: &Arc<dyn Source>, name: &str) -> bool {
    File::open(Arc::clone(source), crate::SourceIndex(0)).is_ok_and(|file| root_has(&file, name))
}

/// The HDF5 format, and with it NetCDF-4 and every other format built on HDF5.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hdf5;

impl Format for Hdf5 {
    fn name(&self) -> &str {
        "hdf5"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        found.probe_superblock()
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        walk::describe(found.origin, found.at, found.hdf5()?)
    }
}
