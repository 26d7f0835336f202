//! What has to be in the file before HDF5 looks at it: own writes, those of other ranks, or those of all together.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{ffi::c_int, sync::Arc};

use forebay_libhdf5::{
    error_stack::{ErrorNumbers, MajorError, MinorError},
    hdf5_types::herr_t,
};
use forebay_process::{Error, Result};

use super::parallel_file::ParallelFile;
use crate::{
    dataset::under_dataset::UnderDataset,
    file::file_state::VolFile,
    functions::RawPointer,
    hdf5_arguments::{DATASET, DATASET_SET_EXTENT},
    slots::LoadedLibrary,
    vol_object::VolObject,
};

/// `H5VL_NATIVE_FILE_…` operations that look at a file's bytes or its length: image, size, handle, conversion, growth.
const LOOKS_AT_BYTES: [c_int; 5] = [1, 8, 9, 17, 22];
/// `H5VL_NATIVE_FILE_SET_MPI_ATOMICITY`
const SET_ATOMICITY: c_int = 27;
/// `H5VL_OBJECT_CHANGE_REF_COUNT`
const CHANGE_REFERENCES: c_int = 0;
/// `H5VL_OBJECT_FLUSH`, `H5VL_OBJECT_REFRESH`
const OBJECT_LOOKS: [c_int; 2] = [4, 5];

/// Adds `error` to the errors of HDF5.
pub(crate) fn push_error(library: &LoadedLibrary, error: &Error) {
    let numbers = ErrorNumbers { major: MajorError::Vol, minor: MinorError::Write };
    library.errors.push(numbers, &error.to_string());
}

/// The answer of a callback for `outcome`: nothing where the connector below goes on.
pub(crate) fn refused(library: &LoadedLibrary, outcome: Result<()>) -> Option<herr_t> {
    let error = outcome.err()?;
    push_error(library, &error);
    Some(-1)
}

/// The managed file of `object`, which is of the kind that HDF5 numbers `kind`.
fn file_of(library: &LoadedLibrary, object: &VolObject, kind: c_int) -> Option<Arc<VolFile>> {
    if let Some(file) = &object.file {
        return Some(Arc::clone(file));
    }
    let under = UnderDataset { object: object.under, connector: object.connector };
    library.files.find(library.quietly(|| under.details(library, kind))?.file_number)
}

/// The file of `object`, if ranks have it open together.
pub(crate) fn parallel_of(
    library: &LoadedLibrary,
    object: &VolObject,
    kind: c_int,
) -> Option<Arc<ParallelFile>> {
    if !library.files.has_parallel() {
        return None;
    }
    file_of(library, object, kind)?.parallel().map(Arc::clone)
}

/// All ranks are about to change what `object` of `kind` stands for, and where its data lie. Collective.
pub(crate) fn before_change(library: &LoadedLibrary, object: &VolObject, kind: c_int) -> Result<()> {
    let Some(file) = parallel_of(library, object, kind) else { return Ok(()) };
    file.note_layouts();
    file.settle()
}

/// An operation on a data set: a resize is made by all ranks, a flush or a refresh by any of them.
pub(crate) fn before_dataset_operation(
    library: &LoadedLibrary,
    object: &VolObject,
    operation: c_int,
) -> Result<()> {
    match operation {
        DATASET_SET_EXTENT => before_change(library, object, DATASET),
        _ => before_look(library, object, DATASET),
    }
}

/// All ranks are about to flush `object` of `kind`. Collective.
pub(crate) fn before_flush(library: &LoadedLibrary, object: &VolObject, kind: c_int) -> Result<()> {
    parallel_of(library, object, kind).map_or(Ok(()), |file| file.settle())
}

/// One rank is about to look at, or change, bytes of `object` of `kind` by a way of its own.
pub(crate) fn before_look(library: &LoadedLibrary, object: &VolObject, kind: c_int) -> Result<()> {
    let Some(file) = parallel_of(library, object, kind) else { return Ok(()) };
    file.drain_all()
}

/// An operation on an object or a link at `location`, which begins with the kind of `object`.
///
/// # Safety
/// `location` and `arguments` are those of HDF5's callback.
pub(crate) unsafe fn before_object(
    library: &LoadedLibrary,
    object: &VolObject,
    location: RawPointer,
    arguments: RawPointer,
) -> Result<()> {
    // SAFETY: as promised by the caller.
    let (kind, operation) = unsafe { (*location.cast::<c_int>(), *arguments.cast::<c_int>()) };
    match operation {
        CHANGE_REFERENCES => before_change(library, object, kind),
        // One rank may do these alone.
        _ if OBJECT_LOOKS.contains(&operation) => before_look(library, object, kind),
        _ => Ok(()),
    }
}

/// An operation of the native connector on a file.
///
/// # Safety
/// `arguments` are those of the operation.
pub(crate) unsafe fn before_file_operation(
    object: &VolObject,
    operation: c_int,
    arguments: RawPointer,
) -> Result<()> {
    let Some(file) = object.file.as_ref().and_then(|file| file.parallel()) else { return Ok(()) };
    if operation == SET_ATOMICITY {
        let settled = file.settle();
        // SAFETY: as promised by the caller: a flag.
        file.set_atomic(!arguments.is_null() && unsafe { *arguments.cast::<bool>() });
        return settled;
    }
    if LOOKS_AT_BYTES.contains(&operation) { file.drain_all() } else { Ok(()) }
}
