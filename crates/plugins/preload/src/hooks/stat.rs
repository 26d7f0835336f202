//! What is asked of a descriptor besides its bytes: for one that is open on a copy the origin answers.
//!
//! Functions that take a path alone are in `lookup`.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{
    AT_EMPTY_PATH, c_char, c_int, c_uint, c_void, gid_t, mode_t, size_t, ssize_t, timespec, timeval, uid_t,
};

use super::{exported, names::ask};
use crate::{
    engine::{inside, own_numbers},
    manage::{
        self, inherited,
        slots::{self, SlotKind},
    },
    system::real,
};

/// What `call` gives for `fd`, or for the origin where `fd` is open on a copy.
#[inline]
pub(super) fn of_origin<R>(fd: c_int, call: impl Fn(c_int) -> R) -> R {
    inherited::look_once();
    let fd = own_numbers::as_seen(fd);
    if slots::kind(fd) != SlotKind::Copy {
        return call(fd);
    }
    // The file is held until the call is done: it keeps the number open.
    match inside::run(|| manage::beside_copy(fd)) {
        Some((number, _file)) => call(number),
        None => call(fd),
    }
}

/// The same for a call with a folder and a path, which is about the descriptor itself where the path is empty.
///
/// # Safety
/// `path` is null or a text that ends with a zero byte.
#[inline]
pub(super) unsafe fn of_origin_at<R>(
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    call: impl Fn(c_int) -> R,
) -> R {
    // SAFETY: as the caller promises; an empty text has one byte.
    if flags & AT_EMPTY_PATH == 0 || !path.is_null() && unsafe { *path } != 0 {
        return call(fd);
    }
    of_origin(fd, call)
}

// SAFETY of all that follow: the arguments are handed on as they came, but for the number of a descriptor that is open.
exported! {
    fn fstat(fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fstat(fd, into) })
    }

    fn fstat64(fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fstat64(fd, into) })
    }

    fn __fxstat(version: c_int, fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::__fxstat(version, fd, into) })
    }

    fn __fxstat64(version: c_int, fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::__fxstat64(version, fd, into) })
    }

    fn fstatat(fd: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            ask(fd, path, |fd, path| {
                of_origin_at(fd, path, flags, |fd| real::fstatat(fd, path, into, flags))
            })
        }
    }

    fn fstatat64(fd: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            ask(fd, path, |fd, path| {
                of_origin_at(fd, path, flags, |fd| real::fstatat64(fd, path, into, flags))
            })
        }
    }

    fn __fxstatat(version: c_int, fd: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            ask(fd, path, |fd, path| {
                of_origin_at(fd, path, flags, |fd| real::__fxstatat(version, fd, path, into, flags))
            })
        }
    }

    fn __fxstatat64(version: c_int, fd: c_int, path: *const c_char, into: *mut c_void, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            ask(fd, path, |fd, path| {
                of_origin_at(fd, path, flags, |fd| real::__fxstatat64(version, fd, path, into, flags))
            })
        }
    }

    fn statx(fd: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe {
            ask(fd, path, |fd, path| {
                of_origin_at(fd, path, flags, |fd| real::statx(fd, path, flags, mask, into))
            })
        }
    }

    fn fstatfs(fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fstatfs(fd, into) })
    }

    fn fstatfs64(fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fstatfs64(fd, into) })
    }

    fn fstatvfs(fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fstatvfs(fd, into) })
    }

    fn fstatvfs64(fd: c_int, into: *mut c_void) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fstatvfs64(fd, into) })
    }

    fn fchmod(fd: c_int, mode: mode_t) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fchmod(fd, mode) })
    }

    fn fchown(fd: c_int, user: uid_t, group: gid_t) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fchown(fd, user, group) })
    }

    fn futimens(fd: c_int, times: *const timespec) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::futimens(fd, times) })
    }

    fn futimes(fd: c_int, times: *const timeval) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::futimes(fd, times) })
    }

    fn fgetxattr(fd: c_int, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fgetxattr(fd, name, into, len) })
    }

    fn flistxattr(fd: c_int, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::flistxattr(fd, into, len) })
    }

    fn fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fsetxattr(fd, name, value, len, flags) })
    }

    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int {
        // SAFETY: above.
        of_origin(fd, |fd| unsafe { real::fremovexattr(fd, name) })
    }
}
