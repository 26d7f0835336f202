//! What `stat` says of a regular file, to notice that its bytes changed.

use std::{
    os::fd::AsFd,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use forebay_process::{Error, ErrorKind, Result};
use rustix::fs::{FileType, Stat};

use crate::{
    file::file_system_kind::FileSystemKind,
    locator::Locator,
    source::{FileState, SourceId, Version},
};

const NANOS: i128 = 1_000_000_000;

/// Identity, length and times of a regular file: any change to its bytes that the kernel stamps changes them.
///
/// The kernel sets the times of a write before it copies the bytes, so times that are unchanged *after* a read prove that the
/// read is sound. They prove nothing for a file opened while a write was under way, nor do two writes within one
/// tick of the clock differ: [`Version::is_settled`] says when that can be. A store through a mapping is stamped
/// only when its page is first dirtied.
///
/// The time of change (ctime) is compared apart from the rest: a new mode, owner, name or link sets it and leaves the bytes
/// alone. A write whose time of modification was set back to the nanosecond shows nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    /// Wide enough for any system's device number, signed or not.
    device: i128,
    inode: u64,
    len: u64,
    modified_ns: i128,
    changed_ns: i64,
}

impl FileStat {
    /// The `stat` of `path`, which is not opened.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        Self::new(&rustix::fs::stat(path).map_err(|errno| Error::from_io(errno.into()))?)
    }

    /// The `fstat` of an open file.
    pub(crate) fn of(file: impl AsFd) -> Result<Self> {
        Self::and_name(file).map(|(stamp, _)| stamp)
    }

    /// The `fstat` of an open file, and whether it still has a name.
    pub(crate) fn and_name(file: impl AsFd) -> Result<(Self, bool)> {
        let stat = rustix::fs::fstat(file).map_err(|errno| Error::from_io(errno.into()))?;
        Ok((Self::new(&stat)?, stat.st_nlink > 0))
    }

    fn new(stat: &Stat) -> Result<Self> {
        let what = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                return Ok(Self {
                    device: i128::from(stat.st_dev),
                    inode: stat.st_ino,
                    len: u64::try_from(stat.st_size).unwrap_or(0),
                    modified_ns: i128::from(stat.st_mtime) * NANOS + i128::from(stat.st_mtime_nsec),
                    changed_ns: nanos(stat.st_ctime, i128::from(stat.st_ctime_nsec)),
                });
            }
            FileType::Directory => "is a folder",
            FileType::Fifo => "is a pipe",
            FileType::Socket => "is a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "is a device",
            _ => "is of an unknown type",
        };
        Err(Error::new(ErrorKind::Invalid, format!("{what}, not a regular file")))
    }

    /// Which file system the file lies on.
    pub(crate) fn device(&self) -> i128 {
        self.device
    }

    /// True when that file system is on a block device of this machine, so that asking about it is cheap.
    pub(crate) fn is_on_block_device(&self) -> bool {
        #[cfg(target_os = "linux")]
        let major = u64::try_from(self.device).map_or(0, rustix::fs::major);
        #[cfg(not(target_os = "linux"))]
        let major = 0;
        // Network and memory file systems have numbers without a driver.
        major != 0
    }

    /// How long the file is.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The time of change (ctime), in nanoseconds.
    pub(crate) fn changed_ns(&self) -> i64 {
        self.changed_ns
    }

    /// True when `other` is of the same file with the same bytes, as far as its length and time of modification tell.
    pub(crate) fn has_bytes_of(&self, other: &Self) -> bool {
        Self { changed_ns: 0, ..*self } == Self { changed_ns: 0, ..*other }
    }

    /// True when `stat` tells of the same file with the same bytes, last changed at `changed_ns`; any but a regular
    /// file has another inode.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[inline]
    pub(crate) fn is_of(&self, stat: &libc::stat, changed_ns: i64) -> bool {
        self.inode == stat.st_ino
            && self.device == i128::from(stat.st_dev)
            && u64::try_from(stat.st_size) == Ok(self.len)
            && self.modified_ns == i128::from(stat.st_mtime) * NANOS + i128::from(stat.st_mtime_nsec)
            && changed_ns == nanos(stat.st_ctime, i128::from(stat.st_ctime_nsec))
    }

    /// Which bytes these are, when opened as `locator` on a file system of kind `file_system`.
    pub(crate) fn id(&self, locator: Locator, file_system: FileSystemKind) -> SourceId {
        let mut tag = self.modified_ns.to_string();
        // Stores of a million files keep as many of them.
        tag.shrink_to_fit();
        let file = Some(FileState { inode: self.inode, changed_ns: self.changed_ns });
        let modified = match file_system {
            // Its times and numbers are what the tool that made the image wrote there: another image may have the same.
            FileSystemKind::Image => UNIX_EPOCH + NEVER,
            _ => time(self.modified_ns.max(i128::from(self.changed_ns))),
        };
        SourceId { locator, len: self.len, version: Version { tag, file, modified: Some(modified) } }
    }
}

/// In the year 9999, later than any clock: what was modified then is never settled.
const NEVER: Duration = Duration::from_secs(253_402_300_799);

/// A time in nanoseconds; one that does not fit is the last that does.
fn nanos(seconds: impl Into<i128>, nanos: i128) -> i64 {
    let sum = seconds.into() * NANOS + nanos;
    i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX })
}

/// The error for a file that is not what it was: fetching again cannot help, opening again can.
pub fn changed(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unavailable, what).hint("open it again once nobody writes to it")
}

/// The moment `since_epoch_ns`; one that no clock can show counts as now, which is never settled.
fn time(since_epoch_ns: i128) -> SystemTime {
    let nanos = u32::try_from(since_epoch_ns.rem_euclid(NANOS)).unwrap_or(0);
    let seconds = since_epoch_ns.div_euclid(NANOS);
    let Ok(distance) = u64::try_from(seconds.unsigned_abs()) else { return SystemTime::now() };
    let whole = if seconds < 0 {
        UNIX_EPOCH.checked_sub(Duration::from_secs(distance))
    } else {
        UNIX_EPOCH.checked_add(Duration::from_secs(distance))
    };
    whole.and_then(|whole| whole.checked_add(Duration::new(0, nanos))).unwrap_or_else(SystemTime::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_and_beyond_every_clock_are_kept() {
        assert_eq!(time(1_500_000_000), UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!(time(-500_000_000), UNIX_EPOCH - Duration::from_millis(500));
        assert!(time(i128::MAX) > UNIX_EPOCH);
        assert_eq!(
            (nanos(1, 5), nanos(i64::MAX, 0), nanos(i64::MIN, 0)),
            (1_000_000_005, i64::MAX, i64::MIN)
        );
    }

    #[test]
    fn files_of_read_only_images_are_never_settled_for_two_images_may_have_the_same_times_and_numbers() {
        let stamp = FileStat { device: 1, inode: 2, len: 3, modified_ns: 0, changed_ns: 0 };
        let id = |file_system| stamp.id(Locator::new("/mnt/a.h5"), file_system);
        assert!(id(FileSystemKind::Near).version.is_settled(SystemTime::now()));
        assert!(!id(FileSystemKind::Image).version.is_settled(SystemTime::now()));
        assert!(
            id(FileSystemKind::Image).is_unchanged(&id(FileSystemKind::Image)),
            "within a run it is the same file"
        );
    }
}
