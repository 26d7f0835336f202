//! Objects of any kind.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_libhdf5::hdf5_types::{herr_t, hid_t};

use super::{below, opens, passes};
use crate::{
    dataset::dataset_changes,
    functions::RawPointer,
    hdf5_arguments::OBJECT_REFRESH,
    parallel::settling,
    slots::{self, LoadedLibrary},
    vol_object::{VolObject, object_at, wrap_request},
};

opens!(open, H5VLobject_open, kind: *mut c_int, transfer: hid_t);
passes!(get, H5VLobject_get at location, arguments: RawPointer);
passes!(specific, H5VLobject_specific at location, arguments: RawPointer; first before_specific(location, arguments));
passes!(optional, H5VLobject_optional at location, arguments: RawPointer);

/// Before some of what is done to objects, all that ranks have written together has to be in the file.
unsafe fn before_specific(
    library: &LoadedLibrary,
    object: &VolObject,
    location: RawPointer,
    arguments: RawPointer,
) -> Option<herr_t> {
    // SAFETY: as for every callback; the arguments begin with the operation.
    if unsafe { *arguments.cast::<c_int>() } == OBJECT_REFRESH {
        dataset_changes::refreshed(library);
    }
    // SAFETY: as for every callback.
    settling::refused(library, unsafe { settling::before_object(library, object, location, arguments) })
}

/// Copies an object, within a file or between two.
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
        let ((source, connector), (target, _)) = (below(from), below(to));
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
