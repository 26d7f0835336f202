//! Write-back errors (`errseq`): whether what was written reached the disk.
//!
//! Linux reports a failed write-back once to each file that was open then (`errseq_t`). By then the pages count as clean:
//! they leave memory when it is short, and then read as what the disk has, which may be zeros.
#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "no library has sync_file_range"))]

use std::{fs::File, io};

/// How a tier syncs and asks; tests put a disk in its place that fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskSync {
    /// Waits until the bytes of a file are on the disk; an error where any written since it was opened are not.
    pub(super) sync: fn(&File) -> io::Result<()>,
    /// Waits until all bytes of the file system that a file lies on are on the disk.
    pub(super) sync_all: fn(&File) -> io::Result<()>,
    /// True where `ask` is answered for files like this one.
    pub(super) can_ask: fn(&File) -> bool,
    /// Whether a write-back of a file has failed: one system call that waits for nothing, where a sync may take seconds.
    pub(super) ask: fn(&File) -> Writeback,
}

impl Default for DiskSync {
    fn default() -> Self {
        Self { sync, sync_all, can_ask, ask }
    }
}

fn sync(file: &File) -> io::Result<()> {
    loop {
        match rustix::fs::fdatasync(file) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(target_os = "linux")]
fn sync_all(file: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a write-back has failed, asked without writing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writeback {
    /// None has failed since the file was opened, or since it was last asked.
    Sound,
    /// One has.
    Failed,
    /// This file system does not say.
    Unknown,
}

/// File systems whose pages are Linux's page cache and whose errors reach the open file: tmpfs, ext2 to ext4, XFS, btrfs,
/// F2FS. Overlayfs keeps them for the file below it.
#[cfg(target_os = "linux")]
const THAT_REPORT: [u64; 5] = [0x0102_1994, 0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];

#[cfg(target_os = "linux")]
fn can_ask(file: &File) -> bool {
    let kind = rustix::fs::fstatfs(file).map_or(0, |facts| i128::from(facts.f_type));
    THAT_REPORT.iter().any(|known| i128::from(*known) == kind & 0xffff_ffff)
}

#[cfg(target_os = "linux")]
fn ask(file: &File) -> Writeback {
    use std::os::fd::AsRawFd;

    // Past every end there is nothing to wait for.
    const NOWHERE: i64 = 1 << 60;
    // SAFETY: the descriptor is open, and the call is handed no memory.
    let answer =
        unsafe { libc::sync_file_range(file.as_raw_fd(), NOWHERE, 1, libc::SYNC_FILE_RANGE_WAIT_BEFORE) };
    if answer == 0 {
        return Writeback::Sound;
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EIO | libc::ENOSPC | libc::EDQUOT) => Writeback::Failed,
        _ => Writeback::Unknown,
    }
}

#[cfg(not(target_os = "linux"))]
fn can_ask(_: &File) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn ask(_: &File) -> Writeback {
    Writeback::Unknown
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_disk_that_works_says_so_before_and_after_a_sync() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        assert!(can_ask(&file));
        file.write_all_at(b"abc", 0).unwrap();
        assert_eq!(ask(&file), Writeback::Sound);
        sync(&file).unwrap();
        assert_eq!(ask(&file), Writeback::Sound);
        assert!(!can_ask(&File::open("/proc/self/status").unwrap()));
    }
}
