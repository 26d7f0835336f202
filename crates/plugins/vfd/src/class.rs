//! The structures of HDF5's virtual file layer, as its header `H5FDdevelop.h` has them from 1.14.0 to 2.2.0.

#![expect(unsafe_code, reason = "pointers to functions of C are called by HDF5 or belong to it")]
#![expect(non_camel_case_types, reason = "names of HDF5's headers")]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use forebay_libhdf5::hdf5_types::{haddr_t, herr_t, hid_t, hsize_t};

/// The kind of what is read or written: metadata of several sorts, or raw data.
pub(crate) type H5FD_mem_t = c_int;

/// The version of [`H5FD_class_t`].
pub(crate) const H5FD_CLASS_VERSION: c_uint = 1;
/// Metadata is collected before it is written and after it was read: off from the moment a file is in SWMR mode.
pub(crate) const H5FD_FEAT_ACCUMULATE_METADATA: c_ulong = 0x6;
/// The largest address: that of the library's own driver, whose offsets are signed.
pub(crate) const MAXADDR: haddr_t = haddr_t::MAX >> 1;
/// A file is closed when the last of its objects is (`H5F_CLOSE_WEAK`).
pub(crate) const H5F_CLOSE_WEAK: c_int = 1;
/// Raw data and metadata have a list of free space each (`H5FD_FLMAP_DICHOTOMY`).
pub(crate) const FREE_LISTS: [H5FD_mem_t; 7] = [1, 1, 1, 3, 3, 1, 1];

/// An open file, as far as HDF5 knows it; a driver's own part follows.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct H5FD_t {
    /// The driver's handle.
    pub(crate) driver_id: hid_t,
    /// The driver.
    pub(crate) cls: *const H5FD_class_t,
    /// A number that no other open file of the library has.
    pub(crate) fileno: c_ulong,
    /// How it was opened.
    pub(crate) access_flags: c_uint,
    /// What the driver said it can do, less what the library has switched off.
    pub(crate) feature_flags: c_ulong,
    /// The largest address.
    pub(crate) maxaddr: haddr_t,
    /// Where the HDF5 part begins, behind a user block.
    pub(crate) base_addr: haddr_t,
    /// From this size on space is aligned.
    pub(crate) threshold: hsize_t,
    /// To multiples of this.
    pub(crate) alignment: hsize_t,
    /// Whether space is given out in pages.
    pub(crate) paged_aggr: bool,
    /// Room for what a later version may add.
    pub(crate) reserved: [u64; 6],
}

impl H5FD_t {
    /// Nothing is filled in yet: HDF5 does so when a driver has opened the file.
    pub(crate) fn empty() -> Self {
        Self {
            driver_id: 0,
            cls: std::ptr::null(),
            fileno: 0,
            access_flags: 0,
            feature_flags: 0,
            maxaddr: 0,
            base_addr: 0,
            threshold: 0,
            alignment: 0,
            paged_aggr: false,
            reserved: [0; 6],
        }
    }
}

type Opener = unsafe extern "C" fn(*const c_char, c_uint, hid_t, haddr_t) -> *mut H5FD_t;
type OfFile = unsafe extern "C" fn(*mut H5FD_t) -> herr_t;
type VectorReader =
    unsafe extern "C" fn(*mut H5FD_t, H5FD_mem_t, hid_t, haddr_t, usize, *mut c_void) -> herr_t;
type Writer = unsafe extern "C" fn(*mut H5FD_t, H5FD_mem_t, hid_t, haddr_t, usize, *const c_void) -> herr_t;
type Flusher = unsafe extern "C" fn(*mut H5FD_t, hid_t, bool) -> herr_t;
type Controller = unsafe extern "C" fn(*mut H5FD_t, u64, u64, *const c_void, *mut *mut c_void) -> herr_t;
/// A callback that this driver and the library's own leave out.
type Absent = Option<unsafe extern "C" fn()>;

/// A driver: what it is called, and its callbacks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct H5FD_class_t {
    /// Of this structure.
    pub(crate) version: c_uint,
    /// The number of the driver.
    pub(crate) value: c_int,
    /// Its name.
    pub(crate) name: *const c_char,
    /// The largest address of a file.
    pub(crate) maxaddr: haddr_t,
    /// When a file is closed.
    pub(crate) fc_degree: c_int,
    /// The library ends.
    pub(crate) terminate: Option<unsafe extern "C" fn() -> herr_t>,
    /// Absent.
    pub(crate) sb_size: Absent,
    /// Absent.
    pub(crate) sb_encode: Absent,
    /// Absent.
    pub(crate) sb_decode: Absent,
    /// How long its own properties of access are.
    pub(crate) fapl_size: usize,
    /// Absent.
    pub(crate) fapl_get: Absent,
    /// Absent.
    pub(crate) fapl_copy: Absent,
    /// Absent.
    pub(crate) fapl_free: Absent,
    /// How long its own properties of transfer are.
    pub(crate) dxpl_size: usize,
    /// Absent.
    pub(crate) dxpl_copy: Absent,
    /// Absent.
    pub(crate) dxpl_free: Absent,
    /// Opens or creates a file.
    pub(crate) open: Option<Opener>,
    /// Closes one.
    pub(crate) close: Option<OfFile>,
    /// Whether two files are the same one.
    pub(crate) cmp: Option<unsafe extern "C" fn(*const H5FD_t, *const H5FD_t) -> c_int>,
    /// What the driver can do.
    pub(crate) query: Option<unsafe extern "C" fn(*const H5FD_t, *mut c_ulong) -> herr_t>,
    /// Absent.
    pub(crate) get_type_map: Absent,
    /// Absent.
    pub(crate) alloc: Absent,
    /// Absent.
    pub(crate) free: Absent,
    /// The end of what HDF5 has given out.
    pub(crate) get_eoa: Option<unsafe extern "C" fn(*const H5FD_t, H5FD_mem_t) -> haddr_t>,
    /// Sets that.
    pub(crate) set_eoa: Option<unsafe extern "C" fn(*mut H5FD_t, H5FD_mem_t, haddr_t) -> herr_t>,
    /// The end of the file.
    pub(crate) get_eof: Option<unsafe extern "C" fn(*const H5FD_t, H5FD_mem_t) -> haddr_t>,
    /// The file descriptor.
    pub(crate) get_handle: Option<unsafe extern "C" fn(*mut H5FD_t, hid_t, *mut *mut c_void) -> herr_t>,
    /// Reads.
    pub(crate) read: Option<VectorReader>,
    /// Writes.
    pub(crate) write: Option<Writer>,
    // The library's own driver has none of these four: HDF5 then makes single reads and writes of them.
    /// Absent.
    pub(crate) read_vector: Absent,
    /// Absent.
    pub(crate) write_vector: Absent,
    /// Absent.
    pub(crate) read_selection: Absent,
    /// Absent.
    pub(crate) write_selection: Absent,
    /// All that was written is to reach the file.
    pub(crate) flush: Option<Flusher>,
    /// The file is to end where HDF5 says.
    pub(crate) truncate: Option<Flusher>,
    /// Locks the file.
    pub(crate) lock: Option<unsafe extern "C" fn(*mut H5FD_t, bool) -> herr_t>,
    /// Unlocks it.
    pub(crate) unlock: Option<OfFile>,
    /// Removes a file.
    pub(crate) del: Option<unsafe extern "C" fn(*const c_char, hid_t) -> herr_t>,
    /// Other requests, by number.
    pub(crate) ctl: Option<Controller>,
    /// Which kinds of data share a list of free space.
    pub(crate) fl_map: [H5FD_mem_t; 7],
}

// SAFETY: a class is read only once it is made, and its name is a string of the program.
unsafe impl Send for H5FD_class_t {}
// SAFETY: as above.
unsafe impl Sync for H5FD_class_t {}

// The sizes and places that a C compiler gives with the headers of 1.14.5 and 2.2.0.
const _: () = assert!(size_of::<H5FD_class_t>() == 336);
const _: () = assert!(std::mem::offset_of!(H5FD_class_t, open) == 120);
const _: () = assert!(std::mem::offset_of!(H5FD_class_t, fl_map) == 304);
const _: () = assert!(std::mem::offset_of!(H5FD_t, feature_flags) == 32);
