//! Objects that HDF5 makes below this connector, and wraps for those above.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::{ffi::c_int, ptr::null_mut};

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};

use super::{FAILED, below};
use crate::{
    functions::RawPointer,
    slots,
    vol_object::{drop_object, object_at, wrap},
};

/// What it takes to wrap objects of one file: the connector below, and its own context.
#[derive(Debug)]
struct WrapContext {
    connector: hid_t,
    under: RawPointer,
}

/// The object of the lowest connector.
pub(crate) unsafe extern "C" fn get_object<const N: usize>(object: RawPointer) -> RawPointer {
    // SAFETY: as for every callback.
    unsafe {
        let object = object_at(object);
        (slots::library::<N>().functions.H5VLget_object)(object.under, object.connector)
    }
}

/// What wraps objects like `object`.
pub(crate) unsafe extern "C" fn get_context<const N: usize>(
    object: RawPointer,
    into: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; `into` is a place for the context, which is freed by `free_context`.
    unsafe {
        let object = object_at(object);
        let mut under = null_mut();
        if (library.functions.H5VLget_wrap_ctx)(object.under, object.connector, &raw mut under) < 0 {
            return FAILED;
        }
        (library.functions.H5Iinc_ref)(object.connector);
        *into = Box::into_raw(Box::new(WrapContext { connector: object.connector, under })).cast();
    }
    0
}

/// A handle of ours for an object from below.
pub(crate) unsafe extern "C" fn wrap_object<const N: usize>(
    object: RawPointer,
    kind: c_int,
    context: RawPointer,
) -> RawPointer {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; the context is one of ours.
    unsafe {
        let context = &*context.cast::<WrapContext>();
        let under = (library.functions.H5VLwrap_object)(object, kind, context.connector, context.under);
        wrap(library, under, context.connector)
    }
}

/// The object below a handle of ours, which ends.
pub(crate) unsafe extern "C" fn unwrap_object<const N: usize>(object: RawPointer) -> RawPointer {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; a handle that was unwrapped is not used again.
    unsafe {
        let (under, connector) = below(object);
        let under = (library.functions.H5VLunwrap_object)(under, connector);
        if !under.is_null() {
            drop_object(library, object);
        }
        under
    }
}

/// Ends a context.
pub(crate) unsafe extern "C" fn free_context<const N: usize>(context: RawPointer) -> herr_t {
    let library = slots::library::<N>();
    // HDF5 frees contexts after calls that failed, too: what they left on the error stack stays.
    library.errors.kept(|| {
        // SAFETY: as for every callback; the context is one of ours and not used again.
        unsafe {
            let context = Box::from_raw(context.cast::<WrapContext>());
            let answer = match context.under.is_null() {
                true => 0,
                false => (library.functions.H5VLfree_wrap_ctx)(context.under, context.connector),
            };
            (library.functions.H5Idec_ref)(context.connector);
            answer
        }
    })
}
