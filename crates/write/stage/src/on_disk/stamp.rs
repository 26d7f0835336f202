//! What tells whether a destination is the file that a journal speaks of, unchanged.

use std::{
    ffi::OsStr,
    io,
    os::fd::AsFd,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use forebay_process::{Error, Result};
use forebay_scratch::disk;
use rustix::{
    fs::{AtFlags, CWD, FileType, Stat, Statx, StatxFlags, makedev},
    io::Errno,
};
use serde::{Deserialize, Serialize};

/// Identity, length and time of modification of a file.
///
/// The time of change (ctime) is left out: a new mode, owner or link sets it and leaves the bytes alone.
/// Stamps with a birth are equal whatever device they name, as that may have another number after a start of the machine.
#[derive(Clone, Copy, Debug, Default, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// When the inode was last taken into use (btime), which tells it from the file that had its number before; 0 where the
    /// file system does not say.
    pub(crate) born_ns: u64,
    pub(crate) len: u64,
    pub(crate) modified_ns: u64,
}

impl PartialEq for FileStamp {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |stamp: &Self| (stamp.inode, stamp.born_ns, stamp.len, stamp.modified_ns);
        numbers(self) == numbers(other) && (self.born_ns != 0 || self.device == other.device)
    }
}

impl FileStamp {
    /// Returns the stamp of an open file.
    pub(crate) fn of(file: impl AsFd) -> Result<Self> {
        match disk::statx(&file, Path::new(""), AtFlags::EMPTY_PATH, wanted()) {
            Ok(facts) => Ok(Self::new(&facts)),
            // A container may forbid the call.
            Err(error) if is_forbidden(&error) => {
                disk::stat(&file).map(|facts| Self::without_birth(&facts)).map_err(Error::from_io)
            }
            Err(error) => Err(Error::from_io(error)),
        }
    }

    /// Returns the stamp of the file at `path`, links followed, or nothing where there is none.
    pub(crate) fn at(path: &Path) -> Result<Option<Self>> {
        let stamp = match disk::statx(CWD, path, AtFlags::empty(), wanted()) {
            Ok(facts) => Ok(Self::new(&facts)),
            Err(error) if is_forbidden(&error) => {
                disk::stat_path(path).map(|facts| Self::without_birth(&facts))
            }
            Err(error) => Err(error),
        };
        found(stamp).map_err(|error| error.at(path.display()))
    }

    /// Returns the stamp of `name` in `directory`, of the link itself where it is one, or nothing where there is nothing.
    pub(crate) fn in_directory(directory: impl AsFd, name: &OsStr) -> Result<Option<Self>> {
        let name = Path::new(name);
        let stamp = match disk::statx(&directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted()) {
            Ok(facts) => Ok(Self::new(&facts)),
            Err(error) if is_forbidden(&error) => {
                disk::stat_at(&directory, name).map(|facts| Self::without_birth(&facts))
            }
            Err(error) => Err(error),
        };
        found(stamp)
    }

    fn new(facts: &Statx) -> Self {
        let has_birth = StatxFlags::from_bits_retain(facts.stx_mask).contains(StatxFlags::BTIME);
        let born = has_birth.then(|| nanos(facts.stx_btime.tv_sec, facts.stx_btime.tv_nsec.into()));
        Self {
            device: makedev(facts.stx_dev_major, facts.stx_dev_minor),
            len: facts.stx_size,
            modified_ns: nanos(facts.stx_mtime.tv_sec, facts.stx_mtime.tv_nsec.into()),
            ..Self::identified(facts.stx_ino, born.unwrap_or(0))
        }
    }

    fn without_birth(facts: &Stat) -> Self {
        let fraction = i128::from(facts.st_mtime_nsec);
        Self {
            device: facts.st_dev,
            len: u64::try_from(facts.st_size).unwrap_or(0),
            modified_ns: nanos(facts.st_mtime, i64::try_from(fraction).unwrap_or(0)),
            ..Self::identified(facts.st_ino, 0)
        }
    }

    fn identified(inode: u64, born_ns: u64) -> Self {
        #[cfg(feature = "record")]
        let (inode, born_ns) = disk::identity_of(inode, born_ns);
        Self { inode, born_ns, ..Self::default() }
    }

    /// Whether both may be of the same file, whatever was written to it: its number was not given to another in between, as far
    /// as the file system says.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        // A device may have another number after a start of the machine; number and birth together are enough.
        self.inode == other.inode
            && match (self.born_ns, other.born_ns) {
                (0, _) | (_, 0) => self.device == other.device,
                (one, other) => one == other,
            }
    }

    /// Whether both may be of the same directory. Where the file system tells no births, its number is all there is: the device of a
    /// network file system has another one after each mount.
    pub(crate) fn may_be_same_directory(&self, other: &Self) -> bool {
        self.inode == other.inode
            && (self.born_ns == other.born_ns || self.born_ns == 0 || other.born_ns == 0)
    }

    /// Whether both are surely of the same file: without a time of birth, only a file that nobody has changed since is.
    pub(crate) fn is_surely_same_file(&self, other: &Self) -> bool {
        self == other || self.born_ns != 0 && other.born_ns != 0 && self.is_same_file(other)
    }
}

/// True where the call itself is refused or unknown, whatever the file is.
fn is_forbidden(error: &io::Error) -> bool {
    [Errno::NOSYS, Errno::PERM].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn found(stamp: io::Result<FileStamp>) -> Result<Option<FileStamp>> {
    match stamp {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::from_io(error)),
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

fn nanos(seconds: i64, fraction: i64) -> u64 {
    u64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(fraction)).unwrap_or(0)
}

/// Whether an open file is a regular one.
pub(crate) fn is_regular(file: impl AsFd) -> bool {
    disk::stat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// The clock of files, in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_got_the_number_of_a_removed_one_is_another() {
        let before = FileStamp { device: 1, inode: 2, born_ns: 3, len: 4, modified_ns: 5 };
        let written = FileStamp { len: 40, modified_ns: 50, ..before };
        assert!(before.is_same_file(&written) && before.is_surely_same_file(&written));
        assert!(
            before.is_same_file(&FileStamp { device: 9, ..before }),
            "the same after a start of the machine"
        );
        let reused = FileStamp { born_ns: 30, ..before };
        assert!(!before.is_same_file(&reused) && !before.is_surely_same_file(&reused));
        // Where the file system tells no births, who wrote to the file since cannot be told from who replaced it.
        let (unborn, changed) = (FileStamp { born_ns: 0, ..before }, FileStamp { born_ns: 0, ..written });
        assert!(unborn.is_same_file(&changed) && !unborn.is_surely_same_file(&changed));
        assert!(unborn.is_surely_same_file(&unborn));
        assert!(!unborn.is_same_file(&FileStamp { device: 9, ..unborn }));
    }

    #[test]
    fn a_file_has_the_same_stamp_by_its_name_and_by_its_descriptor() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(FileStamp::at(file.path()).unwrap(), Some(FileStamp::of(file.as_file()).unwrap()));
        assert_eq!(FileStamp::at(&file.path().with_extension("none")).unwrap(), None);
    }
}
