//! Memory of this process that holds a segment of a redo log.
//!
//! Copies into a mapping whose pages are there already take half the time of a `pwrite` to a memory file, and a fifth of first
//! writes to new pages (128 MiB on one core: 40, 85 and 240 ms), so pages are huge where the system allows it, and segments
//! are recycled with them. Forked children do not get the mapping: a copy on write of every page would slow their parent.

#![expect(
    unsafe_code,
    reason = "memory that several threads fill and read without a lock comes from mmap alone"
)]

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    ptr::{self, NonNull},
};

use forebay_process::{Error, ErrorKind, ProcessIdentity, Result, current_process};

/// Pages that one look of the processor leads to; smaller segments have ordinary ones.
const HUGE_BYTES: usize = 2 << 20;
/// The most pieces of memory that one system call takes.
pub(crate) const MOST_PIECES: usize = 1024;

/// Some memory, zeros at first.
///
/// # Contract
/// - A byte is written by one thread at a time, and not while another reads it: a log writes a record once, before it lets
///   anyone know where it is, and uses a segment again when nobody refers to its records any more.
#[derive(Debug)]
pub(crate) struct MemoryMap {
    mapped: NonNull<u8>,
    mapped_len: usize,
    /// Where the memory begins in it, on a border of huge pages.
    start: usize,
    len: usize,
    process: ProcessIdentity,
}

// SAFETY: the memory belongs to the map, whichever thread has it.
unsafe impl Send for MemoryMap {}
// SAFETY: the contract keeps threads from bytes that another one writes.
unsafe impl Sync for MemoryMap {}

impl MemoryMap {
    /// Memory for `len` bytes, of which no page is there yet.
    pub(crate) fn new(len: u64) -> Result<Self> {
        let len =
            usize::try_from(len).map_err(|_| Error::new(ErrorKind::Full, "is beyond what memory can be"))?;
        let slack = if len >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let mapped_len = len.saturating_add(slack);
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of no file touches nothing that is there.
        let mapped = unsafe {
            libc::mmap(ptr::null_mut(), mapped_len, protection, flags | libc::MAP_NORESERVE, -1, 0)
        };
        let failed = || Error::from_io(io::Error::last_os_error()).at("memory");
        let mapped =
            NonNull::new(mapped.cast::<u8>()).filter(|_| mapped != libc::MAP_FAILED).ok_or_else(failed)?;
        let start = if slack == 0 { 0 } else { mapped.as_ptr().align_offset(HUGE_BYTES) };
        let map = Self { mapped, mapped_len, start, len, process: current_process() };
        for advice in [libc::MADV_DONTFORK, libc::MADV_HUGEPAGE] {
            // SAFETY: the mapping is ours and as long as said. A system that does not know the advice goes without.
            unsafe { libc::madvise(mapped.as_ptr().cast(), mapped_len, advice) };
        }
        Ok(map)
    }

    /// Where the bytes from `at` on lie, if `len` of them do.
    fn place(&self, at: u64, len: usize) -> Result<*mut u8> {
        let at = usize::try_from(at).ok().filter(|at| at.checked_add(len).is_some_and(|end| end <= self.len));
        let is_ours = self.process == current_process();
        let at = at.filter(|_| is_ours).ok_or_else(|| Error::new(ErrorKind::Bug, "is beyond the segment"))?;
        // SAFETY: `start + at` is within the mapping, as `start + len` is.
        Ok(unsafe { self.mapped.as_ptr().add(self.start + at) })
    }

    /// Copies `bytes` to `at`.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let place = self.place(at, bytes.len())?;
        // SAFETY: the place has room for them, they cannot lie in it as no reference to it is given out, and by the contract no
        // other thread touches it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        Ok(())
    }

    /// Fills `into` from `at` on.
    pub(crate) fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let place = self.place(at, into.len())?;
        // SAFETY: as for `write`, the other way.
        unsafe { ptr::copy_nonoverlapping(place, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Has all its pages there, so that writes need not wait for them.
    pub(crate) fn populate(&self) {
        let Ok(place) = self.place(0, self.len) else { return };
        // SAFETY: the pages are ours; what is in them stays. An older system makes them with the first write instead.
        unsafe { libc::madvise(place.cast(), self.len, libc::MADV_POPULATE_WRITE) };
    }
}

impl Drop for MemoryMap {
    fn drop(&mut self) {
        // In a forked child something else may lie there.
        if self.process == current_process() {
            // SAFETY: the mapping is ours, and nothing refers to it any more.
            unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_len) };
        }
    }
}

/// Writes `pieces`, each a map with a position and a length, one behind the other to `offset` of `file`; at most
/// [`MOST_PIECES`].
pub(crate) fn write_pieces(file: &File, offset: u64, pieces: &[(&MemoryMap, u64, u64)]) -> Result<()> {
    let mut parts = Vec::with_capacity(pieces.len());
    for (map, at, len) in pieces {
        let len = usize::try_from(*len).map_err(|_| Error::new(ErrorKind::Bug, "is beyond the segment"))?;
        parts.push(libc::iovec { iov_base: map.place(*at, len)?.cast(), iov_len: len });
    }
    let (mut first, mut at) = (0, offset);
    while first < parts.len() {
        let count = i32::try_from(parts.len() - first).unwrap_or(i32::MAX);
        let position = i64::try_from(at).map_err(|_| Error::invalid("is longer than a file can be"))?;
        // SAFETY: each part lies in a map that outlives the call, and by its contract nobody writes to it.
        let done = unsafe { libc::pwritev(file.as_raw_fd(), parts.as_ptr().add(first), count, position) };
        let mut done = match usize::try_from(done) {
            Ok(0) => return Err(Error::from_io(io::ErrorKind::WriteZero.into())),
            Ok(done) => done,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(Error::from_io(error));
            }
        };
        at += done as u64;
        while let Some(part) = parts.get_mut(first).filter(|_| done > 0) {
            let step = done.min(part.iov_len);
            done -= step;
            part.iov_len -= step;
            part.iov_base = part.iov_base.wrapping_byte_add(step);
            first += usize::from(part.iov_len == 0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn bytes_come_back_from_where_they_went_and_nothing_lies_beyond_the_end() {
        for len in [5_000, 3 << 20] {
            let map = MemoryMap::new(len).unwrap();
            map.populate();
            map.write(len - 5, b"hello").unwrap();
            let mut found = [1; 7];
            map.read(len - 7, &mut found).unwrap();
            assert_eq!(&found, b"\0\0hello");
            assert!(map.write(len - 4, b"hello").is_err() && map.read(len, &mut [0]).is_err());
            assert!(map.write(u64::MAX, b"x").is_err());
        }
        assert!(MemoryMap::new(u64::MAX).is_err());
    }

    #[test]
    fn pieces_of_several_maps_are_written_one_behind_the_other() {
        let maps = [1, 2].map(|_| MemoryMap::new(4096).unwrap());
        maps[0].write(10, b"one").unwrap();
        maps[1].write(20, b"two").unwrap();
        let file = tempfile::tempfile().unwrap();
        write_pieces(&file, 4, &[(&maps[1], 20, 3), (&maps[0], 10, 3), (&maps[0], 11, 2)]).unwrap();
        let mut found = [1; 12];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(&found, b"\0\0\0\0twoonene");
        let only_read = File::open("/dev/null").unwrap();
        assert!(write_pieces(&only_read, 0, &[(&maps[0], 0, 1)]).is_err());
    }
}
