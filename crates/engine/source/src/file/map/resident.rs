//! Whether a file's bytes are in the page cache.
#![expect(unsafe_code, reason = "libc has no function for cachestat yet")]

use std::{
    fs::File,
    io::IoSliceMut,
    os::fd::{AsRawFd, RawFd},
};

use rustix::{
    io::{Errno, ReadWriteFlags, preadv2},
    param::page_size,
};

/// A file is looked at in so many windows, or whole if it is no longer than they. One window costs 0.2 us.
const WINDOWS: u64 = 32;
const WINDOW_BYTES: u64 = 256 << 10;

/// A file counts as resident while at most one page in so many is missing.
const PAGES_PER_MISSING: u64 = 32;

/// True when nearly all of the first `len` bytes of `file` are in the page cache.
pub(super) fn is_resident(file: &File, len: u64) -> bool {
    let page_bytes = page_size() as u64;
    let (mut cached_bytes, mut looked_bytes) = (0, 0);
    for (start, window_len) in windows(len) {
        match cached_pages(file.as_raw_fd(), start, window_len) {
            Some(pages) => cached_bytes += pages * page_bytes,
            None => return windows(len).all(|(start, _)| is_here(file, start)),
        }
        looked_bytes += window_len;
    }
    // Pages on the border of a window count whole, so there may be more cached than was looked at.
    cached_bytes + looked_bytes / PAGES_PER_MISSING >= looked_bytes
}

/// Start and length of each window, evenly spread, the first and the last bytes among them.
fn windows(len: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = if len <= WINDOWS * WINDOW_BYTES { 1 } else { WINDOWS };
    let window_len = if count == 1 { len } else { WINDOW_BYTES };
    let step = (len - window_len) / (count - 1).max(1);
    (0..count).map(move |index| (index * step, window_len))
}

/// `cachestat`, since Linux 6.5; the same number on all machines.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct CachestatRange {
    start: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many pages are cached; nothing where the kernel does not tell.
fn cached_pages(descriptor: RawFd, start: u64, len: u64) -> Option<u64> {
    let (range, mut found) = (CachestatRange { start, len }, Cachestat::default());
    // SAFETY: both structures are laid out as the kernel's and outlive the call, which writes to `found` alone.
    let answer = unsafe { libc::syscall(SYS_CACHESTAT, descriptor, &raw const range, &raw mut found, 0) };
    (answer == 0).then_some(found.cached)
}

/// True where the kernel answers `cachestat` for a file of this process.
pub(super) fn is_told() -> bool {
    File::open("/proc/self/exe").is_ok_and(|file| cached_pages(file.as_raw_fd(), 0, 1).is_some())
}

/// True when the byte at `offset` can be read without waiting for the disk.
///
/// For kernels without `cachestat`, or that answer it only to the file's owner. `mincore` would be no help: to
/// others than the owner it says that all is there.
fn is_here(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    match preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
        Ok(count) => count == 1,
        // File systems that never wait, as tmpfs, need not know the flag.
        Err(Errno::OPNOTSUPP) => is_tmpfs(file),
        Err(_) => false,
    }
}

fn is_tmpfs(file: &File) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == 0x0102_1994)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_a_short_file_whole_and_a_long_one_from_end_to_end() {
        assert_eq!(windows(5).collect::<Vec<_>>(), [(0, 5)]);
        let len = (1 << 30) + 12_345;
        let found: Vec<_> = windows(len).collect();
        assert_eq!((found.len() as u64, found[0].0), (WINDOWS, 0));
        let (start, window_len) = found[found.len() - 1];
        assert!(start + window_len <= len && start + window_len > len - WINDOWS);
    }

    #[test]
    fn a_file_that_was_just_written_is_there() {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 1 << 20], 0).unwrap();
        assert!(is_resident(&file, 1 << 20));
        assert!(is_here(&file, 5000));
    }
}
