//! Requests of asynchronous connectors below.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use forebay_libhdf5::hdf5_types::herr_t;

use super::asks;
use crate::{
    functions::RawPointer,
    slots,
    vol_object::{drop_object, object_at},
};

asks!(wait, H5VLrequest_wait, timeout: u64, status: *mut c_int);
asks!(notify, H5VLrequest_notify, callback: RawPointer, context: RawPointer);
asks!(cancel, H5VLrequest_cancel, status: *mut c_int);
asks!(specific, H5VLrequest_specific, arguments: RawPointer);
asks!(optional, H5VLrequest_optional, arguments: RawPointer);

/// Ends a request, ours with the one below.
pub(crate) unsafe extern "C" fn free<const N: usize>(request: RawPointer) -> herr_t {
    let library = slots::library::<N>();
    // SAFETY: as for every callback; a request that was freed is not used again.
    unsafe {
        let object = object_at(request);
        let answer = (library.functions.H5VLrequest_free)(object.under, object.connector);
        if answer >= 0 {
            drop_object(library, request);
        }
        answer
    }
}
