//! HDF5's own POSIX driver (`sec2`) of the library that calls: what is not managed is left to it, so that errors, flags and
//! locks are those of its version.

#![expect(unsafe_code, reason = "calls into a libhdf5 found at run time")]

use std::{
    ffi::{c_char, c_int, c_uint, c_ulong, c_void},
    ptr::{self, NonNull},
};

use forebay_plugin::{
    ErrorStack, Hdf5Library, hdf5_functions,
    hdf5_types::{HADDR_UNDEF, haddr_t, herr_t, hid_t},
};
use forebay_source::{Error, ErrorKind, Result};

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
            access_class: library.require(c"H5P_CLS_FILE_ACCESS_ID_g")?.cast(),
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

/// A file that the driver has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sec2File(NonNull<H5FD_t>);

macro_rules! call {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        ($self.class.$name.expect("checked when the driver was found"))($($argument),*)
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

    /// # Safety
    /// As HDF5 calls `open`.
    pub(crate) unsafe fn open(
        &'static self,
        name: *const c_char,
        flags: c_uint,
        access: hid_t,
        maxaddr: haddr_t,
    ) -> Option<Sec2File> {
        // SAFETY: handed through.
        let mut file = NonNull::new(unsafe { call!(self.open(name, flags, access, maxaddr)) })?;
        // SAFETY: the driver has just made it; HDF5 would fill this in.
        unsafe { file.as_mut() }.cls = &raw const self.class;
        Some(Sec2File(file))
    }

    /// # Safety
    /// The file is open, and not used afterwards.
    pub(crate) unsafe fn close(&self, file: Sec2File) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.close(file.0.as_ptr())) }
    }

    /// # Safety
    /// Both files are open.
    pub(crate) unsafe fn cmp(&self, one: Sec2File, other: Sec2File) -> c_int {
        // SAFETY: as said.
        unsafe { call!(self.cmp(one.0.as_ptr(), other.0.as_ptr())) }
    }

    /// # Safety
    /// The file, if one is given, is open; `flags` is a place for them, or null.
    pub(crate) unsafe fn query(&self, file: Option<Sec2File>, flags: *mut c_ulong) -> herr_t {
        let file = file.map_or(ptr::null(), |file| file.0.as_ptr().cast_const());
        // SAFETY: as said; the driver answers without a file as well.
        unsafe { call!(self.query(file, flags)) }
    }

    /// # Safety
    /// The file is open.
    pub(crate) unsafe fn get_eoa(&self, file: Sec2File, kind: H5FD_mem_t) -> haddr_t {
        // SAFETY: as said.
        unsafe { call!(self.get_eoa(file.0.as_ptr(), kind)) }
    }

    /// # Safety
    /// The file is open.
    pub(crate) unsafe fn set_eoa(&self, file: Sec2File, kind: H5FD_mem_t, end: haddr_t) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.set_eoa(file.0.as_ptr(), kind, end)) }
    }

    /// # Safety
    /// The file is open.
    pub(crate) unsafe fn get_eof(&self, file: Sec2File, kind: H5FD_mem_t) -> haddr_t {
        // SAFETY: as said.
        unsafe { call!(self.get_eof(file.0.as_ptr(), kind)) }
    }

    /// # Safety
    /// The file is open; `handle` is a place for one, or null.
    pub(crate) unsafe fn get_handle(
        &self,
        file: Sec2File,
        access: hid_t,
        handle: *mut *mut c_void,
    ) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.get_handle(file.0.as_ptr(), access, handle)) }
    }

    /// # Safety
    /// The file is open; `into` has room for `len` bytes.
    pub(crate) unsafe fn read(
        &self,
        file: Sec2File,
        kind: H5FD_mem_t,
        transfer: hid_t,
        at: haddr_t,
        len: usize,
        into: *mut c_void,
    ) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.read(file.0.as_ptr(), kind, transfer, at, len, into)) }
    }

    /// # Safety
    /// The file is open; `bytes` has `len` of them.
    pub(crate) unsafe fn write(
        &self,
        file: Sec2File,
        kind: H5FD_mem_t,
        transfer: hid_t,
        at: haddr_t,
        len: usize,
        bytes: *const c_void,
    ) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.write(file.0.as_ptr(), kind, transfer, at, len, bytes)) }
    }

    /// # Safety
    /// The file is open.
    pub(crate) unsafe fn flush(&self, file: Sec2File, transfer: hid_t, closing: bool) -> herr_t {
        // SAFETY: as said. No version so far has this callback.
        self.class.flush.map_or(0, |flush| unsafe { flush(file.0.as_ptr(), transfer, closing) })
    }

    /// # Safety
    /// The file is open.
    pub(crate) unsafe fn truncate(&self, file: Sec2File, transfer: hid_t, closing: bool) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.truncate(file.0.as_ptr(), transfer, closing)) }
    }

    /// # Safety
    /// The file is open.
    pub(crate) unsafe fn lock(&self, file: Sec2File, exclusive: bool) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.lock(file.0.as_ptr(), exclusive)) }
    }

    /// # Safety
    /// The file is open.
    pub(crate) unsafe fn unlock(&self, file: Sec2File) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.unlock(file.0.as_ptr())) }
    }

    /// # Safety
    /// As HDF5 calls `del`.
    pub(crate) unsafe fn delete(&self, name: *const c_char, access: hid_t) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.del(name, access)) }
    }

    /// # Safety
    /// As HDF5 calls `ctl`, on a file that is open.
    pub(crate) unsafe fn control(
        &self,
        file: Sec2File,
        code: u64,
        flags: u64,
        input: *const c_void,
        output: *mut *mut c_void,
    ) -> herr_t {
        // SAFETY: as said.
        unsafe { call!(self.ctl(file.0.as_ptr(), code, flags, input, output)) }
    }
}
