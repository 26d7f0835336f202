//! `open` and its like: the C library's own call comes first, with its errors and its leave.
//!
//! The mode is declared as a plain third argument: callers of the variadic functions pass it in the same register, and it is not
//! looked at unless a file is made.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::ffi::CStr;

use libc::{AT_FDCWD, c_char, c_int, mode_t, off_t};

use super::{
    exported,
    names::change,
    numbers::{with_a_name, with_a_number},
};
use crate::{
    inside, kernel,
    manage::{self, OpenedBy},
    prefix, real, reopened,
    staged::{self, LastLink, OpenCall},
};

/// True when `path` is one that may lie under the prefix.
///
/// # Safety
/// `path` is null or a text that ends with a zero byte.
#[inline]
unsafe fn may_cover(folder: c_int, path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: as the caller promises.
    let path = unsafe { CStr::from_ptr(path) };
    match folder {
        AT_FDCWD => prefix::may_cover(path),
        _ => prefix::may_cover_below_folder(path),
    }
}

/// Opens by `open`, and manages what it gives.
///
/// # Safety
/// As [`may_cover`].
#[inline]
unsafe fn opened(folder: c_int, path: *const c_char, open: impl Fn(*const c_char) -> c_int) -> c_int {
    // SAFETY: as the caller promises.
    let may_cover = unsafe { may_cover(folder, path) };
    // SAFETY: as the caller promises.
    let named = || reopened::named(unsafe { CStr::from_ptr(path) });
    if !may_cover && !path.is_null() && named().is_some() {
        // SAFETY: as the caller promises.
        return unsafe { opened_again(path, open) };
    }
    let fd = with_a_number(|| open(path));
    if may_cover {
        manage::opened(fd, OpenedBy::Descriptor);
    } else {
        // A number that was closed without a hook is another file's now.
        manage::left_open(fd);
    }
    fd
}

/// The same for a path that names a descriptor of this process.
///
/// # Safety
/// As [`may_cover`], and `path` is not null.
#[cold]
unsafe fn opened_again(path: *const c_char, open: impl Fn(*const c_char) -> c_int) -> c_int {
    // SAFETY: as the caller promises.
    let origin = reopened::origin_path(unsafe { CStr::from_ptr(path) });
    let fd = with_a_number(|| open(origin.as_ref().map_or(path, |origin| origin.path.as_ptr())));
    if prefix::is_on() {
        manage::opened(fd, OpenedBy::Descriptor);
    }
    fd
}

/// The flags of `creat`.
const CREATED: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// Opens a file that is staged, or else by `open`.
///
/// # Safety
/// As [`may_cover`].
#[inline]
unsafe fn staged_or(
    folder: c_int,
    path: *const c_char,
    (flags, mode): (c_int, mode_t),
    open: impl Fn(*const c_char) -> c_int,
) -> c_int {
    if staged::is_on() && !path.is_null() {
        // SAFETY: as the caller promises.
        let path = unsafe { CStr::from_ptr(path) };
        if let Some(fd) = staged::open(OpenCall { folder, path, flags, mode }) {
            manage::left_open(fd);
            return fd;
        }
    }
    // SAFETY: as the caller promises.
    unsafe { opened(folder, path, open) }
}

/// Notes that `fd` is a new file that this process writes to; its name is in place of the template by now.
///
/// # Safety
/// As [`may_cover`].
unsafe fn made(template: *const c_char, fd: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { opened(AT_FDCWD, template, |_| fd) }
}

/// The bytes of the file at `path` have changed.
///
/// # Safety
/// As [`may_cover`].
unsafe fn cut(path: *const c_char, answer: c_int) -> c_int {
    // SAFETY: as the caller promises.
    if answer == 0 && unsafe { may_cover(AT_FDCWD, path) } {
        let _forgotten = inside::run(|| {
            // SAFETY: as the caller promises.
            let path = unsafe { CStr::from_ptr(path) };
            manage::written(&kernel::identity_at(path)?);
            Some(())
        });
    }
    answer
}

// SAFETY of all that follow: the arguments are handed on as they came, and the paths among them are texts of C.
exported! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(AT_FDCWD, path, (flags, mode), |path| real::open(path, flags, mode)) }
    }

    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(AT_FDCWD, path, (flags, mode), |path| real::open64(path, flags, mode)) }
    }

    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(folder, path, (flags, mode), |path| real::openat(folder, path, flags, mode)) }
    }

    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(folder, path, (flags, mode), |path| real::openat64(folder, path, flags, mode)) }
    }

    fn __open_2(path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(AT_FDCWD, path, (flags, 0), |path| real::__open_2(path, flags)) }
    }

    fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(AT_FDCWD, path, (flags, 0), |path| real::__open64_2(path, flags)) }
    }

    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(folder, path, (flags, 0), |path| real::__openat_2(folder, path, flags)) }
    }

    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(folder, path, (flags, 0), |path| real::__openat64_2(folder, path, flags)) }
    }

    fn creat(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(AT_FDCWD, path, (CREATED, mode), |path| real::creat(path, mode)) }
    }

    fn creat64(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { staged_or(AT_FDCWD, path, (CREATED, mode), |path| real::creat64(path, mode)) }
    }

    fn mkstemp(template: *mut c_char) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, 0, || real::mkstemp(template))) }
    }

    fn mkstemp64(template: *mut c_char) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, 0, || real::mkstemp64(template))) }
    }

    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, 0, || real::mkostemp(template, flags))) }
    }

    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, 0, || real::mkostemp64(template, flags))) }
    }

    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, suffix, || real::mkstemps(template, suffix))) }
    }

    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, suffix, || real::mkstemps64(template, suffix))) }
    }

    fn mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, suffix, || real::mkostemps(template, suffix, flags))) }
    }

    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { made(template, with_a_name(template, suffix, || real::mkostemps64(template, suffix, flags))) }
    }

    fn truncate(path: *const c_char, len: off_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, LastLink::Followed, |_, path| cut(path, real::truncate(path, len))) }
    }

    fn truncate64(path: *const c_char, len: off_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, LastLink::Followed, |_, path| cut(path, real::truncate64(path, len))) }
    }

    fn chdir(path: *const c_char) -> c_int {
        // SAFETY: above.
        let answer = unsafe { real::chdir(path) };
        prefix::forget_working_folder();
        answer
    }

    fn fchdir(fd: c_int) -> c_int {
        // SAFETY: above.
        let answer = unsafe { real::fchdir(fd) };
        prefix::forget_working_folder();
        answer
    }
}
