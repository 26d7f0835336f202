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
    engine::{inside, prefix},
    manage::{
        self, OpenedBy, copy_devices, inherited, own_writes,
        reopened::{self, LastLink},
    },
    system::{kernel, real},
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

/// True for flags with which a file may be changed.
fn may_change(flags: c_int) -> bool {
    flags & libc::O_PATH == 0 && flags & (libc::O_ACCMODE | libc::O_TRUNC) != libc::O_RDONLY
}

/// True for flags by which a descriptor stands for the file that a path leads to, and nothing is read by it.
fn is_mere_path(flags: c_int) -> bool {
    flags & (libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY) == libc::O_PATH
}

/// True for flags with which a file is cut, and open for reading alone afterwards.
fn is_cut(flags: c_int) -> bool {
    flags & (libc::O_PATH | libc::O_ACCMODE | libc::O_TRUNC) == libc::O_RDONLY | libc::O_TRUNC
}

/// Opens by `open`, and manages what it gives.
///
/// # Safety
/// As [`may_cover`].
#[inline]
unsafe fn opened(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    open: impl Fn(*const c_char) -> c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let may_cover = unsafe { may_cover(folder, path) };
    if !path.is_null() && (may_change(flags) || is_mere_path(flags)) {
        // SAFETY: as the caller promises.
        let origin = unsafe { opened_on_origin(folder, path, flags, &open) };
        if let Some(fd) = origin {
            return fd;
        }
    }
    let fd = with_a_number(|| open(path));
    // SAFETY: as the caller promises.
    let is_named = || !path.is_null() && reopened::named(unsafe { CStr::from_ptr(path) }).is_some();
    if may_cover || is_named() && prefix::is_on() || copy_devices::may_be_copy(fd) {
        manage::opened(fd, OpenedBy::Descriptor);
        if is_cut(flags) && fd >= 0 {
            own_writes::cut(fd);
        }
    } else {
        // A number that was closed without a hook is another file's now.
        manage::left_open(fd);
    }
    fd
}

/// Opens the origin by `open`, where `path` leads to a copy.
///
/// # Safety
/// As [`may_cover`], and `path` is not null.
#[inline]
unsafe fn opened_on_origin(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    open: impl Fn(*const c_char) -> c_int,
) -> Option<c_int> {
    inherited::look_once();
    let last = if flags & libc::O_NOFOLLOW == 0 { LastLink::Followed } else { LastLink::Kept };
    // SAFETY: as the caller promises.
    let origin = reopened::origin_at(folder, unsafe { CStr::from_ptr(path) }, last)?;
    let fd = with_a_number(|| open(origin.path.as_ptr()));
    manage::opened(fd, OpenedBy::Descriptor);
    if is_cut(flags) && fd >= 0 {
        own_writes::cut(fd);
    }
    Some(fd)
}

/// The flags of `creat`.
const CREATED: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

/// Notes that `fd` is a new file that this process writes to; its name is in place of the template by now.
///
/// # Safety
/// As [`may_cover`].
unsafe fn made(template: *const c_char, fd: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { opened(AT_FDCWD, template, libc::O_RDONLY, |_| fd) }
}

/// The bytes of the file at `path` have changed.
///
/// # Safety
/// As [`may_cover`].
unsafe fn cut(path: *const c_char, answer: c_int) -> c_int {
    // SAFETY: as the caller promises. A path that leads to a copy is not one of the prefix.
    if answer == 0 && (copy_devices::knows_any() || unsafe { may_cover(AT_FDCWD, path) }) {
        let _forgotten = inside::run(|| {
            // SAFETY: as the caller promises.
            let path = unsafe { CStr::from_ptr(path) };
            own_writes::written(&kernel::identity_at(path)?, path);
            Some(())
        });
    }
    answer
}

// SAFETY of all that follow: the arguments are handed on as they came, and the paths among them are texts of C.
exported! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { opened(AT_FDCWD, path, flags, |path| real::open(path, flags, mode)) }
    }

    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { opened(AT_FDCWD, path, flags, |path| real::open64(path, flags, mode)) }
    }

    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { opened(folder, path, flags, |path| real::openat(folder, path, flags, mode)) }
    }

    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { opened(folder, path, flags, |path| real::openat64(folder, path, flags, mode)) }
    }

    fn __open_2(path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { opened(AT_FDCWD, path, flags, |path| real::__open_2(path, flags)) }
    }

    fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { opened(AT_FDCWD, path, flags, |path| real::__open64_2(path, flags)) }
    }

    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { opened(folder, path, flags, |path| real::__openat_2(folder, path, flags)) }
    }

    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { opened(folder, path, flags, |path| real::__openat64_2(folder, path, flags)) }
    }

    fn creat(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { opened(AT_FDCWD, path, CREATED, |path| real::creat(path, mode)) }
    }

    fn creat64(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { opened(AT_FDCWD, path, CREATED, |path| real::creat64(path, mode)) }
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
