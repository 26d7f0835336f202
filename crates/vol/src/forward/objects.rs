//! Objects of any kind.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_plugin::hdf5_types::{herr_t, hid_t};

use super::{opens, passes_at};
use crate::{
    dataset_changes,
    functions::RawPointer,
    parallel::settling,
    slots,
    vol_object::{object_at, wrap_request},
};

opens!(open, H5VLobject_open, kind: *mut c_int, transfer: hid_t);
passes_at!(get, H5VLobject_get);
passes_at!(optional, H5VLobject_optional);

/// What is done to objects: before some of it, all that ranks have written together has to be in the file.
pub(crate) unsafe extern "C" fn specific<const N: usize>(
    object: RawPointer,
    location: RawPointer,
    arguments: RawPointer,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback. The connector is read first: a refresh may replace the object.
    unsafe {
        let settled = settling::before_object(library, object_at(object), location, arguments);
        if let Some(answer) = settling::refused(library, settled) {
            return answer;
        }
        let (under, connector) = (object_at(object).under, object_at(object).connector);
        let answer =
            (library.functions.H5VLobject_specific)(under, location, connector, arguments, transfer, request);
        wrap_request(library, request, connector);
        answer
    }
}

/// Copies an object, within a file or between two.
#[expect(clippy::too_many_arguments, reason = "HDF5's signature")]
pub(crate) unsafe extern "C" fn copy<const N: usize>(
    from: RawPointer,
    from_location: RawPointer,
    from_name: RawPointer,
    to: RawPointer,
    to_location: RawPointer,
    to_name: RawPointer,
    properties: hid_t,
    link: hid_t,
    transfer: hid_t,
    request: *mut RawPointer,
) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback.
    unsafe {
        for (object, location) in [(from, from_location), (to, to_location)] {
            let settled = settling::before_change(library, object_at(object), *location.cast::<c_int>());
            if let Some(answer) = settling::refused(library, settled) {
                return answer;
            }
        }
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
