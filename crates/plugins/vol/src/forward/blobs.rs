//! Blobs: what variable-length values and references are kept in.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use super::asks;
use crate::functions::RawPointer;

asks!(put, H5VLblob_put, from: RawPointer, len: usize, id: RawPointer, context: RawPointer);
asks!(get, H5VLblob_get, id: RawPointer, into: RawPointer, len: usize, context: RawPointer);
asks!(specific, H5VLblob_specific, id: RawPointer, arguments: RawPointer);
asks!(optional, H5VLblob_optional, id: RawPointer, arguments: RawPointer);
