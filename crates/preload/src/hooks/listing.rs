//! Listings of folders: staged files are at their destinations before one is listed.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{DIR, c_char, c_int, c_void};

use super::{exported, numbers::with_a_number};
use crate::{real, staged};

/// Lists by `call` what is in folders, all staged files being there.
fn listed<R>(call: impl FnOnce() -> R) -> R {
    if staged::is_on() {
        staged::whole_everywhere();
    }
    call()
}

/// A folder that was just opened is to be listed.
///
/// # Safety
/// `folder` is null or open.
unsafe fn opened_folder(folder: *mut DIR) -> *mut DIR {
    if staged::is_on() && !folder.is_null() {
        // SAFETY: as the caller promises.
        staged::whole_folder(unsafe { libc::dirfd(folder) });
    }
    folder
}

// SAFETY of all that follow: the arguments are handed on as they came, but for names of staged files, and the paths among them are texts of C.
exported! {
    fn opendir(path: *const c_char) -> *mut DIR {
        // SAFETY: above.
        unsafe { opened_folder(with_a_number(|| real::opendir(path))) }
    }

    fn fdopendir(fd: c_int) -> *mut DIR {
        // SAFETY: above.
        unsafe { opened_folder(real::fdopendir(fd)) }
    }

    fn scandir(path: *const c_char, names: *mut c_void, choose: *const c_void, compare: *const c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::scandir(path, names, choose, compare) })
    }

    fn scandir64(path: *const c_char, names: *mut c_void, choose: *const c_void, compare: *const c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::scandir64(path, names, choose, compare) })
    }

    fn glob(pattern: *const c_char, flags: c_int, on_error: *const c_void, into: *mut c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::glob(pattern, flags, on_error, into) })
    }

    fn glob64(pattern: *const c_char, flags: c_int, on_error: *const c_void, into: *mut c_void) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::glob64(pattern, flags, on_error, into) })
    }

    fn nftw(path: *const c_char, visit: *const c_void, most: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::nftw(path, visit, most, flags) })
    }

    fn nftw64(path: *const c_char, visit: *const c_void, most: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        listed(|| unsafe { real::nftw64(path, visit, most, flags) })
    }

    fn fts_open(paths: *const *mut c_char, options: c_int, compare: *const c_void) -> *mut c_void {
        // SAFETY: above.
        listed(|| unsafe { real::fts_open(paths, options, compare) })
    }
}
