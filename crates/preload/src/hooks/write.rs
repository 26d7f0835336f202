//! Writes and syncs: a write to a staged file is finished where the staging area is full.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use std::slice;

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

use super::exported;
use crate::{
    kernel, own_numbers, real,
    staged::{self, written},
};

/// The position in place of a place in the file.
const AT_POSITION: off_t = -1;

/// After a sync of `fd`, what leads to a staged file is synced as well.
fn synced(fd: c_int, answer: c_int) -> c_int {
    if answer == 0 && staged::is_on() {
        staged::synced(fd);
    }
    answer
}

/// Where the rest of a write to `at` goes, once `done` bytes are written.
fn behind(at: off_t, done: usize) -> off_t {
    if at == AT_POSITION { at } else { at.saturating_add_unsigned(done as u64) }
}

/// Writes the `count` parts at `parts` to `fd` by `write`, which gets a list of parts, its length, and how many bytes are written.
///
/// # Safety
/// The parts are the program's, as `writev` takes them.
unsafe fn parts_written(
    fd: c_int,
    (parts, count): (*const iovec, c_int),
    write: impl Fn(*const iovec, c_int, usize) -> ssize_t,
) -> ssize_t {
    let len = if staged::is_staged(fd) { kernel::parts_len(parts, count) } else { None };
    let Some(len) = len else { return write(parts, count, 0) };
    written(fd, len, |done| {
        if done == 0 {
            return write(parts, count, 0);
        }
        // SAFETY: the kernel has written from these parts.
        let list = unsafe { slice::from_raw_parts(parts, usize::try_from(count).unwrap_or(0)) };
        let rest = rest_of(list, done);
        write(rest.as_ptr(), c_int::try_from(rest.len()).unwrap_or(0), done)
    })
}

/// The parts behind the first `done` bytes.
fn rest_of(parts: &[iovec], mut done: usize) -> Vec<iovec> {
    let cut = parts.iter().map(|part| {
        let skipped = done.min(part.iov_len);
        done -= skipped;
        iovec { iov_base: part.iov_base.wrapping_byte_add(skipped), iov_len: part.iov_len - skipped }
    });
    cut.filter(|part| part.iov_len > 0).collect()
}

// SAFETY of all that follow: the arguments are handed on as they came, or what of them is not written yet.
exported! {
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        written(fd, len, |done| unsafe { real::write(fd, from.wrapping_byte_add(done), len - done) })
    }

    fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        written(fd, len, |done| unsafe { real::pwrite(fd, from.wrapping_byte_add(done), len - done, behind(at, done)) })
    }

    fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        written(fd, len, |done| unsafe { real::pwrite64(fd, from.wrapping_byte_add(done), len - done, behind(at, done)) })
    }

    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe { parts_written(fd, (parts, count), |parts, count, _| real::writev(fd, parts, count)) }
    }

    fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe { parts_written(fd, (parts, count), |parts, count, done| real::pwritev(fd, parts, count, behind(at, done))) }
    }

    fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe { parts_written(fd, (parts, count), |parts, count, done| real::pwritev64(fd, parts, count, behind(at, done))) }
    }

    fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            parts_written(fd, (parts, count), |parts, count, done| real::pwritev2(fd, parts, count, behind(at, done), flags))
        }
    }

    fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            parts_written(fd, (parts, count), |parts, count, done| real::pwritev64v2(fd, parts, count, behind(at, done), flags))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_parts_begins_within_one_of_them() {
        let bytes = [0_u8; 10];
        let part = |start: usize, len| iovec {
            iov_base: bytes.as_ptr().wrapping_add(start) as *mut c_void,
            iov_len: len,
        };
        let parts = [part(0, 4), part(4, 0), part(4, 6)];
        let left = |done| {
            rest_of(&parts, done)
                .iter()
                .map(|part| (part.iov_base.addr() - bytes.as_ptr().addr(), part.iov_len))
                .collect::<Vec<_>>()
        };
        assert_eq!(left(1), [(1, 3), (4, 6)]);
        assert_eq!((left(4), left(9), left(10)), (vec![(4, 6)], vec![(9, 1)], vec![]));
        assert_eq!((behind(AT_POSITION, 5), behind(7, 5)), (AT_POSITION, 12));
    }
}
