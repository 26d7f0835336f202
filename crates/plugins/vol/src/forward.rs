//! Callbacks that hand each call to the connector below, on the object that ours stands for.
//!
//! Each is compiled once per slot (`N`), as HDF5 passes nothing by which a callback could tell which library calls it.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_libhdf5::hdf5_types::hid_t;

use crate::{functions::RawPointer, vol_object::object_at};

pub(crate) mod attributes;
pub(crate) mod blobs;
pub(crate) mod connector_info;
pub(crate) mod datasets;
pub(crate) mod datatypes;
pub(crate) mod file_close;
pub(crate) mod files;
pub(crate) mod groups;
pub(crate) mod introspection;
pub(crate) mod links;
pub(crate) mod objects;
mod rank_transfers;
pub(crate) mod requests;
pub(crate) mod tokens;
mod transfers;
pub(crate) mod wrapping;

/// The answer of a call that failed.
pub(crate) const FAILED: c_int = -1;

/// The object below `object`, one of ours, and its connector. Read before a call: a refresh may replace the object.
///
/// # Safety
/// `object` is one that HDF5 handed to a callback.
pub(crate) unsafe fn below(object: RawPointer) -> (RawPointer, hid_t) {
    // SAFETY: as promised by the caller.
    let object = unsafe { object_at(object) };
    (object.under, object.connector)
}

/// A callback that opens or creates an object at a location; `then` is called with what was made.
macro_rules! opens {
    ($name:ident, $function:ident, $($given:ident: $kind:ty),* $(; then $then:path)?) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            location: $crate::functions::RawPointer,
            $($given: $kind,)*
            request: *mut $crate::functions::RawPointer,
        ) -> $crate::functions::RawPointer {
            let library = $crate::slots::library::<N>();
            // SAFETY: HDF5 hands a callback an object that this connector made, and arguments by the header's contract.
            unsafe {
                let (under, connector) = $crate::forward::below(object);
                let made = (library.functions.$function)(under, location, connector, $($given,)* request);
                $crate::vol_object::wrap_request(library, request, connector);
                let made = $crate::vol_object::wrap(library, made, connector);
                $(if !made.is_null() {
                    $then(library, $crate::vol_object::object_at(made));
                })?
                made
            }
        }
    };
}

/// A callback on an object with the arguments that are named, and a location before them where it is `at` one. What `first` answers
/// to those that are named for it is the answer; where that is nothing, the connector below is asked.
macro_rules! passes {
    ($name:ident, $function:ident $(at $location:ident)? $(, $given:ident: $kind:ty)* $(; first $first:ident($($passed:ident),*))?) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            $($location: $crate::functions::RawPointer,)?
            $($given: $kind,)*
            transfer: forebay_libhdf5::hdf5_types::hid_t,
            request: *mut $crate::functions::RawPointer,
        ) -> forebay_libhdf5::hdf5_types::herr_t {
            let library = $crate::slots::library::<N>();
            // SAFETY: as for every callback.
            unsafe {
                $(if let Some(answer) = $first(library, $crate::vol_object::object_at(object), $($passed),*) {
                    return answer;
                })?
                let (under, connector) = $crate::forward::below(object);
                let answer =
                    (library.functions.$function)(under, $($location,)? connector, $($given,)* transfer, request);
                $crate::vol_object::wrap_request(library, request, connector);
                answer
            }
        }
    };
}

/// A callback that closes an object.
macro_rules! closes {
    ($name:ident, $function:ident) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            transfer: forebay_libhdf5::hdf5_types::hid_t,
            request: *mut $crate::functions::RawPointer,
        ) -> forebay_libhdf5::hdf5_types::herr_t {
            let library = $crate::slots::library::<N>();
            // SAFETY: as for every callback; an object whose closing succeeded is not used again.
            unsafe {
                let (under, connector) = $crate::forward::below(object);
                let answer = (library.functions.$function)(under, connector, transfer, request);
                $crate::vol_object::wrap_request(library, request, connector);
                if answer >= 0 {
                    $crate::vol_object::drop_object(library, object);
                }
                answer
            }
        }
    };
}

/// A callback on an object, or on a request, with the plain arguments that are named, of which some may come before the connector.
macro_rules! asks {
    ($name:ident, $function:ident $(of $early:ident: $early_kind:ty)? $(, $given:ident: $kind:ty)*) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            $($early: $early_kind,)?
            $($given: $kind,)*
        ) -> forebay_libhdf5::hdf5_types::herr_t {
            let library = $crate::slots::library::<N>();
            // SAFETY: as for every callback.
            unsafe {
                let (under, connector) = $crate::forward::below(object);
                (library.functions.$function)(under, $($early,)? connector, $($given),*)
            }
        }
    };
}

use {asks, closes, opens, passes};
