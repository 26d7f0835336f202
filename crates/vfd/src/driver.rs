//! The driver: one structure of callbacks for each libhdf5, and what HDF5 asks of it.

#![expect(unsafe_code, reason = "called by HDF5, and calls its own driver")]

use std::{
    ffi::{c_char, c_int, c_uint, c_ulong, c_void},
    ptr,
    sync::OnceLock,
};

use forebay_plugin::{
    ErrorStack, Hdf5Library, LibrarySlots, WarnOnce, guard,
    hdf5_types::{HADDR_UNDEF, haddr_t, herr_t, hid_t},
};
use forebay_source::Result;

use crate::{
    class::{FREE_LISTS, H5F_CLOSE_WEAK, H5FD_CLASS_VERSION, H5FD_class_t, H5FD_mem_t, H5FD_t, MAXADDR},
    sec2::{Sec2, Sec2File, Sec2Finder},
};

/// What `HDF5_DRIVER` says to get this driver.
const NAME: &std::ffi::CStr = c"forebay";
/// The number of the driver, from the range that HDF5 leaves to drivers that are not registered with it (256 to 511).
const VALUE: c_int = 507;
const FAIL: herr_t = -1;

static LIBRARIES: LibrarySlots<DriverLibrary> = LibrarySlots::new();
static UNUSABLE: WarnOnce = WarnOnce::new();

/// One libhdf5 that has loaded the driver.
#[derive(Debug)]
pub(crate) struct DriverLibrary {
    class: H5FD_class_t,
    stack: ErrorStack,
    finder: Sec2Finder,
    sec2: OnceLock<Option<Sec2>>,
}

impl DriverLibrary {
    fn new(library: &Hdf5Library, slot: usize) -> Result<Self> {
        let class = match slot {
            0 => class::<0>(),
            1 => class::<1>(),
            2 => class::<2>(),
            3 => class::<3>(),
            4 => class::<4>(),
            5 => class::<5>(),
            6 => class::<6>(),
            _ => class::<7>(),
        };
        let stack = ErrorStack::load(library)?;
        Ok(Self { class, stack, finder: Sec2Finder::load(library)?, sec2: OnceLock::new() })
    }

    /// The library's own driver, looked for at the first call.
    fn sec2(&'static self) -> Option<&'static Sec2> {
        let find = || match self.finder.find(&self.stack) {
            Ok(found) => Some(found),
            Err(error) => {
                UNUSABLE.say(format_args!("{error}; no HDF5 file can be opened: unset HDF5_DRIVER"));
                None
            }
        };
        self.sec2.get_or_init(find).as_ref()
    }
}

fn library<const SLOT: usize>() -> Option<&'static DriverLibrary> {
    LIBRARIES.get(SLOT)
}

/// The class of this driver for the libhdf5 that `address` lies in; null where that cannot be used.
///
/// # Safety
/// `address` is one of code or data of a libhdf5 that is loaded and stays so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_vfd_class_v1(address: *const c_void) -> *const c_void {
    guard(ptr::null(), || {
        let made = Hdf5Library::of_address(address).map(|library| {
            LIBRARIES.place(library.base(), |slot| {
                DriverLibrary::new(&library, slot)
                    .map_err(|error| {
                        UNUSABLE.say(format_args!("the HDF5 file driver cannot be used: {error}"))
                    })
                    .ok()
            })
        });
        match made {
            Ok(Some(library)) => (&raw const library.class).cast(),
            Ok(None) => ptr::null(),
            Err(error) => {
                UNUSABLE.say(format_args!("the HDF5 file driver cannot be used: {error}"));
                ptr::null()
            }
        }
    })
}

forebay_plugin::plugin_entry!(forebay_plugin::entry::H5PL_TYPE_VFD, forebay_vfd_class_v1);

/// A file of this driver: what HDF5 knows of it, then ours.
#[repr(C)]
struct DriverFile {
    head: H5FD_t,
    sec2: &'static Sec2,
    under: Sec2File,
}

fn class<const SLOT: usize>() -> H5FD_class_t {
    H5FD_class_t {
        version: H5FD_CLASS_VERSION,
        value: VALUE,
        name: NAME.as_ptr(),
        maxaddr: MAXADDR,
        fc_degree: H5F_CLOSE_WEAK,
        terminate: Some(terminate),
        sb_size: None,
        sb_encode: None,
        sb_decode: None,
        fapl_size: 0,
        fapl_get: None,
        fapl_copy: None,
        fapl_free: None,
        dxpl_size: 0,
        dxpl_copy: None,
        dxpl_free: None,
        open: Some(open::<SLOT>),
        close: Some(close),
        cmp: Some(cmp),
        query: Some(query::<SLOT>),
        get_type_map: None,
        alloc: None,
        free: None,
        get_eoa: Some(get_eoa),
        set_eoa: Some(set_eoa),
        get_eof: Some(get_eof),
        get_handle: Some(get_handle),
        read: Some(read),
        write: Some(write),
        read_vector: None,
        write_vector: None,
        read_selection: None,
        write_selection: None,
        flush: Some(flush),
        truncate: Some(truncate),
        lock: Some(lock),
        unlock: Some(unlock),
        del: Some(delete::<SLOT>),
        ctl: Some(control),
        fl_map: FREE_LISTS,
    }
}

/// # Safety
/// `file` is one that [`open`] gave and that is not closed yet.
unsafe fn of<'a>(file: *const H5FD_t) -> &'a DriverFile {
    // SAFETY: as said: the structure begins with what HDF5 sees.
    unsafe { &*file.cast::<DriverFile>() }
}

unsafe extern "C" fn terminate() -> herr_t {
    0
}

unsafe extern "C" fn open<const SLOT: usize>(
    name: *const c_char,
    flags: c_uint,
    access: hid_t,
    maxaddr: haddr_t,
) -> *mut H5FD_t {
    guard(ptr::null_mut(), || {
        let Some(sec2) = library::<SLOT>().and_then(DriverLibrary::sec2) else { return ptr::null_mut() };
        // SAFETY: handed through from HDF5.
        let Some(under) = (unsafe { sec2.open(name, flags, access, maxaddr) }) else {
            return ptr::null_mut();
        };
        let file = Box::new(DriverFile { head: H5FD_t::empty(), sec2, under });
        Box::into_raw(file).cast()
    })
}

unsafe extern "C" fn close(file: *mut H5FD_t) -> herr_t {
    guard(FAIL, || {
        // SAFETY: made by `open`, and HDF5 does not use it again.
        let file = unsafe { Box::from_raw(file.cast::<DriverFile>()) };
        // SAFETY: open until here.
        unsafe { file.sec2.close(file.under) }
    })
}

unsafe extern "C" fn cmp(one: *const H5FD_t, other: *const H5FD_t) -> c_int {
    guard(0, || {
        // SAFETY: HDF5 compares open files of this driver.
        let (one, other) = unsafe { (of(one), of(other)) };
        // SAFETY: both are open.
        unsafe { one.sec2.cmp(one.under, other.under) }
    })
}

unsafe extern "C" fn query<const SLOT: usize>(file: *const H5FD_t, flags: *mut c_ulong) -> herr_t {
    guard(FAIL, || {
        // SAFETY: HDF5 hands an open file of this driver, or none.
        let under = (!file.is_null()).then(|| unsafe { of(file) }.under);
        let Some(sec2) = library::<SLOT>().and_then(DriverLibrary::sec2) else { return FAIL };
        // SAFETY: handed through.
        unsafe { sec2.query(under, flags) }
    })
}

unsafe extern "C" fn get_eoa(file: *const H5FD_t, kind: H5FD_mem_t) -> haddr_t {
    guard(HADDR_UNDEF, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above.
        unsafe { file.sec2.get_eoa(file.under, kind) }
    })
}

unsafe extern "C" fn set_eoa(file: *mut H5FD_t, kind: H5FD_mem_t, end: haddr_t) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above.
        unsafe { file.sec2.set_eoa(file.under, kind, end) }
    })
}

unsafe extern "C" fn get_eof(file: *const H5FD_t, kind: H5FD_mem_t) -> haddr_t {
    guard(HADDR_UNDEF, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above.
        unsafe { file.sec2.get_eof(file.under, kind) }
    })
}

unsafe extern "C" fn get_handle(file: *mut H5FD_t, access: hid_t, handle: *mut *mut c_void) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above; the place is HDF5's.
        unsafe { file.sec2.get_handle(file.under, access, handle) }
    })
}

unsafe extern "C" fn read(
    file: *mut H5FD_t,
    kind: H5FD_mem_t,
    transfer: hid_t,
    at: haddr_t,
    len: usize,
    into: *mut c_void,
) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: the memory is HDF5's, of that length.
        unsafe { file.sec2.read(file.under, kind, transfer, at, len, into) }
    })
}

unsafe extern "C" fn write(
    file: *mut H5FD_t,
    kind: H5FD_mem_t,
    transfer: hid_t,
    at: haddr_t,
    len: usize,
    bytes: *const c_void,
) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: the memory is HDF5's, of that length.
        unsafe { file.sec2.write(file.under, kind, transfer, at, len, bytes) }
    })
}

unsafe extern "C" fn flush(file: *mut H5FD_t, transfer: hid_t, closing: bool) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above.
        unsafe { file.sec2.flush(file.under, transfer, closing) }
    })
}

unsafe extern "C" fn truncate(file: *mut H5FD_t, transfer: hid_t, closing: bool) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above.
        unsafe { file.sec2.truncate(file.under, transfer, closing) }
    })
}

unsafe extern "C" fn lock(file: *mut H5FD_t, exclusive: bool) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above.
        unsafe { file.sec2.lock(file.under, exclusive) }
    })
}

unsafe extern "C" fn unlock(file: *mut H5FD_t) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: as above.
        unsafe { file.sec2.unlock(file.under) }
    })
}

unsafe extern "C" fn delete<const SLOT: usize>(name: *const c_char, access: hid_t) -> herr_t {
    guard(FAIL, || {
        let Some(sec2) = library::<SLOT>().and_then(DriverLibrary::sec2) else { return FAIL };
        // SAFETY: handed through.
        unsafe { sec2.delete(name, access) }
    })
}

unsafe extern "C" fn control(
    file: *mut H5FD_t,
    code: u64,
    flags: u64,
    input: *const c_void,
    output: *mut *mut c_void,
) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        // SAFETY: handed through.
        unsafe { file.sec2.control(file.under, code, flags, input, output) }
    })
}
