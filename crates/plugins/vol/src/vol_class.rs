//! The table of callbacks that HDF5 reads from a connector: `H5VL_class_t`, version 3, the same in HDF5 1.14.0 to 2.x.

use std::ffi::{c_int, c_uint};

/// `H5VL_VERSION` of the layout below.
pub(crate) const CLASS_VERSION: c_uint = 3;
/// The number by which the connector can be asked for.
pub(crate) const CONNECTOR_VALUE: c_int = 732;
/// The number that Cache VOL is registered under.
pub(crate) const CACHE_VOL_VALUE: c_int = 518;

/// `H5VL_class_t`; callbacks are plain addresses, as each has a signature of its own.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct VolClass {
    pub(crate) version: c_uint,
    pub(crate) value: c_int,
    /// The address of a text that ends in NUL.
    pub(crate) name: usize,
    pub(crate) connector_version: c_uint,
    pub(crate) capabilities: u64,
    pub(crate) initialize: usize,
    pub(crate) terminate: usize,
    pub(crate) info_size: usize,
    /// copy, compare, free, to string, from string
    pub(crate) info: [usize; 5],
    /// get object, get context, wrap, unwrap, free context
    pub(crate) wrap: [usize; 5],
    /// create, open, read, write, get, specific, optional, close
    pub(crate) attribute: [usize; 8],
    /// create, open, read, write, get, specific, optional, close
    pub(crate) dataset: [usize; 8],
    /// commit, open, get, specific, optional, close
    pub(crate) datatype: [usize; 6],
    /// create, open, get, specific, optional, close
    pub(crate) file: [usize; 6],
    /// create, open, get, specific, optional, close
    pub(crate) group: [usize; 6],
    /// create, copy, move, get, specific, optional
    pub(crate) link: [usize; 6],
    /// open, copy, get, specific, optional
    pub(crate) object: [usize; 5],
    /// connector class, capability flags, optional query
    pub(crate) introspect: [usize; 3],
    /// wait, notify, cancel, specific, optional, free
    pub(crate) request: [usize; 6],
    /// put, get, specific, optional
    pub(crate) blob: [usize; 4],
    /// compare, to string, from string
    pub(crate) token: [usize; 3],
    pub(crate) optional: usize,
}

const _: () = assert!(size_of::<VolClass>() == 632, "the size in HDF5 1.14.0 to 2.2.0 on 64-bit systems");
