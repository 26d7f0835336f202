//! What tells whether a destination is the file that a journal speaks of, unchanged.

use std::{
    os::fd::AsFd,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_source::{Error, Result};
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};

/// Identity, length and time of modification of a file.
///
/// The time of change (ctime) is left out: a new mode, owner or link sets it and leaves the bytes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) len: u64,
    pub(crate) modified_ns: u64,
}

impl FileStamp {
    /// The stamp of an open file.
    pub(crate) fn of(file: impl AsFd) -> Result<Self> {
        let stat = rustix::fs::fstat(file).map_err(|errno| Error::from_io(errno.into()))?;
        Ok(Self::new(&stat))
    }

    /// The stamp of the file at `path`, or nothing where there is none.
    pub(crate) fn at(path: &Path) -> Result<Option<Self>> {
        match rustix::fs::stat(path) {
            Ok(stat) => Ok(Some(Self::new(&stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(errno) => Err(Error::from_io(errno.into()).at(path.display())),
        }
    }

    fn new(stat: &Stat) -> Self {
        let nanos = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: u64::try_from(nanos).unwrap_or(0),
        }
    }

    /// Whether both are of the same file, whatever was written to it.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Whether an open file is a regular one.
pub(crate) fn is_regular(file: impl AsFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// The clock of files, in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
