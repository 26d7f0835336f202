//! Questions about a file by its name: `stat`, `access`, attributes and links. A name of a descriptor on a copy is the origin's.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{AT_FDCWD, c_char, c_int, c_void, size_t, ssize_t};

use super::{exported, names::ask, stat::of_origin_at};
use crate::system::real;

// SAFETY of all that follow: the arguments are handed on as they came, but for names of descriptors, and the paths among them are texts of C.
exported! {
    fn stat(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::stat(path, into)) }
    }

    fn stat64(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::stat64(path, into)) }
    }

    fn lstat(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::lstat(path, into)) }
    }

    fn lstat64(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::lstat64(path, into)) }
    }

    fn __xstat(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::__xstat(version, path, into)) }
    }

    fn __xstat64(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::__xstat64(version, path, into)) }
    }

    fn __lxstat(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::__lxstat(version, path, into)) }
    }

    fn __lxstat64(version: c_int, path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::__lxstat64(version, path, into)) }
    }

    fn access(path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::access(path, mode)) }
    }

    fn eaccess(path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::eaccess(path, mode)) }
    }

    fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::euidaccess(path, mode)) }
    }

    fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
        // SAFETY: above.
        unsafe {
            ask(folder, path, |folder, path| {
                of_origin_at(folder, path, flags, |folder| real::faccessat(folder, path, mode, flags))
            })
        }
    }

    fn statfs(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::statfs(path, into)) }
    }

    fn statfs64(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::statfs64(path, into)) }
    }

    fn statvfs(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::statvfs(path, into)) }
    }

    fn statvfs64(path: *const c_char, into: *mut c_void) -> c_int {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::statvfs64(path, into)) }
    }

    fn getxattr(path: *const c_char, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::getxattr(path, name, into, len)) }
    }

    fn lgetxattr(path: *const c_char, name: *const c_char, into: *mut c_void, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::lgetxattr(path, name, into, len)) }
    }

    fn listxattr(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::listxattr(path, into, len)) }
    }

    fn llistxattr(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::llistxattr(path, into, len)) }
    }

    fn readlink(path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(AT_FDCWD, path, |_, path| real::readlink(path, into, len)) }
    }

    fn readlinkat(folder: c_int, path: *const c_char, into: *mut c_char, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { ask(folder, path, |folder, path| real::readlinkat(folder, path, into, len)) }
    }
}
