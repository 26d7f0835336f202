//! A data set of a file that ranks have open together: what kind it is, and where its elements lie.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    cell::{Cell, RefCell},
    ffi::c_int,
    rc::Rc,
    sync::Arc,
};

use crate::{
    dataset::{element_type, under_dataset::UnderDataset},
    file::file_state::VolFile,
    hdf5_arguments::DatasetGetHandle,
    slots::LoadedLibrary,
    units::{
        data_places::{ChunkAddresses, DataPlaces},
        unit_grid::MOST_DIMENSIONS,
    },
};
use forebay_libhdf5::hdf5_types::hid_t;

use super::{chunk_table, parallel_file::ParallelFile};

/// `H5D_CONTIGUOUS`
const CONTIGUOUS: c_int = 1;
/// `H5D_CHUNKED`
const CHUNKED: c_int = 2;
/// `H5S_SIMPLE`
const SIMPLE: c_int = 1;

/// A data set of such a file.
#[derive(Debug)]
pub(crate) struct ParallelDataset {
    pub(crate) file: Arc<ParallelFile>,
    pub(crate) managed: Arc<VolFile>,
    /// The type in the file, a copy of our own, where all values lie in the element itself.
    pub(crate) kind: Option<hid_t>,
    /// How often the layouts of the file had changed when `placed` was found.
    seen: Cell<u64>,
    placed: RefCell<Option<Rc<PlacedDataset>>>,
}

/// How a data set lies in the file.
#[derive(Debug)]
pub(crate) struct PlacedDataset {
    pub(crate) shape: Vec<u64>,
    pub(crate) element_len: u64,
    pub(crate) places: DataPlaces,
}

impl ParallelDataset {
    /// The data set `under` of `managed`, a file that ranks have open together as `file`.
    pub(crate) fn new(
        library: &LoadedLibrary,
        under: UnderDataset,
        managed: Arc<VolFile>,
        file: Arc<ParallelFile>,
    ) -> Self {
        let kind = fixed_kind(library, under);
        Self { file, managed, kind, seen: Cell::new(u64::MAX), placed: RefCell::default() }
    }

    /// Gives back the type.
    pub(crate) fn close(self, library: &LoadedLibrary) {
        if let Some(kind) = self.kind {
            // SAFETY: a copy of our own.
            unsafe { (library.functions.H5Tclose)(kind) };
        }
    }

    /// Where its elements lie; `None` where that is not known of all. The same on every rank.
    pub(crate) fn placed(&self, library: &LoadedLibrary, under: UnderDataset) -> Option<Rc<PlacedDataset>> {
        let kind = self.kind?;
        let now = self.file.layout_changes();
        if self.seen.replace(now) != now {
            let found = library.quietly(|| find_places(library, under, kind));
            *self.placed.borrow_mut() = found.map(Rc::new);
        }
        self.placed.borrow().clone()
    }
}

/// A copy of the type of `under`, where its values lie in the element itself.
fn fixed_kind(library: &LoadedLibrary, under: UnderDataset) -> Option<hid_t> {
    let functions = &library.functions;
    under.with_handle(library, DatasetGetHandle::kind(), functions.H5Tclose, |kind| {
        if !element_type::is_fixed(library, kind) {
            return None;
        }
        // SAFETY: an open type.
        Some(unsafe { (functions.H5Tcopy)(kind) }).filter(|copy| *copy >= 0)
    })
}

fn find_places(library: &LoadedLibrary, under: UnderDataset, kind: hid_t) -> Option<PlacedDataset> {
    let functions = &library.functions;
    if under.is_unlinked(library) {
        return None;
    }
    // SAFETY: an open type.
    let element_len = unsafe { (functions.H5Tget_size)(kind) } as u64;
    let (shape, largest) =
        under.with_handle(library, DatasetGetHandle::space(), functions.H5Sclose, |space| {
            extents(library, space)
        })?;
    if shape.contains(&0) || element_len == 0 {
        return None;
    }
    let layout = under.with_handle(library, DatasetGetHandle::creation(), functions.H5Pclose, |list| {
        plain_layout(library, list)
    })?;
    let places = match layout {
        None => DataPlaces::Contiguous(under.offset(library)?),
        Some(chunk) => {
            let unplaced = ChunkAddresses::unplaced(&shape, &chunk, element_len)?;
            DataPlaces::Chunked(chunk_table::placed(library, under, unplaced, &largest)?)
        }
    };
    Some(PlacedDataset { shape, element_len, places })
}

/// The extents of `space` now and at most.
fn extents(library: &LoadedLibrary, space: hid_t) -> Option<(Vec<u64>, Vec<u64>)> {
    let functions = &library.functions;
    let (mut shape, mut largest) = ([0; MOST_DIMENSIONS], [0; MOST_DIMENSIONS]);
    // SAFETY: an open space, and room for as many extents as HDF5 allows.
    let ndim = unsafe {
        if (functions.H5Sget_simple_extent_type)(space) != SIMPLE {
            return None;
        }
        (functions.H5Sget_simple_extent_dims)(space, shape.as_mut_ptr(), largest.as_mut_ptr())
    };
    let ndim = usize::try_from(ndim).ok().filter(|ndim| *ndim > 0)?;
    Some((shape.get(..ndim)?.to_vec(), largest.get(..ndim)?.to_vec()))
}

/// The chunk of a creation list, or that there are none; `None` where bytes in the file are not those in memory, or lie elsewhere.
fn plain_layout(library: &LoadedLibrary, list: hid_t) -> Option<Option<Vec<u64>>> {
    let functions = &library.functions;
    let mut chunk = [0; MOST_DIMENSIONS];
    // SAFETY: an open creation list, and room for as many extents as HDF5 allows.
    unsafe {
        if (functions.H5Pget_external_count)(list) != 0 || (functions.H5Pget_nfilters)(list) != 0 {
            return None;
        }
        match (functions.H5Pget_layout)(list) {
            CONTIGUOUS => Some(None),
            CHUNKED => {
                let most = c_int::try_from(MOST_DIMENSIONS).ok()?;
                let ndim = (functions.H5Pget_chunk)(list, most, chunk.as_mut_ptr());
                Some(Some(chunk.get(..usize::try_from(ndim).ok()?)?.to_vec()))
            }
            _ => None,
        }
    }
}
