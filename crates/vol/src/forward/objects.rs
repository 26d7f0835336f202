//! Objects of any kind.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_plugin::hdf5_types::{herr_t, hid_t};

use super::{opens, passes_at};
use crate::{
    dataset_changes,
    functions::Opaque,
    slots,
    vol_object::{object_at, wrap_request},
};

opens!(open, H5VLobject_open, kind: *mut c_int, transfer: hid_t);
passes_at!(get, H5VLobject_get);
passes_at!(specific, H5VLobject_specific);
passes_at!(optional, H5VLobject_optional);

/// Copies an object, within a file or between two.
pub(crate) unsafe extern "C" fn copy<const N: usize>(
    from: Opaque,
    from_location: Opaque,
    from_name: Opaque,
    to: Opaque,
    to_location: Opaque,
    to_name: Opaque,
    properties: hid_t,
    link: hid_t,
    transfer: hid_t,
    request: *mut Opaque,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback.
    unsafe {
        let connector = object_at(from).connector;
        let (source, target) = (object_at(from).under, object_at(to).under);
        let answer = (library.functions.H5VLobject_copy)(
            source,
            from_location,
            from_name,
            target,
            to_location,
            to_name,
            connector,
            properties,
            link,
            transfer,
            request,
        );
        wrap_request(library, request, connector);
        // A copy may lie where a data set was that is gone.
        dataset_changes::new_objects(library, object_at(to));
        answer
    }
}
