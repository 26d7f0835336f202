//! Writes by descriptors: the number of a descriptor of ours is refused (`EBADF`), as it is not one that the program has open.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

use super::exported;
use crate::{engine::own_numbers, system::real};

// SAFETY of all that follow: the arguments are handed on as they came.
exported! {
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { real::write(own_numbers::as_seen(fd), from, len) }
    }

    fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        // SAFETY: above.
        unsafe { real::pwrite(own_numbers::as_seen(fd), from, len, at) }
    }

    fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        // SAFETY: above.
        unsafe { real::pwrite64(own_numbers::as_seen(fd), from, len, at) }
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: above.
        unsafe { real::writev(own_numbers::as_seen(fd), parts, count) }
    }

    fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: above.
        unsafe { real::pwritev(own_numbers::as_seen(fd), parts, count, at) }
    }

    fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
        // SAFETY: above.
        unsafe { real::pwritev64(own_numbers::as_seen(fd), parts, count, at) }
    }

    fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        // SAFETY: above.
        unsafe { real::pwritev2(own_numbers::as_seen(fd), parts, count, at, flags) }
    }

    fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        // SAFETY: above.
        unsafe { real::pwritev64v2(own_numbers::as_seen(fd), parts, count, at, flags) }
    }
}
