//! Blobs: what variable-length values and references are kept in.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use super::asks;
use crate::functions::ObjectPointer;

asks!(put, H5VLblob_put, from: ObjectPointer, len: usize, id: ObjectPointer, context: ObjectPointer);
asks!(get, H5VLblob_get, id: ObjectPointer, into: ObjectPointer, len: usize, context: ObjectPointer);
asks!(specific, H5VLblob_specific, id: ObjectPointer, arguments: ObjectPointer);
asks!(optional, H5VLblob_optional, id: ObjectPointer, arguments: ObjectPointer);
