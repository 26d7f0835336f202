//! Which file a name or a descriptor leads to, and its times.

use std::{
    os::fd::AsFd,
    time::{Duration, SystemTime},
};

use forebay_process::{Error, Result};
use rustix::fs::{FileType, Stat};

use crate::disk;

const NANOS: i128 = 1_000_000_000;
/// The bit of a mode by which everybody may write.
const ANYONE_WRITES: u32 = 0o002;
/// The bit of a folder's mode by which only owners rename and remove what is in it.
const STICKY: u32 = 0o1000;

/// Which file: its device and inode. Two names or descriptors with the same identity lead to the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Wide enough for the numbers of any system, signed or not.
    device: i128,
    inode: i128,
}

/// What the kernel says of a file. It is equal for the same file as long as nobody changes its bytes, its mode or its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Which file it is.
    pub identity: FileIdentity,
    /// Bytes of the file.
    pub len: u64,
    /// How many names the file has; a removed file has none.
    pub name_count: u64,
    file_type: FileType,
    owner: u32,
    mode: u32,
    modified_ns: i128,
    changed_ns: i128,
}

impl FileFacts {
    /// The facts of an open file or folder.
    pub fn of(file: impl AsFd) -> Result<Self> {
        disk::stat(file).map(|stat| Self::new(&stat)).map_err(Error::from_io)
    }

    pub(crate) fn new(stat: &Stat) -> Self {
        let number = |value: i128| u64::try_from(value).unwrap_or(0);
        Self {
            identity: FileIdentity { device: i128::from(stat.st_dev), inode: i128::from(stat.st_ino) },
            len: number(i128::from(stat.st_size)),
            name_count: number(i128::from(stat.st_nlink)),
            file_type: FileType::from_raw_mode(stat.st_mode),
            owner: stat.st_uid,
            mode: u32::try_from(i128::from(stat.st_mode)).unwrap_or(u32::MAX),
            modified_ns: i128::from(stat.st_mtime) * NANOS + i128::from(stat.st_mtime_nsec),
            changed_ns: i128::from(stat.st_ctime) * NANOS + i128::from(stat.st_ctime_nsec),
        }
    }

    /// When the bytes were last changed (mtime); times before 1970 count as 1970.
    pub fn modified(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(self.modified_ns).unwrap_or(0))
    }

    /// True for what the effective user owns and nobody else may read, write or search.
    pub(crate) fn is_private(&self) -> bool {
        self.owner == rustix::process::geteuid().as_raw() && self.mode & 0o077 == 0
    }

    /// True for a folder in which everybody may rename and remove what others made.
    pub(crate) fn is_open_to_renames(&self) -> bool {
        self.mode & (ANYONE_WRITES | STICKY) == ANYONE_WRITES
    }

    pub(crate) fn is_file(&self) -> bool {
        self.file_type == FileType::RegularFile
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.file_type == FileType::Directory
    }
}
