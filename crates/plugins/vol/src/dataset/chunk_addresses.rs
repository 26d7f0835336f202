//! Programs that ask where chunks lie read the file themselves, as PyTables does for Blosc2: it is written directly from then on.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use forebay_libhdf5::hdf5_types::hid_t;

use crate::{
    functions::RawPointer,
    hdf5_arguments::{DATASET, GetFirst, OptionalArguments, SelfLocation},
    slots::LoadedLibrary,
    vol_object::VolObject,
};

/// `H5VL_NATIVE_DATASET_…` operations that tell places in the file: of a chunk by number or position, of the data, of all chunks.
const TELL_ADDRESSES: [c_int; 4] = [4, 5, 9, 10];
/// `H5VL_NATIVE_FILE_GET_VFD_HANDLE`
const GET_DESCRIPTOR: c_int = 9;

/// The arguments of [`GET_DESCRIPTOR`].
#[repr(C)]
struct GetDescriptor {
    access: hid_t,
    into: *mut *mut c_void,
}

/// Has the driver write the file of the data set `object` directly if `operation` tells addresses: it does so once somebody has
/// asked for its descriptor.
pub(crate) fn before_told(library: &LoadedLibrary, object: &VolObject, operation: c_int) {
    if !TELL_ADDRESSES.contains(&operation) {
        return;
    }
    let Some(file) = library.quietly(|| file_of(library, object, DATASET)) else { return };
    let mut descriptor = null_mut();
    let mut wanted = GetDescriptor { access: 0, into: &raw mut descriptor };
    let mut arguments = OptionalArguments { operation: GET_DESCRIPTOR, arguments: (&raw mut wanted).cast() };
    let arguments = (&raw mut arguments).cast();
    // SAFETY: an open file of the native connector, and arguments as the headers say.
    library.quietly(|| unsafe {
        (library.functions.H5VLfile_optional)(
            file,
            object.connector,
            arguments,
            library.default_transfer(),
            null_mut(),
        )
    });
}

/// The native connector's file of `object`, which is of `kind`.
pub(crate) fn file_of(library: &LoadedLibrary, object: &VolObject, kind: c_int) -> Option<RawPointer> {
    let mut file: RawPointer = null_mut();
    let mut asked = GetFirst::answered_at((&raw mut file).cast());
    let (get, mut location) = (library.functions.H5VLobject_get, SelfLocation::of(kind));
    if !is_native(library, object) {
        return None;
    }
    let (at, asked) = ((&raw mut location).cast(), (&raw mut asked).cast());
    // SAFETY: an open object of the native connector, which answers with its own file, and arguments as the headers say.
    let found =
        unsafe { get(object.under, at, object.connector, asked, library.default_transfer(), null_mut()) };
    (found >= 0 && !file.is_null()).then_some(file)
}

/// Whether the connector below is HDF5's own: others may answer with a file that is not theirs.
fn is_native(library: &LoadedLibrary, object: &VolObject) -> bool {
    let mut value = -1;
    // SAFETY: a registered connector, of which the object holds a reference, and a place for the answer.
    unsafe { (library.functions.H5VLget_value)(object.connector, &raw mut value) >= 0 && value == 0 }
}
