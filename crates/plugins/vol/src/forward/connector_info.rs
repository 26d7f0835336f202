//! What a file access list says of this connector: copied, compared, freed, written and read.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::{
    ffi::{CStr, c_char, c_int},
    ptr::null_mut,
};

use forebay_libhdf5::hdf5_types::herr_t;
use forebay_process::guard;

use super::FAILED;
use crate::{functions::RawPointer, info::UnderConnector, slots};

/// A copy of `info`.
pub(crate) unsafe extern "C" fn copy<const N: usize>(info: RawPointer) -> RawPointer {
    // SAFETY: HDF5 hands over what this connector has made.
    let info = unsafe { &*info.cast::<UnderConnector>() };
    let copy = guard(None, || info.duplicate(slots::library::<N>()));
    copy.map_or(null_mut(), |copy| Box::into_raw(Box::new(copy)).cast())
}

/// Whether two say the same: the connector below, and what it is told.
pub(crate) unsafe extern "C" fn compare<const N: usize>(
    order: *mut c_int,
    one: RawPointer,
    other: RawPointer,
) -> herr_t {
    let functions = &slots::library::<N>().functions;
    // SAFETY: HDF5 hands over what this connector has made, and a place for the answer.
    unsafe {
        let (one, other) = (&*one.cast::<UnderConnector>(), &*other.cast::<UnderConnector>());
        *order = 0;
        if (functions.H5VLcmp_connector_cls)(order, one.connector, other.connector) < 0 {
            return FAILED;
        }
        if *order == 0 && (functions.H5VLcmp_connector_info)(order, one.connector, one.info, other.info) < 0 {
            return FAILED;
        }
        if *order == 0 {
            *order = (&one.config, one.cache).cmp(&(&other.config, other.cache)) as c_int;
        }
    }
    0
}

/// Ends `info`.
pub(crate) unsafe extern "C" fn free<const N: usize>(info: RawPointer) -> herr_t {
    let library = slots::library::<N>();
    // Freed after calls that failed, too: what they left on the error stack stays.
    library.errors.kept(|| {
        // SAFETY: made by `copy` or `from_text`, and not used again.
        unsafe { Box::from_raw(info.cast::<UnderConnector>()) }.release(library);
    });
    0
}

/// The text of `info`, in memory that HDF5 frees.
pub(crate) unsafe extern "C" fn to_text<const N: usize>(info: RawPointer, into: *mut *mut c_char) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: HDF5 hands over what this connector has made.
    let info = unsafe { &*info.cast::<UnderConnector>() };
    let text = guard(String::new(), || info.to_text(library)).replace('\0', " ");
    // SAFETY: memory for the text and its NUL, and a place for its address.
    unsafe {
        let memory = (library.functions.H5allocate_memory)(text.len() + 1, true).cast::<c_char>();
        if memory.is_null() {
            return FAILED;
        }
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), memory, text.len());
        *memory.add(text.len()) = 0;
        *into = memory;
    }
    0
}

/// What `text` says.
pub(crate) unsafe extern "C" fn from_text<const N: usize>(
    text: *const c_char,
    into: *mut RawPointer,
) -> herr_t {
    let text = if text.is_null() {
        String::new()
    } else {
        // SAFETY: HDF5 hands over a text that ends in NUL.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    let made = guard(None, || UnderConnector::from_text(slots::library::<N>(), &text));
    let Some(made) = made else { return FAILED };
    // SAFETY: a place for the answer, which is freed by `free`.
    unsafe { *into = Box::into_raw(Box::new(made)).cast() };
    0
}
