//! Modes, owners, times and attributes that are set by a file's name: where that leads to a copy, they are the origin's.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{AT_FDCWD, c_char, c_int, c_void, gid_t, mode_t, size_t, timespec, timeval, uid_t};

use super::{
    exported,
    names::{change, last_link},
    stat::of_origin,
};
use crate::{
    manage::reopened::LastLink::{Followed, Kept},
    system::real,
};

// SAFETY of all that follow: the arguments are handed on as they came, but for paths that lead to a copy, and the paths among them are texts of C.
exported! {
    fn chmod(path: *const c_char, mode: mode_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::chmod(path, mode)) }
    }

    fn fchmodat(folder: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(folder, path, last_link(flags), |folder, path| real::fchmodat(folder, path, mode, flags)) }
    }

    fn chown(path: *const c_char, user: uid_t, group: gid_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::chown(path, user, group)) }
    }

    fn lchown(path: *const c_char, user: uid_t, group: gid_t) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lchown(path, user, group)) }
    }

    fn fchownat(folder: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            change(folder, path, last_link(flags), |folder, path| real::fchownat(folder, path, user, group, flags))
        }
    }

    fn utime(path: *const c_char, times: *const c_void) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::utime(path, times)) }
    }

    fn utimes(path: *const c_char, times: *const timeval) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::utimes(path, times)) }
    }

    fn lutimes(path: *const c_char, times: *const timeval) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lutimes(path, times)) }
    }

    fn futimesat(folder: c_int, path: *const c_char, times: *const timeval) -> c_int {
        if path.is_null() {
            // SAFETY: above.
            return of_origin(folder, |fd| unsafe { real::futimesat(fd, path, times) });
        }
        // SAFETY: above.
        unsafe { change(folder, path, Followed, |folder, path| real::futimesat(folder, path, times)) }
    }

    fn utimensat(folder: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(folder, path, last_link(flags), |folder, path| real::utimensat(folder, path, times, flags)) }
    }

    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::setxattr(path, name, value, len, flags)) }
    }

    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lsetxattr(path, name, value, len, flags)) }
    }

    fn removexattr(path: *const c_char, name: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Followed, |_, path| real::removexattr(path, name)) }
    }

    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int {
        // SAFETY: above.
        unsafe { change(AT_FDCWD, path, Kept, |_, path| real::lremovexattr(path, name)) }
    }
}
