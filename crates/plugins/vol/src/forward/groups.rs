//! Groups, and files that are mounted on them.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::{c_char, c_int};

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};

use super::{below, closes, opens, passes};
use crate::{
    dataset::dataset_changes,
    functions::RawPointer,
    hdf5_arguments::GROUP_REFRESH,
    slots,
    vol_object::{object_at, wrap_request},
};

opens!(create, H5VLgroup_create, name: RawPointer, link: hid_t, creation: hid_t, access: hid_t, transfer: hid_t);
opens!(open, H5VLgroup_open, name: RawPointer, access: hid_t, transfer: hid_t);
passes!(get, H5VLgroup_get, arguments: RawPointer);
passes!(optional, H5VLgroup_optional, arguments: RawPointer);
closes!(close, H5VLgroup_close);

/// `H5VL_group_specific_args_t`, as far as it is looked at.
#[repr(C)]
#[derive(Clone, Copy)]
struct GroupMount {
    operation: c_int,
    name: *const c_char,
    child: RawPointer,
    mount_properties: hid_t,
}

/// `H5VL_GROUP_MOUNT`
const MOUNT: c_int = 0;

/// Mounts hand the child file of the connector below to it.
pub(crate) unsafe extern "C" fn specific<const N: usize>(
    object: RawPointer,
    arguments: RawPointer,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; the arguments of a mount have the layout above, and its child is an object of ours.
    unsafe {
        let (under, connector) = below(object);
        let specific = library.functions.H5VLgroup_specific;
        let operation = *arguments.cast::<c_int>();
        if operation == GROUP_REFRESH {
            dataset_changes::refreshed(library);
        }
        let answer = if operation == MOUNT {
            let mut mount = *arguments.cast::<GroupMount>();
            mount.child = object_at(mount.child).under;
            specific(under, connector, (&raw mut mount).cast(), transfer, request)
        } else {
            specific(under, connector, arguments, transfer, request)
        };
        wrap_request(library, request, connector);
        answer
    }
}
