//! `sendfile` and `copy_file_range`: a file that is read block by block is copied by hand, a part at a time, as both may; so is a whole copy where the
//! kernel copies from no other file system.

#![expect(unsafe_code, reason = "is called in place of functions of the C library")]

use libc::{c_int, c_uint, off_t, size_t, ssize_t};
use rustix::{fs::OFlags, io::Errno};

use super::exported;
use crate::{
    engine::inside,
    manage::{
        self,
        program_file::ByteSource,
        slots::{self, SlotKind},
    },
    system::{kernel, real},
};

/// Bytes of one part: as many as a block usually has.
const PART_BYTES: usize = 1 << 20;

/// A part of a file, read to be written elsewhere.
struct FilePart {
    bytes: Vec<u8>,
    start: u64,
}

/// The part of the file that `from` is read by, from `at` or its position on; nothing where the kernel has to copy it.
fn read_part(from: c_int, at: Option<off_t>, len: size_t) -> Option<FilePart> {
    inside::run(|| {
        let file = manage::managed(from)?;
        let ByteSource::Blocks(reader) = &*file.bytes else { return None };
        let start = match at {
            Some(at) => u64::try_from(at).ok()?,
            None if file.is_shared() => {
                reader.whole_or_place();
                return None;
            }
            None => kernel::position(from)?,
        };
        let mut bytes = vec![0; len.min(PART_BYTES)];
        let read = reader.read_at(start, &mut bytes)?;
        bytes.truncate(read);
        Some(FilePart { bytes, start })
    })
}

/// Copies a part of the file that `from` is read by to `to`. The write may wait, as that of the kernel does: signals interrupt it.
fn copy_part(to: c_int, from: c_int, at: Option<&mut off_t>, len: size_t) -> Option<Result<usize, Errno>> {
    let part = read_part(from, at.as_deref().copied(), len)?;
    let len = part.bytes.len();
    let written = if len == 0 { writable(to).map(|()| 0) } else { kernel::write(to, &part.bytes) };
    let end = part.start + written.unwrap_or(0) as u64;
    match at {
        Some(at) => *at = off_t::try_from(end).ok()?,
        None if written.is_ok() => {
            let _is_set = kernel::set_position(from, end);
        }
        None => {}
    }
    Some(written)
}

/// The answer of a C function.
fn answer(copied: Result<usize, Errno>) -> ssize_t {
    match copied {
        Ok(len) => ssize_t::try_from(len).unwrap_or(-1),
        Err(errno) => {
            inside::set_errno(errno.raw_os_error());
            -1
        }
    }
}

/// An error where `fd` is not open for writing: behind the end of a file nothing is written that would tell.
fn writable(fd: c_int) -> Result<(), Errno> {
    let flags = kernel::open_flags(fd).ok_or(Errno::BADF)?;
    if flags.intersects(OFlags::WRONLY | OFlags::RDWR) { Ok(()) } else { Err(Errno::BADF) }
}

/// An error where a copy of `len` bytes cannot begin at one of `places`, as the kernel has it.
fn checked<'a>(places: impl Iterator<Item = &'a off_t> + Clone, len: size_t) -> Result<(), Errno> {
    if places.clone().any(|place| place.cast_unsigned().checked_add(len as u64).is_none()) {
        return Err(Errno::OVERFLOW);
    }
    if places.into_iter().any(|place| *place < 0) { Err(Errno::INVAL) } else { Ok(()) }
}

/// Copies a part of the whole copy that `from` is open on, which lies on another file system than the program's files.
///
/// # Safety
/// Both places are null or the program's.
unsafe fn copy_across(from: c_int, at: *mut off_t, to: c_int, into: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: as the caller promises.
    let places = unsafe { [at.as_ref(), into.as_ref()] };
    if let Err(errno) = checked(places.into_iter().flatten(), len) {
        return answer(Err(errno));
    }
    // SAFETY: as the caller promises.
    let Some(into) = (unsafe { into.as_mut() }) else {
        // It does the same where nothing is said of a place in the file that is written.
        // SAFETY: as the caller promises.
        return unsafe { real::sendfile(to, from, at, len) };
    };
    // SAFETY: as the caller promises.
    let at = unsafe { at.as_mut() };
    let start = match &at {
        Some(at) => u64::try_from(**at).ok(),
        None => kernel::position(from),
    };
    let mut bytes = vec![0; len.min(PART_BYTES)];
    let read =
        kernel::borrowed(from).zip(start).map(|(from, start)| rustix::io::pread(from, &mut bytes, start));
    let put = |bytes: &[u8]| match kernel::borrowed(to) {
        Some(to) => answer(rustix::io::pwrite(to, bytes, u64::try_from(*into).unwrap_or(0))),
        None => answer(Err(Errno::BADF)),
    };
    let copied = match read {
        None => answer(Err(Errno::INVAL)),
        Some(Err(errno)) => answer(Err(errno)),
        Some(Ok(0)) => 0,
        Some(Ok(read)) => put(&bytes[..read]),
    };
    if copied > 0 {
        let end = start.unwrap_or(0).saturating_add_signed(copied as i64);
        *into += copied as off_t;
        match at {
            Some(at) => *at = off_t::try_from(end).unwrap_or(off_t::MAX),
            None => drop(kernel::set_position(from, end)),
        }
    }
    copied
}

/// Sends a part by hand, where `from` is read block by block.
///
/// # Safety
/// `at` is null or a place of the program's.
unsafe fn send(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> Option<ssize_t> {
    if slots::kind(from) != SlotKind::Blocks {
        return None;
    }
    // SAFETY: as the caller promises.
    let at = unsafe { at.as_mut() };
    copy_part(to, from, at, len).map(answer)
}

// SAFETY of all that follow: the arguments are handed on as they came, and places are the program's.
exported! {
    fn sendfile(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { send(to, from, at, len).unwrap_or_else(|| real::sendfile(to, from, at, len)) }
    }

    fn sendfile64(to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
        // SAFETY: above.
        unsafe { send(to, from, at, len).unwrap_or_else(|| real::sendfile64(to, from, at, len)) }
    }

    fn copy_file_range(
        from: c_int,
        at: *mut off_t,
        to: c_int,
        into: *mut off_t,
        len: size_t,
        flags: c_uint,
    ) -> ssize_t {
        // SAFETY: above.
        unsafe {
            if flags == 0
                && into.is_null()
                && let Some(sent) = send(to, from, at, len)
            {
                return sent;
            }
            let answer = real::copy_file_range(from, at, to, into, len, flags);
            let is_across = answer < 0 && inside::errno() == libc::EXDEV;
            if is_across && slots::kind(from) == SlotKind::Copy { copy_across(from, at, to, into, len) } else { answer }
        }
    }
}
