//! The chunks of a data set and their places, as the native connector lists them.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time, and is called by it")]

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr::null_mut,
};

use crate::{
    dataset::under_dataset::UnderDataset, hdf5_arguments::OptionalArguments, slots::LoadedLibrary,
    units::data_places::ChunkAddresses,
};
use forebay_libhdf5::hdf5_types::{haddr_t, hsize_t};
use forebay_process::guard;

/// `H5VL_NATIVE_DATASET_GET_CHUNK_INDEX_TYPE`
const CHUNK_INDEX: c_int = 1;
/// `H5VL_NATIVE_DATASET_CHUNK_ITER`
const CHUNK_ITER: c_int = 10;
/// `H5D_CHUNK_IDX_EARRAY`
const EXTENSIBLE_ARRAY: c_int = 4;
/// `H5S_UNLIMITED`
const UNLIMITED: u64 = u64::MAX;

/// `H5VL_native_dataset_chunk_iter_t`
#[repr(C)]
struct ChunkIter {
    each: unsafe extern "C" fn(*const hsize_t, c_uint, haddr_t, hsize_t, *mut c_void) -> c_int,
    context: *mut c_void,
}

/// What is being filled in.
struct Listing {
    places: ChunkAddresses,
    is_right: bool,
}

/// Fills in the places of all chunks of `dataset`; `None` where some has none, or where the list cannot be trusted.
pub(crate) fn placed(
    library: &LoadedLibrary,
    dataset: UnderDataset,
    places: ChunkAddresses,
    largest: &[u64],
) -> Option<ChunkAddresses> {
    // HDF5 lists chunks of an extensible array in wrong places where the dimension that grows is not the first.
    let grows = largest.iter().position(|extent| *extent == UNLIMITED);
    if grows.is_some_and(|axis| axis > 0) && index_kind(library, dataset)? == EXTENSIBLE_ARRAY {
        return None;
    }
    let mut listing = Listing { places, is_right: true };
    let mut wanted = ChunkIter { each: place_one, context: (&raw mut listing).cast() };
    ask(library, dataset, CHUNK_ITER, (&raw mut wanted).cast())?;
    (listing.is_right && listing.places.is_complete()).then_some(listing.places)
}

fn index_kind(library: &LoadedLibrary, dataset: UnderDataset) -> Option<c_int> {
    let mut kind = -1;
    let mut place = &raw mut kind;
    ask(library, dataset, CHUNK_INDEX, (&raw mut place).cast())?;
    Some(kind)
}

fn ask(
    library: &LoadedLibrary,
    dataset: UnderDataset,
    operation: c_int,
    arguments: *mut c_void,
) -> Option<()> {
    let mut question = OptionalArguments { operation, arguments };
    let function = library.functions.H5VLdataset_optional;
    // SAFETY: an open data set of that connector, and the arguments that the header declares for the operation.
    let answer = unsafe {
        function(
            dataset.object,
            dataset.connector,
            (&raw mut question).cast(),
            library.default_transfer(),
            null_mut(),
        )
    };
    (answer >= 0).then_some(())
}

/// HDF5 calls this with each chunk: its first element, its filter mask, its address and its length in the file.
unsafe extern "C" fn place_one(
    start: *const hsize_t,
    mask: c_uint,
    address: haddr_t,
    len: hsize_t,
    context: *mut c_void,
) -> c_int {
    guard(-1, || {
        // SAFETY: the context that was given with this function, and as many offsets as the data set has dimensions.
        let (listing, start) = unsafe {
            let listing = &mut *context.cast::<Listing>();
            let ndim = listing.places.ndim();
            (listing, std::slice::from_raw_parts(start, ndim))
        };
        let is_plain = mask == 0 && len == listing.places.chunk_len();
        listing.is_right &= is_plain && listing.places.place(start, address);
        0
    })
}
