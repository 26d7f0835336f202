//! Tokens: names of objects within a file.

#![expect(unsafe_code, reason = "callbacks of HDF5")]

use std::ffi::c_int;

use super::asks;
use crate::functions::RawPointer;

asks!(compare, H5VLtoken_cmp, one: RawPointer, other: RawPointer, order: *mut c_int);
asks!(to_text, H5VLtoken_to_str of kind: c_int, token: RawPointer, text: *mut RawPointer);
asks!(from_text, H5VLtoken_from_str of kind: c_int, text: RawPointer, token: RawPointer);
