//! What the file system says of one state of a file.

use std::{
    os::fd::AsFd,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::{FileType, Stat};

use crate::{Error, ErrorKind, Locator, Result, SourceId, Version};

const NANOS: i128 = 1_000_000_000;

/// One state of a regular file: any change to its bytes that the kernel stamps gives another stamp.
///
/// The kernel stamps a write before it copies the bytes, so a stamp that is unchanged *after* a read vouches
/// for the read. It cannot vouch for a file opened while a write was under way, nor tell two writes within one
/// tick of the clock apart: [`Version::is_settled`] says when that can be. A store through a mapping is stamped
/// only when its page is first dirtied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Wide enough for any system's device number, signed or not.
    device: i128,
    inode: u64,
    len: u64,
    modified_ns: i128,
    /// Unlike the time of modification nobody can set this one back.
    changed_ns: i128,
}

impl Stamp {
    /// The stamp of what lies at `path`, which is not opened.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        Self::new(&rustix::fs::stat(path).map_err(|errno| Error::from_io(errno.into()))?)
    }

    /// The stamp of an open file.
    pub(crate) fn of(file: impl AsFd) -> Result<Self> {
        Self::new(&rustix::fs::fstat(file).map_err(|errno| Error::from_io(errno.into()))?)
    }

    fn new(stat: &Stat) -> Result<Self> {
        let what = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                return Ok(Self {
                    device: i128::from(stat.st_dev),
                    inode: stat.st_ino,
                    len: u64::try_from(stat.st_size).unwrap_or(0),
                    modified_ns: i128::from(stat.st_mtime) * NANOS + i128::from(stat.st_mtime_nsec),
                    changed_ns: i128::from(stat.st_ctime) * NANOS + i128::from(stat.st_ctime_nsec),
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

    /// How long the file is.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// True when `stat` tells of a file in this state; any but a regular file has another inode.
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[inline]
    pub(crate) fn is_of(&self, stat: &libc::stat) -> bool {
        self.inode == stat.st_ino
            && self.device == i128::from(stat.st_dev)
            && u64::try_from(stat.st_size) == Ok(self.len)
            && self.modified_ns == i128::from(stat.st_mtime) * NANOS + i128::from(stat.st_mtime_nsec)
            && self.changed_ns == i128::from(stat.st_ctime) * NANOS + i128::from(stat.st_ctime_nsec)
    }

    /// Refuses an open file that is no longer in this state.
    pub(crate) fn verify(&self, file: impl AsFd) -> Result<()> {
        if Self::of(file)? == *self { Ok(()) } else { Err(changed("changed since it was opened")) }
    }

    /// Which bytes these are, when opened as `locator`.
    pub(crate) fn id(&self, locator: Locator) -> SourceId {
        let mut tag = format!("{}-{}-{}", self.modified_ns, self.changed_ns, self.inode);
        // Stores of a million files keep as many of them.
        tag.shrink_to_fit();
        let modified = Some(time(self.modified_ns.max(self.changed_ns)));
        SourceId { locator, len: self.len, version: Version { tag, modified } }
    }
}

/// The error for a file that is not what it was: fetching again cannot help, opening again can.
pub(crate) fn changed(what: impl Into<String>) -> Error {
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
    fn times_before_the_epoch_and_beyond_every_clock_are_told() {
        assert_eq!(time(1_500_000_000), UNIX_EPOCH + Duration::from_millis(1500));
        assert_eq!(time(-500_000_000), UNIX_EPOCH - Duration::from_millis(500));
        assert!(time(i128::MAX) > UNIX_EPOCH);
    }
}
