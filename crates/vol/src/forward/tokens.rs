//! Tokens: names of objects within a file.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_plugin::hdf5_types::herr_t;

use super::asks;
use crate::{functions::RawPointer, slots, vol_object::object_at};

asks!(compare, H5VLtoken_cmp, one: RawPointer, other: RawPointer, order: *mut c_int);

/// The text of a token.
pub(crate) unsafe extern "C" fn to_text<const N: usize>(
    object: RawPointer,
    kind: c_int,
    token: RawPointer,
    text: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback.
    unsafe {
        let object = object_at(object);
        (library.functions.H5VLtoken_to_str)(object.under, kind, object.connector, token, text)
    }
}

/// The token of a text.
pub(crate) unsafe extern "C" fn from_text<const N: usize>(
    object: RawPointer,
    kind: c_int,
    text: RawPointer,
    token: RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback.
    unsafe {
        let object = object_at(object);
        (library.functions.H5VLtoken_from_str)(object.under, kind, object.connector, text, token)
    }
}
