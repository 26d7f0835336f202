//! Transfer lists: whether a read is a plain one.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::ptr::null_mut;

use forebay_libhdf5::hdf5_types::hid_t;

use crate::slots::LoadedLibrary;

/// True when the list asks for nothing that changes values: no data transform, no conversion callback of the program.
pub(crate) fn is_plain(library: &LoadedLibrary, transfer: hid_t) -> bool {
    let default = library.default_transfer();
    if transfer == 0 || transfer == default {
        return true;
    }
    let functions = &library.functions;
    // SAFETY: a list that HDF5 handed to a callback, and its default one.
    if unsafe { (functions.H5Pequal)(transfer, default) } > 0 {
        return true;
    }
    library.quietly(|| {
        let (mut callback, mut context) = (null_mut(), null_mut());
        // SAFETY: as above; without room for it the length of the transform is told.
        unsafe {
            (functions.H5Pget_data_transform)(transfer, null_mut(), 0) <= 0
                && (functions.H5Pget_type_conv_cb)(transfer, &raw mut callback, &raw mut context) >= 0
                && callback.is_null()
        }
    })
}
