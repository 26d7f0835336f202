//! Blobs: what variable-length values and references are kept in.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use super::asks;
use crate::functions::Opaque;

asks!(put, H5VLblob_put, from: Opaque, len: usize, id: Opaque, context: Opaque);
asks!(get, H5VLblob_get, id: Opaque, into: Opaque, len: usize, context: Opaque);
asks!(specific, H5VLblob_specific, id: Opaque, arguments: Opaque);
asks!(optional, H5VLblob_optional, id: Opaque, arguments: Opaque);
