//! Attributes.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use forebay_libhdf5::hdf5_types::hid_t;

use super::{closes, opens, passes};
use crate::functions::RawPointer;

opens!(create, H5VLattr_create, name: RawPointer, kind: hid_t, space: hid_t, creation: hid_t, access: hid_t, transfer: hid_t);
opens!(open, H5VLattr_open, name: RawPointer, access: hid_t, transfer: hid_t);
passes!(read, H5VLattr_read, memory_type: hid_t, into: RawPointer);
passes!(write, H5VLattr_write, memory_type: hid_t, from: RawPointer);
passes!(get, H5VLattr_get, arguments: RawPointer);
passes!(specific, H5VLattr_specific at location, arguments: RawPointer);
passes!(optional, H5VLattr_optional, arguments: RawPointer);
closes!(close, H5VLattr_close);
