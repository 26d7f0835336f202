//! Committed datatypes.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use forebay_libhdf5::hdf5_types::hid_t;

use super::{closes, opens, passes};
use crate::functions::RawPointer;

opens!(commit, H5VLdatatype_commit, name: RawPointer, kind: hid_t, link: hid_t, creation: hid_t, access: hid_t, transfer: hid_t);
opens!(open, H5VLdatatype_open, name: RawPointer, access: hid_t, transfer: hid_t);
passes!(get, H5VLdatatype_get, arguments: RawPointer);
passes!(specific, H5VLdatatype_specific, arguments: RawPointer);
passes!(optional, H5VLdatatype_optional, arguments: RawPointer);
closes!(close, H5VLdatatype_close);
