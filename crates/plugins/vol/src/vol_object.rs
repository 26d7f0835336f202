//! What a handle of the connector stands for: an object of the connector below, and what is known of it here.

#![expect(unsafe_code, reason = "HDF5 keeps objects of ours by address")]

use std::{cell::OnceCell, ptr::null_mut, sync::Arc};

use forebay_libhdf5::hdf5_types::hid_t;

use crate::{
    file::file_state::VolFile, functions::RawPointer, parallel::parallel_dataset::ParallelDataset,
    read::cached_dataset::CachedDataset, slots::LoadedLibrary,
};

/// An object of the connector below.
#[derive(Debug)]
pub(crate) struct VolObject {
    pub(crate) under: RawPointer,
    /// The connector below, of which a reference is held.
    pub(crate) connector: hid_t,
    /// The file, where this is one that is managed.
    pub(crate) file: Option<Arc<VolFile>>,
    /// What is cached of it, where it is a data set: known from its first read on.
    pub(crate) dataset: OnceCell<Option<Box<CachedDataset>>>,
    /// What is known of it where it is a data set of a file that ranks have open together.
    pub(crate) parallel: OnceCell<Option<Box<ParallelDataset>>>,
}

/// A new handle for `under`, an object of `connector`; null for null.
pub(crate) fn wrap(library: &LoadedLibrary, under: RawPointer, connector: hid_t) -> RawPointer {
    wrap_file(library, under, connector, None)
}

/// As [`wrap`], for a file that may be managed.
pub(crate) fn wrap_file(
    library: &LoadedLibrary,
    under: RawPointer,
    connector: hid_t,
    file: Option<Arc<VolFile>>,
) -> RawPointer {
    if under.is_null() {
        return null_mut();
    }
    // SAFETY: called inside a callback of this library, with a connector that is registered there.
    unsafe { (library.functions.H5Iinc_ref)(connector) };
    let object = VolObject { under, connector, file, dataset: OnceCell::new(), parallel: OnceCell::new() };
    Box::into_raw(Box::new(object)).cast()
}

/// Makes `request`, which the connector below has made, one of ours.
///
/// # Safety
/// `request` is null or points to a place for a request.
pub(crate) unsafe fn wrap_request(library: &LoadedLibrary, request: *mut RawPointer, connector: hid_t) {
    // SAFETY: as promised by the caller.
    unsafe {
        if !request.is_null() && !(*request).is_null() {
            *request = wrap(library, *request, connector);
        }
    }
}

/// Ends the handle `object`, whose object below is closed already.
///
/// # Safety
/// `object` was made by [`wrap`] and is not used again.
pub(crate) unsafe fn drop_object(library: &LoadedLibrary, object: RawPointer) {
    // SAFETY: as promised by the caller; the reference to the connector was taken by `wrap_file`.
    unsafe {
        let object = Box::from_raw(object.cast::<VolObject>());
        let connector = object.connector;
        if let Some(Some(dataset)) = object.dataset.into_inner() {
            dataset.close(library);
        }
        if let Some(Some(dataset)) = object.parallel.into_inner() {
            dataset.close(library);
        }
        (library.functions.H5Idec_ref)(connector);
    }
}

/// The object behind a handle.
///
/// # Safety
/// `object` was made by [`wrap`] and lives as long as the answer is used.
pub(crate) unsafe fn object_at<'a>(object: RawPointer) -> &'a VolObject {
    // SAFETY: as promised by the caller.
    unsafe { &*object.cast::<VolObject>() }
}
