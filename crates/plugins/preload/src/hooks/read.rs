//! Reads: a descriptor that is read block by block is served here, all others by the kernel.

#![expect(
    unsafe_code,
    reason = "is called in place of functions of the C library, and fills memory of programs"
)]

use std::slice;

use libc::{c_int, c_void, iovec, off_t, size_t, ssize_t};

use super::exported;
use crate::{
    engine::{inside, own_numbers},
    manage::{
        self,
        program_file::{BlockReader, ByteSource, ProgramFile},
        slots::{self, SlotKind},
    },
    system::{kernel, real},
};

/// The kernel reads no more at once.
const MOST_BYTES: usize = 0x7fff_f000;

#[inline]
fn is_plain(fd: c_int) -> bool {
    slots::is_read_by_kernel(fd)
}

/// Memory of a program that is to be filled.
///
/// # Safety
/// `len` bytes from `into` on may be written, and nobody else uses them meanwhile.
unsafe fn memory<'a>(into: *mut c_void, len: size_t) -> &'a mut [u8] {
    if into.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: as the caller promises; bytes have no invalid values.
    unsafe { slice::from_raw_parts_mut(into.cast(), len.min(MOST_BYTES)) }
}

/// True where the kernel has to refuse the memory.
fn is_nowhere(parts: &[iovec]) -> bool {
    parts.iter().any(|part| part.iov_base.is_null() && part.iov_len > 0)
}

/// What `fill` makes of the file that `fd` is read by block by block; the file is left to the kernel where that is nothing.
fn served(fd: c_int, fill: impl FnOnce(&ProgramFile, &BlockReader) -> Option<usize>) -> Option<ssize_t> {
    inside::run(|| {
        let file = manage::managed(fd)?;
        let ByteSource::Blocks(reader) = &*file.bytes else { return None };
        let len = fill(&file, reader);
        if len.is_none() && !file.is_shared() {
            drop(slots::clear(fd));
        }
        ssize_t::try_from(len?).ok()
    })
}

/// Fills `parts` from `at` on; bytes that are read are those of the file up to its end.
///
/// # Safety
/// `parts` are `count` parts of the program's memory, each as [`memory`] asks.
unsafe fn fill_parts(reader: &BlockReader, parts: &[iovec], mut at: u64) -> Option<usize> {
    let mut filled = 0;
    for part in parts {
        // SAFETY: as the caller promises.
        let into = unsafe { memory(part.iov_base, part.iov_len) };
        let wanted = into.len();
        let len = reader.read_at(at, into)?;
        (filled, at) = (filled + len, at + len as u64);
        if len < wanted {
            break;
        }
    }
    Some(filled)
}

/// The parts of a vectored read; nothing where the kernel is to refuse them.
///
/// # Safety
/// `parts` is an array of `count`.
unsafe fn parts<'a>(parts: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    let count = usize::try_from(count).ok().filter(|count| (1..=1024).contains(count))?;
    if parts.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let parts = unsafe { slice::from_raw_parts(parts, count) };
    let all = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.iov_len))?;
    (all <= MOST_BYTES).then_some(parts)
}

/// Waits while the origin is laid over `fd`: its position is not known meanwhile.
fn wait_for_turn(fd: c_int) {
    let _waited = inside::run(|| {
        slots::wait_for_readers_turn(fd);
        Some(())
    });
}

/// Reads at the position of `fd` and moves it, as long as nobody shares that position.
///
/// # Safety
/// As [`fill_parts`].
#[cold]
unsafe fn read_on(fd: c_int, parts: &[iovec]) -> Option<ssize_t> {
    inside::end_if_cancelled();
    if slots::kind(fd) != SlotKind::Blocks {
        wait_for_turn(fd);
        return None;
    }
    if is_nowhere(parts) {
        return None;
    }
    served(fd, |file, reader| {
        if file.is_shared() {
            // The kernel reads the origin: the next open finds a copy.
            reader.whole_or_place();
            return None;
        }
        file.with_position(|| {
            let at = kernel::position(fd)?;
            // SAFETY: as the caller promises.
            let len = unsafe { fill_parts(reader, parts, at) }?;
            kernel::set_position(fd, at + len as u64).then_some(len)
        })
    })
}

/// Reads at `at`.
///
/// # Safety
/// As [`fill_parts`].
#[cold]
unsafe fn read_at(fd: c_int, parts: &[iovec], at: off_t) -> Option<ssize_t> {
    inside::end_if_cancelled();
    let at = u64::try_from(at).ok().filter(|_| !is_nowhere(parts))?;
    if let [part] = parts {
        // SAFETY: as the caller promises.
        let into = unsafe { memory(part.iov_base, part.iov_len) };
        if let Some(len) = read_placed(fd, at, into) {
            return ssize_t::try_from(len).ok();
        }
    }
    // SAFETY: as the caller promises.
    served(fd, |_, reader| unsafe { fill_parts(reader, parts, at) })
}

/// Reads at `at` of a file that was placed as a whole after it was opened, without locks and without work of ours.
fn read_placed(fd: c_int, at: u64, into: &mut [u8]) -> Option<usize> {
    let file = slots::file(fd)?;
    let ByteSource::Blocks(reader) = &*file.bytes else { return None };
    if !reader.has_whole() || !file.is_open_as(fd) {
        return None;
    }
    reader.read_whole_at(at, into)
}

/// One part.
fn one(into: *mut c_void, len: size_t) -> [iovec; 1] {
    [iovec { iov_base: into, iov_len: len }]
}

/// Takes what a program says of its coming reads; true where the origin need not hear it.
#[cold]
fn is_advice_taken(fd: c_int, advice: c_int) -> bool {
    let is_about_reading = matches!(
        advice,
        libc::POSIX_FADV_WILLNEED
            | libc::POSIX_FADV_SEQUENTIAL
            | libc::POSIX_FADV_RANDOM
            | libc::POSIX_FADV_NORMAL
    );
    let taken = inside::run(|| {
        let file = manage::managed(fd)?;
        let ByteSource::Blocks(reader) = &*file.bytes else { return None };
        if advice == libc::POSIX_FADV_WILLNEED {
            reader.whole_or_place();
        }
        Some(())
    });
    is_about_reading && taken.is_some()
}

// SAFETY of all that follow: the memory and the arguments are the program's, as the C library's functions ask for them.
exported! {
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) {
                return real::read(fd, into, len);
            }
            read_on(fd, &one(into, len)).unwrap_or_else(|| real::read(fd, into, len))
        }
    }

    fn __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) || len > room {
                return real::__read_chk(fd, into, len, room);
            }
            read_on(fd, &one(into, len)).unwrap_or_else(|| real::read(fd, into, len))
        }
    }

    fn pread(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) {
                return real::pread(fd, into, len, at);
            }
            read_at(fd, &one(into, len), at).unwrap_or_else(|| real::pread(fd, into, len, at))
        }
    }

    fn pread64(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) {
                return real::pread64(fd, into, len, at);
            }
            read_at(fd, &one(into, len), at).unwrap_or_else(|| real::pread64(fd, into, len, at))
        }
    }

    fn __pread_chk(fd: c_int, into: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) || len > room {
                return real::__pread_chk(fd, into, len, at, room);
            }
            read_at(fd, &one(into, len), at).unwrap_or_else(|| real::pread(fd, into, len, at))
        }
    }

    fn __pread64_chk(fd: c_int, into: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) || len > room {
                return real::__pread64_chk(fd, into, len, at, room);
            }
            read_at(fd, &one(into, len), at).unwrap_or_else(|| real::pread64(fd, into, len, at))
        }
    }

    fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) {
                return real::readv(fd, list, count);
            }
            let read = parts(list, count).and_then(|parts| read_on(fd, parts));
            read.unwrap_or_else(|| real::readv(fd, list, count))
        }
    }

    fn preadv(fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) {
                return real::preadv(fd, list, count, at);
            }
            let read = parts(list, count).and_then(|parts| read_at(fd, parts, at));
            read.unwrap_or_else(|| real::preadv(fd, list, count, at))
        }
    }

    fn preadv64(fd: c_int, list: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) {
                return real::preadv64(fd, list, count, at);
            }
            let read = parts(list, count).and_then(|parts| read_at(fd, parts, at));
            read.unwrap_or_else(|| real::preadv64(fd, list, count, at))
        }
    }

    fn preadv2(fd: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) || flags != 0 || at < 0 {
                return real::preadv2(fd, list, count, at, flags);
            }
            let read = parts(list, count).and_then(|parts| read_at(fd, parts, at));
            read.unwrap_or_else(|| real::preadv2(fd, list, count, at, flags))
        }
    }

    fn preadv64v2(fd: c_int, list: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        unsafe {
            if is_plain(fd) || flags != 0 || at < 0 {
                return real::preadv64v2(fd, list, count, at, flags);
            }
            let read = parts(list, count).and_then(|parts| read_at(fd, parts, at));
            read.unwrap_or_else(|| real::preadv64v2(fd, list, count, at, flags))
        }
    }

    fn lseek(fd: c_int, offset: off_t, from: c_int) -> off_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        let seek = || unsafe { real::lseek(fd, offset, from) };
        if is_plain(fd) { seek() } else { seek_alone(fd, &seek) }
    }

    fn lseek64(fd: c_int, offset: off_t, from: c_int) -> off_t {
        let fd = own_numbers::as_seen(fd);
        // SAFETY: above.
        let seek = || unsafe { real::lseek64(fd, offset, from) };
        if is_plain(fd) { seek() } else { seek_alone(fd, &seek) }
    }

    fn posix_fadvise(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
        if !is_plain(fd) && is_advice_taken(fd, advice) {
            return 0;
        }
        // SAFETY: above.
        unsafe { real::posix_fadvise(fd, offset, len, advice) }
    }

    fn posix_fadvise64(fd: c_int, offset: off_t, len: off_t, advice: c_int) -> c_int {
        if !is_plain(fd) && is_advice_taken(fd, advice) {
            return 0;
        }
        // SAFETY: above.
        unsafe { real::posix_fadvise64(fd, offset, len, advice) }
    }
}

/// Moves the position while no other thread reads at it, and no signal handler of this one.
#[cold]
fn seek_alone(fd: c_int, seek: &dyn Fn() -> off_t) -> off_t {
    // Work of ours may hold the position itself.
    if !inside::is_program() {
        return seek();
    }
    if slots::kind(fd) != SlotKind::Blocks {
        wait_for_turn(fd);
        return seek();
    }
    inside::uninterrupted(|| match slots::file(fd) {
        Some(file) => file.with_position(seek),
        None => seek(),
    })
}
