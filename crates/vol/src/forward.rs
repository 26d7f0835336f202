//! Callbacks that hand each call to the connector below, on the object that ours stands for.
//!
//! Each is compiled once per slot (`N`), as HDF5 passes nothing by which a callback could tell which library calls it.

use std::ffi::c_int;

pub(crate) mod attributes;
pub(crate) mod blobs;
pub(crate) mod connector_info;
pub(crate) mod datasets;
pub(crate) mod datatypes;
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

/// A callback that opens or creates an object at a location.
macro_rules! opens {
    ($name:ident, $function:ident, $($given:ident: $kind:ty),*) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            location: $crate::functions::RawPointer,
            $($given: $kind,)*
            request: *mut $crate::functions::RawPointer,
        ) -> $crate::functions::RawPointer {
            let library = $crate::slots::library::<N>();
            // SAFETY: HDF5 hands a callback an object that this connector made, and arguments by the header's contract.
            unsafe {
                let connector = $crate::vol_object::object_at(object).connector;
                let under = $crate::vol_object::object_at(object).under;
                let made = (library.functions.$function)(under, location, connector, $($given,)* request);
                $crate::vol_object::wrap_request(library, request, connector);
                $crate::vol_object::wrap(library, made, connector)
            }
        }
    };
}

/// A callback on an object that gets a struct of arguments, or the plain ones that are named.
macro_rules! passes {
    ($name:ident, $function:ident $(, $given:ident: $kind:ty)*) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            $($given: $kind,)*
            transfer: forebay_plugin::hdf5_types::hid_t,
            request: *mut $crate::functions::RawPointer,
        ) -> forebay_plugin::hdf5_types::herr_t {
            let library = $crate::slots::library::<N>();
            // SAFETY: as for every callback. The connector is read first: a refresh may replace the object.
            unsafe {
                let connector = $crate::vol_object::object_at(object).connector;
                let under = $crate::vol_object::object_at(object).under;
                let answer = (library.functions.$function)(under, connector, $($given,)* transfer, request);
                $crate::vol_object::wrap_request(library, request, connector);
                answer
            }
        }
    };
}

/// As `passes`, with a location before the arguments.
macro_rules! passes_at {
    ($name:ident, $function:ident) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            location: $crate::functions::RawPointer,
            arguments: $crate::functions::RawPointer,
            transfer: forebay_plugin::hdf5_types::hid_t,
            request: *mut $crate::functions::RawPointer,
        ) -> forebay_plugin::hdf5_types::herr_t {
            let library = $crate::slots::library::<N>();
            // SAFETY: as for every callback. The connector is read first: a refresh may replace the object.
            unsafe {
                let connector = $crate::vol_object::object_at(object).connector;
                let under = $crate::vol_object::object_at(object).under;
                let answer =
                    (library.functions.$function)(under, location, connector, arguments, transfer, request);
                $crate::vol_object::wrap_request(library, request, connector);
                answer
            }
        }
    };
}

/// A callback that closes an object.
macro_rules! closes {
    ($name:ident, $function:ident $(; first $first:ident)?) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            transfer: forebay_plugin::hdf5_types::hid_t,
            request: *mut $crate::functions::RawPointer,
        ) -> forebay_plugin::hdf5_types::herr_t {
            let library = $crate::slots::library::<N>();
            // SAFETY: as for every callback; an object whose closing succeeded is not used again.
            unsafe {
                $(if let Some(answer) = $first(library, $crate::vol_object::object_at(object)) {
                    return answer;
                })?
                let connector = $crate::vol_object::object_at(object).connector;
                let under = $crate::vol_object::object_at(object).under;
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

/// A callback on an object, or on a request, with the plain arguments that are named and no request of its own.
macro_rules! asks {
    ($name:ident, $function:ident $(, $given:ident: $kind:ty)*) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            object: $crate::functions::RawPointer,
            $($given: $kind,)*
        ) -> forebay_plugin::hdf5_types::herr_t {
            let library = $crate::slots::library::<N>();
            // SAFETY: as for every callback.
            unsafe {
                let object = $crate::vol_object::object_at(object);
                (library.functions.$function)(object.under, object.connector, $($given),*)
            }
        }
    };
}

use {asks, closes, opens, passes, passes_at};
