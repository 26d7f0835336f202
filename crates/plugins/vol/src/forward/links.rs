//! Links.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::{ffi::c_int, ptr::null_mut};

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};
use forebay_process::guard;

use super::passes;
use crate::{
    functions::RawPointer,
    parallel::{settling, unlinking},
    slots::{self, LoadedLibrary},
    vol_object::{VolObject, object_at, wrap_request},
};

passes!(get, H5VLlink_get at location, arguments: RawPointer);
passes!(specific, H5VLlink_specific at location, arguments: RawPointer; first before_specific(location, arguments));
passes!(optional, H5VLlink_optional at location, arguments: RawPointer);

/// A link that is deleted may free the place of data that ranks are still writing.
unsafe fn before_specific(
    library: &LoadedLibrary,
    object: &VolObject,
    location: RawPointer,
    arguments: RawPointer,
) -> Option<herr_t> {
    // SAFETY: as for every callback.
    settling::refused(library, unsafe { unlinking::before_delete(library, object, location, arguments) })
}

/// `H5VL_link_create_args_t`, as far as it is looked at.
#[repr(C)]
struct LinkTarget {
    operation: c_int,
    object: RawPointer,
    object_kind: c_int,
}

/// `H5VL_LINK_CREATE_HARD`
const HARD: c_int = 0;

/// The object below `object`, which may be null: one side of a link may be "the same place as the other".
unsafe fn under_or_null(object: RawPointer) -> RawPointer {
    if object.is_null() {
        return null_mut();
    }
    // SAFETY: an object of ours, as all that HDF5 hands to callbacks.
    unsafe { object_at(object).under }
}

/// The target of a hard link is handed on as the object below it.
pub(crate) unsafe extern "C" fn create<const N: usize>(
    arguments: RawPointer,
    object: RawPointer,
    location: RawPointer,
    link: hid_t,
    access: hid_t,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    let target = arguments.cast::<LinkTarget>();
    // SAFETY: as for every callback; the arguments begin with the layout above for hard links.
    unsafe {
        let hard = (*target).operation == HARD && !(*target).object.is_null();
        let given = if hard { (*target).object } else { null_mut() };
        let holder = if object.is_null() { given } else { object };
        let connector = if holder.is_null() { -1 } else { object_at(holder).connector };
        if hard {
            guard((), || unlinking::before_link(library, object_at(given), (*target).object_kind));
            (*target).object = object_at(given).under;
        }
        let under = under_or_null(object);
        let answer = (library.functions.H5VLlink_create)(
            arguments, under, location, connector, link, access, transfer, request,
        );
        if hard {
            (*target).object = given;
        }
        wrap_request(library, request, connector);
        answer
    }
}

/// A callback with a link to take from and a place to put one.
macro_rules! between {
    ($name:ident, $function:ident) => {
        pub(crate) unsafe extern "C" fn $name<const N: usize>(
            from: RawPointer,
            from_location: RawPointer,
            to: RawPointer,
            to_location: RawPointer,
            link: hid_t,
            access: hid_t,
            transfer: hid_t,
            request: *mut RawPointer,
        ) -> herr_t {
            let library = slots::library::<N>();
            // SAFETY: as for every callback; one of the two objects is not null.
            unsafe {
                let connector = object_at(if from.is_null() { to } else { from }).connector;
                let (from, to) = (under_or_null(from), under_or_null(to));
                let answer = (library.functions.$function)(
                    from,
                    from_location,
                    to,
                    to_location,
                    connector,
                    link,
                    access,
                    transfer,
                    request,
                );
                wrap_request(library, request, connector);
                answer
            }
        }
    };
}

between!(copy, H5VLlink_copy);
between!(rename, H5VLlink_move);
