//! The driver: one structure of callbacks for each libhdf5, and what HDF5 asks of it.

#![expect(unsafe_code, reason = "called by HDF5, and calls its own driver")]

use std::{
    ffi::{CStr, OsStr, c_char, c_int, c_uint, c_ulong, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    ptr, slice,
};

use forebay_libhdf5::{
    hdf5_types::{
        H5F_ACC_RDWR, H5F_ACC_SWMR_READ, H5F_ACC_SWMR_WRITE, H5F_ACC_TRUNC, HADDR_UNDEF, haddr_t, herr_t,
        hid_t,
    },
    in_slot,
};
use forebay_process::{Error, guard};

use crate::{
    class::{FREE_LISTS, H5F_CLOSE_WEAK, H5FD_CLASS_VERSION, H5FD_class_t, H5FD_mem_t, H5FD_t, MAXADDR},
    driver_file::{DriverFile, FAIL, of, of_mut},
    driver_library::{DriverLibrary, LIBRARIES, library, say_unusable},
    failure::{self, Failure},
    managed_file::ManagedFile,
    process,
    sec2::{OriginFile, Sec2Access},
    settle::{SettledFile, SettledOpening, wait_until_settled},
};

/// What `HDF5_DRIVER` says to get this driver.
const NAME: &std::ffi::CStr = c"forebay";
/// The number of the driver, from the range that HDF5 leaves to drivers that are not registered with it (256 to 511).
const VALUE: c_int = 507;

/// The class of this driver for the libhdf5 that `address` lies in; null where that cannot be used.
///
/// # Safety
/// `address` is one of code or data of a libhdf5 that is loaded and stays so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_vfd_class_v1(address: *const c_void) -> *const c_void {
    guard(ptr::null(), || {
        match LIBRARIES.for_caller(address, |library, slot| DriverLibrary::new(&library, class_of(slot))) {
            Ok(Some(library)) => (&raw const library.class).cast(),
            Ok(None) => ptr::null(),
            Err(error) => {
                say_unusable(&error);
                ptr::null()
            }
        }
    })
}

forebay_libhdf5::plugin_entry!(forebay_libhdf5::entry::H5PL_TYPE_VFD, forebay_vfd_class_v1);

/// The callbacks of a slot, compiled once for each.
fn class_of(slot: usize) -> H5FD_class_t {
    in_slot!(slot, class)
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

unsafe extern "C" fn terminate() -> herr_t {
    guard((), process::drain_all);
    0
}

unsafe extern "C" fn open<const SLOT: usize>(
    name: *const c_char,
    flags: c_uint,
    access: hid_t,
    maxaddr: haddr_t,
) -> *mut H5FD_t {
    guard(ptr::null_mut(), || {
        let Some(library) = library::<SLOT>() else { return ptr::null_mut() };
        let Some(sec2) = library.sec2() else { return ptr::null_mut() };
        // SAFETY: a string of HDF5's, or null.
        let destination = unsafe { managed_name(name) };
        let told = |destination: &Path, error: &Error| {
            failure::tell(&library.stack, Failure::Open, destination, error);
            ptr::null_mut()
        };
        let settled = match &destination {
            None => SettledFile::default(),
            Some(destination) => match wait_until_settled(SLOT, destination, opening(flags)) {
                Ok(settled) => settled,
                Err(error) => return told(destination, &error),
            },
        };
        // SAFETY: handed through from HDF5.
        let Some(origin) = (unsafe { sec2.open(name, flags, access, maxaddr) }) else {
            return ptr::null_mut();
        };
        if let Some(destination) = &destination
            && let Err(error) = settled.replaced()
        {
            origin.close();
            return told(destination, &error);
        }
        let managed = destination.and_then(|destination| manage(SLOT, destination, flags, &origin));
        Box::into_raw(Box::new(DriverFile { head: H5FD_t::empty(), library, origin, managed })).cast()
    })
}

/// # Safety
/// `name` is a string that ends in NUL, or null.
unsafe fn managed_name(name: *const c_char) -> Option<PathBuf> {
    if name.is_null() {
        return None;
    }
    // SAFETY: as said.
    let name = unsafe { CStr::from_ptr(name) };
    process::managed(Path::new(OsStr::from_bytes(name.to_bytes())))
}

fn opening(flags: c_uint) -> SettledOpening {
    if flags & H5F_ACC_TRUNC != 0 { SettledOpening::Replacing } else { SettledOpening::Existing }
}

/// Files in SWMR mode are not managed: each write is to be seen, in order, by readers elsewhere.
fn manage(slot: usize, destination: PathBuf, flags: c_uint, origin: &OriginFile) -> Option<ManagedFile> {
    if flags & (H5F_ACC_SWMR_READ | H5F_ACC_SWMR_WRITE) != 0 {
        None
    } else if flags & H5F_ACC_RDWR != 0 {
        Some(ManagedFile::for_writing(slot, destination))
    } else {
        ManagedFile::for_reading(slot, destination, origin)
    }
}

unsafe extern "C" fn close(file: *mut H5FD_t) -> herr_t {
    guard(FAIL, || {
        // SAFETY: made by `open`, and HDF5 does not use it again.
        let file = *unsafe { Box::from_raw(file.cast::<DriverFile>()) };
        let mut answer = 0;
        if let Some(managed) = file.managed {
            let destination = managed.destination().to_owned();
            if let Err(error) = managed.close() {
                failure::tell(&file.library.stack, Failure::Close, &destination, &error);
                answer = FAIL;
            }
        }
        file.origin.close().min(answer)
    })
}

unsafe extern "C" fn cmp(one: *const H5FD_t, other: *const H5FD_t) -> c_int {
    // SAFETY: HDF5 compares open files of this driver.
    guard(0, || unsafe { of(one).origin.cmp(&of(other).origin) })
}

unsafe extern "C" fn query<const SLOT: usize>(file: *const H5FD_t, flags: *mut c_ulong) -> herr_t {
    guard(FAIL, || {
        if !file.is_null() {
            // SAFETY: an open file of this driver, and HDF5's place for flags.
            return unsafe { of(file).origin.query(flags) };
        }
        let Some(sec2) = library::<SLOT>().and_then(DriverLibrary::sec2) else { return FAIL };
        // SAFETY: HDF5's place for flags.
        unsafe { sec2.query(flags) }
    })
}

unsafe extern "C" fn get_eoa(file: *const H5FD_t, kind: H5FD_mem_t) -> haddr_t {
    // SAFETY: an open file.
    guard(HADDR_UNDEF, || unsafe { of(file) }.origin.eoa(kind))
}

unsafe extern "C" fn set_eoa(file: *mut H5FD_t, kind: H5FD_mem_t, end: haddr_t) -> herr_t {
    // SAFETY: an open file.
    guard(FAIL, || unsafe { of(file) }.origin.set_eoa(kind, end))
}

unsafe extern "C" fn get_eof(file: *const H5FD_t, kind: H5FD_mem_t) -> haddr_t {
    guard(HADDR_UNDEF, || {
        // SAFETY: an open file.
        let file = unsafe { of(file) };
        file.managed.as_ref().and_then(ManagedFile::end).unwrap_or_else(|| file.origin.eof(kind))
    })
}

unsafe extern "C" fn get_handle(file: *mut H5FD_t, access: hid_t, handle: *mut *mut c_void) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of_mut(file) };
        // Who has the descriptor reads and writes the file itself.
        if let Some(managed) = &mut file.managed {
            let direct = managed.go_direct().map(|()| 0);
            if file.answer(Failure::Flush, direct) < 0 {
                return FAIL;
            }
        }
        // SAFETY: HDF5's place for the handle.
        unsafe { file.origin.handle(access, handle) }
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
        let file = unsafe { of_mut(file) };
        let access = Sec2Access { kind, transfer };
        if file.managed.is_none() || !is_sound(at, len, into) {
            // SAFETY: the memory is HDF5's, of that length; what is not sound is refused in the driver's own words.
            return unsafe { file.origin.read(access, at, len, into) };
        }
        // SAFETY: the memory is HDF5's, of that length, and nobody else's during the call.
        let into = unsafe { slice::from_raw_parts_mut(into.cast::<u8>(), len) };
        let answer = match file.managed() {
            Ok(Some((managed, origin))) => managed.read(origin, access, at, into),
            Ok(None) => Ok(FAIL),
            Err(error) => Err(error),
        };
        file.answer(Failure::Read { at, len }, answer)
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
        let file = unsafe { of_mut(file) };
        let access = Sec2Access { kind, transfer };
        if file.managed.is_none() || !is_sound(at, len, bytes) {
            // SAFETY: the memory is HDF5's, of that length; what is not sound is refused in the driver's own words.
            return unsafe { file.origin.write(access, at, len, bytes) };
        }
        // SAFETY: the memory is HDF5's, of that length, and does not change during the call.
        let bytes = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), len) };
        let answer = match file.managed() {
            Ok(Some((managed, origin))) => managed.write(origin, access, at, bytes),
            Ok(None) => Ok(FAIL),
            Err(error) => Err(error),
        };
        file.answer(Failure::Write { at, len }, answer)
    })
}

/// Whether bytes from `at` on can be those of a file.
fn is_sound(at: haddr_t, len: usize, memory: *const c_void) -> bool {
    !memory.is_null() && at.checked_add(len as u64).is_some_and(|end| end <= MAXADDR)
}

unsafe extern "C" fn flush(file: *mut H5FD_t, transfer: hid_t, closing: bool) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of_mut(file) };
        let flushed = match file.managed() {
            Ok(Some((managed, _))) => managed.flush(closing).map(|()| 0),
            Ok(None) => Ok(0),
            Err(error) => Err(error),
        };
        let answer = file.answer(Failure::Flush, flushed);
        answer.min(file.origin.flush(transfer, closing))
    })
}

unsafe extern "C" fn truncate(file: *mut H5FD_t, transfer: hid_t, closing: bool) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of_mut(file) };
        if file.managed.is_none() {
            return file.origin.truncate(transfer, closing);
        }
        let answer = match file.managed() {
            Ok(Some((managed, origin))) => managed.truncate(origin, transfer, closing),
            Ok(None) => Ok(FAIL),
            Err(error) => Err(error),
        };
        file.answer(Failure::Truncate, answer)
    })
}

unsafe extern "C" fn lock(file: *mut H5FD_t, exclusive: bool) -> herr_t {
    // SAFETY: an open file.
    guard(FAIL, || unsafe { of(file) }.origin.lock(exclusive))
}

unsafe extern "C" fn unlock(file: *mut H5FD_t) -> herr_t {
    guard(FAIL, || {
        // SAFETY: an open file.
        let file = unsafe { of_mut(file) };
        // HDF5 gives a lock up, other than by closing the file, for readers of SWMR alone: they look at the file itself.
        if let Some(managed) = &mut file.managed {
            let direct = managed.go_direct().map(|()| 0);
            if file.answer(Failure::Flush, direct) < 0 {
                return FAIL;
            }
        }
        file.origin.unlock()
    })
}

unsafe extern "C" fn delete<const SLOT: usize>(name: *const c_char, access: hid_t) -> herr_t {
    guard(FAIL, || {
        let Some(library) = library::<SLOT>() else { return FAIL };
        let Some(sec2) = library.sec2() else { return FAIL };
        // SAFETY: a string of HDF5's, or null.
        let Some(destination) = (unsafe { managed_name(name) }) else {
            // SAFETY: handed through.
            return unsafe { sec2.delete(name, access) };
        };
        let removed = wait_until_settled(SLOT, &destination, SettledOpening::Replacing).and_then(|settled| {
            // SAFETY: handed through.
            let answer = unsafe { sec2.delete(name, access) };
            if answer < 0 { Ok(answer) } else { settled.replaced().map(|()| answer) }
        });
        removed.unwrap_or_else(|error| {
            failure::tell(&library.stack, Failure::Open, &destination, &error);
            FAIL
        })
    })
}

unsafe extern "C" fn control(
    file: *mut H5FD_t,
    code: u64,
    flags: u64,
    input: *const c_void,
    output: *mut *mut c_void,
) -> herr_t {
    // SAFETY: an open file; the rest is handed through.
    guard(FAIL, || unsafe { of(file).origin.control(code, flags, input, output) })
}
