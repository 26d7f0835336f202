//! What the kernel is told of files, and what it wants changed of them.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

/// The attributes of what stands below.
pub(crate) fn attributes(node: INodeNo, found: &Metadata) -> Result<FileAttr, Errno> {
    let kind = FileType::from_std(found.file_type()).ok_or(Errno::EIO)?;
    Ok(FileAttr {
        ino: node,
        size: found.size(),
        blocks: found.blocks(),
        atime: moment(found.atime(), found.atime_nsec()),
        mtime: moment(found.mtime(), found.mtime_nsec()),
        ctime: moment(found.ctime(), found.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind,
        perm: u16::try_from(found.mode() & 0o7777).unwrap_or(0o444),
        nlink: clipped(found.nlink()),
        uid: found.uid(),
        gid: found.gid(),
        rdev: clipped(found.rdev()),
        blksize: clipped(found.blksize()),
        flags: 0,
    })
}

/// The attributes of what exists on the mount only.
pub(crate) fn made_up(node: INodeNo, kind: FileType, perm: u16) -> FileAttr {
    let now = SystemTime::now();
    let (atime, mtime, ctime, crtime) = (now, now, now, now);
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // No length, as files of /proc have none: it is known once the file is open.
    let (size, blocks, nlink, rdev, blksize, flags) = (0, 0, 1, 0, 4096, 0);
    FileAttr {
        ino: node,
        size,
        blocks,
        atime,
        mtime,
        ctime,
        crtime,
        kind,
        perm,
        nlink,
        uid,
        gid,
        rdev,
        blksize,
        flags,
    }
}

/// What is to be changed of a file; what is not named stays.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttributeChanges {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) len: Option<u64>,
    pub(crate) atime: Option<TimeOrNow>,
    pub(crate) mtime: Option<TimeOrNow>,
}

impl AttributeChanges {
    /// The times to set, if any.
    pub(crate) fn times(&self) -> Option<Timestamps> {
        (self.atime.is_some() || self.mtime.is_some()).then(|| Timestamps {
            last_access: timespec(self.atime),
            last_modification: timespec(self.mtime),
        })
    }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let time = match time {
        None => return special(UTIME_OMIT),
        Some(TimeOrNow::Now) => return special(UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => time,
    };
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timespec { tv_sec: seconds(since), tv_nsec: since.subsec_nanos().into() },
        // Before 1970 the nanoseconds still count forward, from the second before.
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => Timespec { tv_sec: -seconds(before), tv_nsec: 0 },
                nanos => Timespec { tv_sec: -seconds(before) - 1, tv_nsec: i64::from(1_000_000_000 - nanos) },
            }
        }
    }
}

fn moment(seconds: i64, nanos: i64) -> SystemTime {
    let nanos = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let moment = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    moment.and_then(|moment| moment.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

pub(crate) fn clipped(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_as_it_went_also_before_1970() {
        for (seconds, nanos) in [(0, 0), (1_700_000_000, 123_456_789), (-5, 0), (-5, 250_000_000)] {
            let there = timespec(Some(TimeOrNow::SpecificTime(moment(seconds, nanos))));
            assert_eq!((there.tv_sec, there.tv_nsec), (seconds, nanos));
        }
        assert_eq!(timespec(None).tv_nsec, UTIME_OMIT);
    }
}
