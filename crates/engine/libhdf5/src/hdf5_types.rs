//! The types of HDF5's C interface that both plug-ins use, of the same size in HDF5 1.14.0 to 2.x.

#![expect(non_camel_case_types, reason = "names of HDF5's headers")]

use std::ffi::{c_int, c_uint};

/// The handle of an open object.
pub type hid_t = i64;
/// What most calls answer: negative for failure.
pub type herr_t = c_int;
/// What a question answers: negative for failure, 0 for no, positive for yes.
pub type htri_t = c_int;
/// A place in a file.
pub type haddr_t = u64;
/// The size of a stretch of a file, or of an array.
pub type hsize_t = u64;

/// An address that is not known.
pub const HADDR_UNDEF: haddr_t = haddr_t::MAX;
/// The list of properties, and the error stack, that stand for "the default one".
pub const H5P_DEFAULT: hid_t = 0;
/// The handle that no object has.
pub const H5I_INVALID_HID: hid_t = -1;

/// Open for reading and writing.
pub const H5F_ACC_RDWR: c_uint = 0x0001;
/// Remove what a file has.
pub const H5F_ACC_TRUNC: c_uint = 0x0002;
/// Fail where there is a file.
pub const H5F_ACC_EXCL: c_uint = 0x0004;
/// Create a file that is not there.
pub const H5F_ACC_CREAT: c_uint = 0x0010;
/// One process writes while others read.
pub const H5F_ACC_SWMR_WRITE: c_uint = 0x0020;
/// Read while another process writes.
pub const H5F_ACC_SWMR_READ: c_uint = 0x0040;
