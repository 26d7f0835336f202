//! HDF5's own POSIX driver (`sec2`) of the library that calls: what is not managed is left to it, so that errors, flags and
//! locks are those of its version.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::{c_char, c_int, c_uint, c_ulong, c_void},
    fs::File,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
};

use forebay_libhdf5::{
    ErrorStack, Hdf5Library, hdf5_functions,
    hdf5_types::{H5P_DEFAULT, HADDR_UNDEF, haddr_t, herr_t, hid_t},
};
use forebay_process::{Error, ErrorKind, Result};

use crate::class::{H5FD_class_t, H5FD_mem_t, H5FD_t};

hdf5_functions! {
    /// What is called to meet the driver once.
    pub(crate) struct DriverFunctions {
        fn H5Pcreate(hid_t) -> hid_t;
        fn H5Pclose(hid_t) -> herr_t;
        fn H5Pset_fapl_sec2(hid_t) -> herr_t;
        fn H5FDopen(*const c_char, c_uint, hid_t, haddr_t) -> *mut H5FD_t;
        fn H5FDclose(*mut H5FD_t) -> herr_t;
    }
}

/// How to find the driver, before it may be asked for: the library is still being initialised when it loads plug-ins.
#[derive(Debug)]
pub(crate) struct Sec2Finder {
    functions: DriverFunctions,
    /// `H5P_FILE_ACCESS`.
    access_class: NonNull<hid_t>,
}

// SAFETY: the variable belongs to a library that stays loaded, and is only read.
unsafe impl Send for Sec2Finder {}
// SAFETY: as above.
unsafe impl Sync for Sec2Finder {}

impl Sec2Finder {
    pub(crate) fn load(library: &Hdf5Library) -> Result<Self> {
        Ok(Self {
            functions: DriverFunctions::load(library)?,
            access_class: library.variable(c"H5P_CLS_FILE_ACCESS_ID_g")?.cast(),
        })
    }

    /// The driver, met by opening a file that is always there.
    pub(crate) fn find(&self, stack: &ErrorStack) -> Result<Sec2> {
        stack.kept(|| self.meet()).ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "the sec2 driver of this libhdf5 could not be found")
        })
    }

    fn meet(&self) -> Option<Sec2> {
        let functions = &self.functions;
        // SAFETY: the library is initialised by now: it calls one of our callbacks.
        let access = unsafe { (functions.H5Pcreate)(*self.access_class.as_ref()) };
        if access < 0 {
            return None;
        }
        let mut class = None;
        // SAFETY: handles that the library gave; the file is closed again at once, and its class is copied: the library
        // frees its own when it ends, while the functions stay where they are.
        unsafe {
            if (functions.H5Pset_fapl_sec2)(access) >= 0 {
                for name in [c"/dev/null", c"/proc/self/exe"] {
                    let file = (functions.H5FDopen)(name.as_ptr(), 0, access, HADDR_UNDEF);
                    if let Some(opened) = file.as_ref() {
                        class = opened.cls.as_ref().copied();
                        (functions.H5FDclose)(file);
                        break;
                    }
                }
            }
            (functions.H5Pclose)(access);
        }
        class.and_then(Sec2::new)
    }
}

/// The driver's callbacks.
#[derive(Debug)]
pub(crate) struct Sec2 {
    class: H5FD_class_t,
}

macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),*)) => {
        ($driver.class.$name.expect("checked when the driver was found"))($($argument),*)
    };
}

impl Sec2 {
    /// Takes a class that has all that is called below.
    fn new(class: H5FD_class_t) -> Option<Self> {
        let complete = class.open.is_some()
            && class.close.is_some()
            && class.cmp.is_some()
            && class.query.is_some()
            && class.get_eoa.is_some()
            && class.set_eoa.is_some()
            && class.get_eof.is_some()
            && class.get_handle.is_some()
            && class.read.is_some()
            && class.write.is_some()
            && class.truncate.is_some()
            && class.lock.is_some()
            && class.unlock.is_some()
            && class.del.is_some()
            && class.ctl.is_some();
        complete.then_some(Self { class })
    }

    /// Opens or creates a file exactly as HDF5 would by default.
    ///
    /// # Safety
    /// As HDF5 calls `open`.
    pub(crate) unsafe fn open(
        &'static self,
        name: *const c_char,
        flags: c_uint,
        access: hid_t,
        maxaddr: haddr_t,
    ) -> Option<OriginFile> {
        // SAFETY: handed through.
        let mut file = NonNull::new(unsafe { call!(self, open(name, flags, access, maxaddr)) })?;
        // SAFETY: the driver has just made it; HDF5 would fill this in.
        unsafe { file.as_mut() }.cls = &raw const self.class;
        Some(OriginFile { sec2: self, file })
    }

    /// What the driver can do without a file at hand.
    ///
    /// # Safety
    /// `flags` is a place for them, or null.
    pub(crate) unsafe fn query(&self, flags: *mut c_ulong) -> herr_t {
        // SAFETY: as said; the driver answers without a file as well.
        unsafe { call!(self, query(ptr::null(), flags)) }
    }

    /// # Safety
    /// As HDF5 calls `del`.
    pub(crate) unsafe fn delete(&self, name: *const c_char, access: hid_t) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self, del(name, access)) }
    }
}

/// What a read or write says besides place and bytes: the driver ignores it, and gets it all the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sec2Access {
    pub(crate) kind: H5FD_mem_t,
    pub(crate) transfer: hid_t,
}

/// A file that the driver has open, until [`close`](Self::close).
#[derive(Debug)]
pub(crate) struct OriginFile {
    sec2: &'static Sec2,
    file: NonNull<H5FD_t>,
}

impl OriginFile {
    pub(crate) fn close(self) -> herr_t {
        // SAFETY: open until here, and nobody has it afterwards.
        unsafe { call!(self.sec2, close(self.file.as_ptr())) }
    }

    pub(crate) fn cmp(&self, other: &Self) -> c_int {
        // SAFETY: both are open.
        unsafe { call!(self.sec2, cmp(self.file.as_ptr(), other.file.as_ptr())) }
    }

    /// # Safety
    /// `flags` is a place for them, or null.
    pub(crate) unsafe fn query(&self, flags: *mut c_ulong) -> herr_t {
        // SAFETY: open, and as said.
        unsafe { call!(self.sec2, query(self.file.as_ptr(), flags)) }
    }

    pub(crate) fn eoa(&self, kind: H5FD_mem_t) -> haddr_t {
        // SAFETY: open.
        unsafe { call!(self.sec2, get_eoa(self.file.as_ptr(), kind)) }
    }

    pub(crate) fn set_eoa(&self, kind: H5FD_mem_t, end: haddr_t) -> herr_t {
        // SAFETY: open.
        unsafe { call!(self.sec2, set_eoa(self.file.as_ptr(), kind, end)) }
    }

    pub(crate) fn eof(&self, kind: H5FD_mem_t) -> haddr_t {
        // SAFETY: open.
        unsafe { call!(self.sec2, get_eof(self.file.as_ptr(), kind)) }
    }

    /// # Safety
    /// `handle` is a place for one, or null.
    pub(crate) unsafe fn handle(&self, access: hid_t, handle: *mut *mut c_void) -> herr_t {
        // SAFETY: open, and as said.
        unsafe { call!(self.sec2, get_handle(self.file.as_ptr(), access, handle)) }
    }

    /// A second descriptor of the same open file: locks that are taken on the one hold until both are closed.
    pub(crate) fn duplicate(&self) -> Result<File> {
        let mut place = ptr::null_mut();
        // SAFETY: a place for the handle, which is the address of a descriptor's number.
        let number = unsafe {
            if self.handle(H5P_DEFAULT, &raw mut place) < 0 || place.is_null() {
                return Err(Error::new(ErrorKind::Bug, "an open HDF5 file has no descriptor"));
            }
            *place.cast::<c_int>()
        };
        // SAFETY: the descriptor is open as long as the file is.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        Ok(descriptor.try_clone_to_owned().map_err(Error::from_io)?.into())
    }

    /// # Safety
    /// `into` has room for `len` bytes.
    pub(crate) unsafe fn read(
        &self,
        access: Sec2Access,
        at: haddr_t,
        len: usize,
        into: *mut c_void,
    ) -> herr_t {
        // SAFETY: open, and as said.
        unsafe { call!(self.sec2, read(self.file.as_ptr(), access.kind, access.transfer, at, len, into)) }
    }

    /// # Safety
    /// `bytes` has `len` of them.
    pub(crate) unsafe fn write(
        &self,
        access: Sec2Access,
        at: haddr_t,
        len: usize,
        bytes: *const c_void,
    ) -> herr_t {
        // SAFETY: open, and as said.
        unsafe { call!(self.sec2, write(self.file.as_ptr(), access.kind, access.transfer, at, len, bytes)) }
    }

    /// Fills `into` from `at` on; zeros past the end of the file.
    pub(crate) fn read_into(&self, access: Sec2Access, at: haddr_t, into: &mut [u8]) -> herr_t {
        // SAFETY: memory of that length.
        unsafe { self.read(access, at, into.len(), into.as_mut_ptr().cast()) }
    }

    /// Writes `bytes` at `at`.
    pub(crate) fn write_from(&self, access: Sec2Access, at: haddr_t, bytes: &[u8]) -> herr_t {
        // SAFETY: memory of that length.
        unsafe { self.write(access, at, bytes.len(), bytes.as_ptr().cast()) }
    }

    pub(crate) fn flush(&self, transfer: hid_t, closing: bool) -> herr_t {
        // SAFETY: open. No version so far has this callback.
        self.sec2.class.flush.map_or(0, |flush| unsafe { flush(self.file.as_ptr(), transfer, closing) })
    }

    pub(crate) fn truncate(&self, transfer: hid_t, closing: bool) -> herr_t {
        // SAFETY: open.
        unsafe { call!(self.sec2, truncate(self.file.as_ptr(), transfer, closing)) }
    }

    pub(crate) fn lock(&self, exclusive: bool) -> herr_t {
        // SAFETY: open.
        unsafe { call!(self.sec2, lock(self.file.as_ptr(), exclusive)) }
    }

    pub(crate) fn unlock(&self) -> herr_t {
        // SAFETY: open.
        unsafe { call!(self.sec2, unlock(self.file.as_ptr())) }
    }

    /// # Safety
    /// As HDF5 calls `ctl`.
    pub(crate) unsafe fn control(
        &self,
        code: u64,
        flags: u64,
        input: *const c_void,
        output: *mut *mut c_void,
    ) -> herr_t {
        // SAFETY: open, and as said.
        unsafe { call!(self.sec2, ctl(self.file.as_ptr(), code, flags, input, output)) }
    }
}
