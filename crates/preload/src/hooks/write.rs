//! Writes and syncs: a write to a staged file once more where the staging area was full.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

use super::exported;
use crate::{
    own_numbers, real,
    staged::{self, with_room},
};

/// After a sync of `fd`, what leads to a staged file is synced as well.
fn synced(fd: c_int, answer: c_int) -> c_int {
    if answer == 0 && staged::is_on() {
        staged::synced(fd);
    }
    answer
}

// SAFETY of all that follow: the arguments are handed on as they came.
exported! {
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        with_room(fd, || unsafe { real::write(fd, from, len) })
    }

    fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        with_room(fd, || unsafe { real::pwrite(fd, from, len, at) })
    }

    fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        with_room(fd, || unsafe { real::pwrite64(fd, from, len, at) })
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        with_room(fd, || unsafe { real::writev(fd, parts, count) })
    }

    fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        with_room(fd, || unsafe { real::pwritev(fd, parts, count, at) })
    }

    fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        with_room(fd, || unsafe { real::pwritev64(fd, parts, count, at) })
    }

    fn fsync(fd: c_int) -> c_int {
        // SAFETY: above.
        synced(fd, unsafe { real::fsync(fd) })
    }

    fn fdatasync(fd: c_int) -> c_int {
        // SAFETY: above.
        synced(fd, unsafe { real::fdatasync(fd) })
    }
}
