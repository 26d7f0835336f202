//! HDF5: read in place, without the HDF5 library.
//!
//! ```text
//! superblock ─► root group ─► links ─► object headers ─► messages ─► chunk index ─► Container
//!    file         group      tree_*       header         message/*      index/*       walk
//! ```
//!
//! The order of the files follows that road; `cursor` is what all of them read with, `shared`, `local_heap`,
//! `fractal_heap`, `tree_v1` and `tree_v2` are the structures they meet on the way, `array` describes one
//! variable, `external`, `virtual_layout` and `mapped` those whose values lie elsewhere.

mod array;
mod attributes;
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
mod shared;
mod tree_v1;
mod tree_v2;
mod virtual_layout;
mod walk;

use forebay_source::{Locator, Origin, Result};

use crate::{Container, Format};

/// The HDF5 format, and with it NetCDF-4 and every other format built on HDF5.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hdf5;

impl Format for Hdf5 {
    fn name(&self) -> &'static str {
        "hdf5"
    }

    fn probe(&self, origin: &dyn Origin, at: &Locator) -> Result<bool> {
        Ok(file::find_superblock(&*origin.open(at)?)?.is_some())
    }

    fn describe(&self, origin: &dyn Origin, at: &Locator) -> Result<Container> {
        walk::describe(origin, at).map_err(|error| error.at(at))
    }
}
