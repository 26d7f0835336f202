//! The data set of the connector below, asked what it is and read box by box.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::c_int,
    ptr::{null, null_mut},
};

use crate::{
    dataset::{element_type, selection},
    functions::RawPointer,
    hdf5_arguments::{
        DATASET, DatasetGetHandle, ObjectDetails, ObjectGetInfo, OptionalArguments, SelfLocation,
    },
    slots::LoadedLibrary,
    units::unit_grid::{MOST_DIMENSIONS, UnitBox},
};
use bytes::Bytes;
use forebay_libhdf5::hdf5_types::{HADDR_UNDEF, hid_t};

/// `H5D_CONTIGUOUS`
const CONTIGUOUS: c_int = 1;
/// `H5D_CHUNKED`
const CHUNKED: c_int = 2;
/// `H5S_SIMPLE`
const SIMPLE: c_int = 1;
/// `H5S_SELECT_SET`
const SELECT_SET: c_int = 0;
/// `H5D_FILL_VALUE_UNDEFINED`: what was never written reads as whatever was in memory.
const NO_FILL_VALUE: c_int = 0;
/// `H5D_FILL_TIME_NEVER`
const NEVER_FILLED: c_int = 1;

/// An open data set of the connector below.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderDataset {
    pub(crate) object: RawPointer,
    pub(crate) connector: hid_t,
}

/// What has to be known of a data set to cache it.
#[derive(Debug)]
pub(crate) struct DatasetShape {
    pub(crate) shape: Vec<u64>,
    /// Extents of its chunks; `None` where it lies in one piece.
    pub(crate) chunk: Option<Vec<u64>>,
    /// A type of our own, which the caller closes.
    pub(crate) kind: hid_t,
    pub(crate) element_len: u64,
}

impl UnderDataset {
    /// What it is, where its values can be cached at all: an array of elements of a fixed length that lie in this file.
    pub(crate) fn describe(&self, library: &LoadedLibrary) -> Option<DatasetShape> {
        let functions = &library.functions;
        let shape = self.with_handle(library, DatasetGetHandle::space(), functions.H5Sclose, |space| {
            // SAFETY: an open dataspace.
            let is_array = unsafe { (functions.H5Sget_simple_extent_type)(space) == SIMPLE };
            selection::extents(library, space).filter(|shape| is_array && !shape.is_empty())
        })?;
        let chunk = self.with_handle(library, DatasetGetHandle::creation(), functions.H5Pclose, |list| {
            layout(library, list)
        })?;
        let kind = self.with_handle(library, DatasetGetHandle::kind(), functions.H5Tclose, |kind| {
            if !element_type::is_fixed(library, kind) {
                return None;
            }
            // A committed type would keep the file open: a copy does not.
            // SAFETY: an open type.
            Some(unsafe { (functions.H5Tcopy)(kind) }).filter(|copy| *copy >= 0)
        })?;
        // SAFETY: an open type.
        let element_len = unsafe { (functions.H5Tget_size)(kind) } as u64;
        Some(DatasetShape { shape, chunk, kind, element_len })
    }

    /// True when no link leads to the data set, or that is not known: the same on every rank.
    pub(crate) fn is_unlinked(&self, library: &LoadedLibrary) -> bool {
        self.details(library, DATASET).is_none_or(|details| details.references == 0)
    }

    /// What HDF5 knows of it as an object, which is of `kind`.
    pub(crate) fn details(&self, library: &LoadedLibrary, kind: c_int) -> Option<ObjectDetails> {
        let mut location = SelfLocation::of(kind);
        // SAFETY: the location is that of the object itself.
        unsafe { self.details_at(library, (&raw mut location).cast()) }
    }

    /// What HDF5 knows of the object at `location` of it.
    ///
    /// # Safety
    /// `location` is one of HDF5's, for this object.
    pub(crate) unsafe fn details_at(
        &self,
        library: &LoadedLibrary,
        location: RawPointer,
    ) -> Option<ObjectDetails> {
        let mut details = ObjectDetails::default();
        let mut arguments = ObjectGetInfo::basic(&raw mut details);
        let get = library.functions.H5VLobject_get;
        // SAFETY: an open object of that connector, a location of it, and arguments with the layout of the header.
        let answer = unsafe {
            get(
                self.object,
                location,
                self.connector,
                (&raw mut arguments).cast(),
                library.default_transfer(),
                null_mut(),
            )
        };
        (answer >= 0).then_some(details)
    }

    /// What `ask` makes of a handle that the data set gives, which is closed then.
    pub(crate) fn with_handle<R>(
        &self,
        library: &LoadedLibrary,
        mut question: DatasetGetHandle,
        close: unsafe extern "C" fn(hid_t) -> c_int,
        ask: impl FnOnce(hid_t) -> Option<R>,
    ) -> Option<R> {
        let get = library.functions.H5VLdataset_get;
        // SAFETY: an open data set of that connector, and arguments with the layout of the header.
        let answer = unsafe {
            get(
                self.object,
                self.connector,
                (&raw mut question).cast(),
                library.default_transfer(),
                null_mut(),
            )
        };
        if answer < 0 || question.handle < 0 {
            return None;
        }
        let found = ask(question.handle);
        // SAFETY: the handle was made for this question.
        unsafe { close(question.handle) };
        found
    }

    /// Where its bytes begin in the file, where they lie in one piece and the native connector is the one that knows.
    pub(crate) fn offset(&self, library: &LoadedLibrary) -> Option<u64> {
        let mut offset = HADDR_UNDEF;
        let mut place = &raw mut offset;
        let mut question = OptionalArguments::offset(&raw mut place);
        let ask = library.functions.H5VLdataset_optional;
        // SAFETY: as above; the answer goes to `offset`.
        let answer = unsafe {
            ask(
                self.object,
                self.connector,
                (&raw mut question).cast(),
                library.default_transfer(),
                null_mut(),
            )
        };
        (answer >= 0 && offset != HADDR_UNDEF).then_some(offset)
    }

    /// Reads `part` of a data set of `shape` as elements of `kind` into an array of the extents `unit`, which is at least as large.
    pub(crate) fn read_box(
        &self,
        library: &LoadedLibrary,
        array: &BoxedArray<'_>,
        part: &UnitBox,
        transfer: hid_t,
    ) -> Option<Bytes> {
        let mut bytes = vec![0_u8; array.padded_len];
        let file_space = Space::with_box(library, array.shape, &part.start, &part.count)?;
        let zeros = [0; MOST_DIMENSIONS];
        let memory_space = Space::with_box(library, array.unit, &zeros[..array.unit.len()], &part.count);
        let answer = memory_space.as_ref().map(|memory_space| {
            let (mut object, mut kind) = (self.object, array.kind);
            let (mut memory, mut file) = (memory_space.id, file_space.id);
            let mut into: RawPointer = bytes.as_mut_ptr().cast();
            // SAFETY: an open data set; spaces with as many elements each; memory for all elements of the unit.
            unsafe {
                (library.functions.H5VLdataset_read)(
                    1,
                    &raw mut object,
                    self.connector,
                    &raw mut kind,
                    &raw mut memory,
                    &raw mut file,
                    transfer,
                    &raw mut into,
                    null_mut(),
                )
            }
        });
        file_space.close(library);
        memory_space?.close(library);
        (answer? >= 0).then(|| Bytes::from(bytes))
    }
}

/// How boxes of a data set are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoxedArray<'a> {
    pub(crate) shape: &'a [u64],
    pub(crate) unit: &'a [u64],
    pub(crate) padded_len: usize,
    pub(crate) kind: hid_t,
}

/// A dataspace of our own with a box selected.
#[derive(Debug)]
struct Space {
    id: hid_t,
}

impl Space {
    fn with_box(library: &LoadedLibrary, shape: &[u64], start: &[u64], count: &[u64]) -> Option<Self> {
        let functions = &library.functions;
        let ndim = c_int::try_from(shape.len()).ok()?;
        // SAFETY: three lists of as many numbers as the space has dimensions.
        unsafe {
            let id = (functions.H5Screate_simple)(ndim, shape.as_ptr(), null());
            if id < 0 {
                return None;
            }
            let space = Self { id };
            let select = functions.H5Sselect_hyperslab;
            if select(id, SELECT_SET, start.as_ptr(), null(), count.as_ptr(), null()) < 0 {
                space.close(library);
                return None;
            }
            Some(space)
        }
    }

    fn close(self, library: &LoadedLibrary) {
        // SAFETY: a space of our own.
        unsafe { (library.functions.H5Sclose)(self.id) };
    }
}

/// Extents of chunks by a creation list; `None` where values lie elsewhere (virtual, external), in the header (compact), or
/// mean nothing before they are written.
fn layout(library: &LoadedLibrary, list: hid_t) -> Option<Option<Vec<u64>>> {
    let functions = &library.functions;
    let (mut fill, mut fill_time) = (NO_FILL_VALUE, NEVER_FILLED);
    let mut chunk = [0; MOST_DIMENSIONS];
    // SAFETY: an open creation list, and places for the answers.
    unsafe {
        if (functions.H5Pget_external_count)(list) > 0
            || (functions.H5Pfill_value_defined)(list, &raw mut fill) < 0
            || (functions.H5Pget_fill_time)(list, &raw mut fill_time) < 0
            || fill == NO_FILL_VALUE
            || fill_time == NEVER_FILLED
        {
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
