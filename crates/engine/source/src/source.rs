//! One readable, unchanging run of bytes.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use forebay_process::Result;
use serde::{Deserialize, Serialize};

use crate::{
    locator::Locator,
    range::{ByteRange, Fill},
};

/// What tells one state of a source's bytes from the next: a part that is the same on every node, and a part that
/// proves that a file of this machine is unchanged.
///
/// What is kept beyond a run (copies on disks, saved indexes) belongs to both parts. Whether a source is still what was
/// described, perhaps on another node, is decided by the first alone: [`SourceId::names_same_bytes`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Names the bytes on every node, together with their length: a file's time of modification, an object's ETag.
    pub tag: String,
    /// What only the file itself has, for a file of a file system.
    pub file: Option<FileState>,
    /// When the bytes last changed, where `tag` is drawn from a clock.
    pub modified: Option<SystemTime>,
}

/// What proves, on one machine, that a file is the one that was opened: other nodes may number it otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileState {
    /// The number of the file on its file system.
    pub inode: u64,
    /// The time of change (ctime) in nanoseconds: unlike the time of modification nobody can set this one back, but a
    /// new mode, name or link sets it too.
    pub changed_ns: i64,
}

/// File systems stamp times from a coarse clock (up to 2 s on FAT and old NFS, 4 ms on ext4): two writes within
/// one tick leave the same stamp.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

impl Version {
    /// A version named by the place itself, such as an ETag.
    pub fn named(tag: impl Into<String>) -> Self {
        Self { tag: tag.into(), file: None, modified: None }
    }

    /// A version named by the place from a clock that said `modified`.
    pub fn dated(tag: impl Into<String>, modified: SystemTime) -> Self {
        Self { tag: tag.into(), file: None, modified: Some(modified) }
    }

    /// Both parts as one text, for keys of what belongs to one state of one file.
    pub fn full_tag(&self) -> String {
        match self.file {
            None => self.tag.clone(),
            Some(FileState { inode, changed_ns }) => format!("{}-{changed_ns}-{inode}", self.tag),
        }
    }

    /// True when a later change could not hide behind the same tag, so that what is derived may be kept.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        match self.modified {
            None => true,
            Some(modified) => now.duration_since(modified).is_ok_and(|age| age > CLOCK_GRAIN),
        }
    }
}

/// Which bytes these are: the same id always means the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceId {
    /// Where the source was opened.
    pub locator: Locator,
    /// Length in bytes.
    pub len: u64,
    /// Which state of those bytes.
    pub version: Version,
}

impl SourceId {
    /// True when `other` names the same bytes, whichever node it was made on and whatever happened to the file's mode,
    /// name or links since.
    pub fn names_same_bytes(&self, other: &Self) -> bool {
        self.len == other.len && self.version.tag == other.version.tag
    }

    /// True when `now`, of the same locator on the same machine, is the same file with the same bytes: a file in its
    /// place may have its length and time of modification.
    pub fn is_unchanged(&self, now: &Self) -> bool {
        let inode = |id: &Self| id.version.file.map(|file| file.inode);
        self.names_same_bytes(now) && inode(self) == inode(now)
    }
}

/// An unchanging run of bytes that can be read anywhere.
///
/// # Contract
/// - `fetch` returns one buffer per range, in the order asked, each exactly as long as its range.
/// - Ranges may touch, overlap, repeat, be empty, and come in any order; how they are joined into
///   requests is the source's own business.
/// - A range past the end, or a fill whose memory is not as long as its range, is
///   [`Invalid`](forebay_process::ErrorKind::Invalid), and nothing is returned.
/// - `request_bytes` is the same whenever it is asked.
/// - Safe to call from many threads at once; a call blocks until all its bytes are there.
///
/// There are no default methods, so a wrapper cannot forget one. Conveniences go to [`SourceExt`].
pub trait Source: Send + Sync + fmt::Debug {
    /// Which bytes these are.
    fn id(&self) -> &SourceId;

    /// Gives the bytes of `ranges`, shared where possible: best when they will be decoded, or are already in memory.
    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>>;

    /// Copies bytes into the caller's memory: best when they are used as they lie. The answer says whether they are verified.
    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust>;

    /// Verifies that all bytes copied before this call are those of [`id`](Self::id): an error if the source has changed.
    fn verify(&self) -> Result<()>;

    /// The request size that hides the latency of a request: 0 where small requests cost hardly more than large ones, as in
    /// memory and on local disks.
    fn request_bytes(&self) -> u64;

    /// A prefetch hint: `range` is copied next, or, where it is empty, some range of this source soon. It costs a few
    /// nanoseconds, and a range past the end is ignored.
    fn will_read(&self, range: ByteRange);
}

/// Whether bytes that were copied are known to be those of the source's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Trust {
    /// They are.
    Verified,
    /// They are if [`Source::verify`] succeeds after the copy. That costs a system call, so a caller that copies much
    /// verifies once, perhaps on another thread.
    Unverified,
}

/// What every [`Source`] can do besides.
pub trait SourceExt: Source {
    /// Reads one range.
    fn fetch_one(&self, range: ByteRange) -> Result<Bytes> {
        Ok(self.fetch(&[range])?.remove(0))
    }

    /// Copies bytes into the caller's memory, and verifies them.
    fn fetch_into(&self, fills: &mut [Fill<'_>]) -> Result<()> {
        match self.copy_into(fills)? {
            Trust::Verified => Ok(()),
            Trust::Unverified => self.verify(),
        }
    }
}

impl<S: Source + ?Sized> SourceExt for S {}

/// [`Source::copy_into`] for a source that has nothing better than to copy what `fetch` gives.
pub fn fill_by_fetching(source: &dyn Source, fills: &mut [Fill<'_>]) -> Result<Trust> {
    let ranges: Vec<_> = fills.iter().map(|fill| fill.range).collect();
    check_fills(source.id(), fills)?;
    for (fill, bytes) in fills.iter_mut().zip(source.fetch(&ranges)?) {
        fill.into.copy_from_slice(&bytes);
    }
    Ok(Trust::Verified)
}

/// Refuses a fill whose memory is not exactly as long as its range.
pub fn check_fills(id: &SourceId, fills: &[Fill<'_>]) -> Result<()> {
    for fill in fills {
        if fill.into.len() as u64 != fill.range.len() {
            let what =
                format!("a range of {} bytes given {} bytes of memory", fill.range.len(), fill.into.len());
            return Err(
                forebay_process::Error::new(forebay_process::ErrorKind::Invalid, what).at(&id.locator)
            );
        }
    }
    Ok(())
}

/// Refuses ranges that reach past the end of `id`'s bytes.
pub fn check_ranges(id: &SourceId, ranges: impl IntoIterator<Item = ByteRange>) -> Result<()> {
    for range in ranges {
        if range.end > id.len || range.start > range.end {
            let what = format!("bytes {}..{} of a source {} long", range.start, range.end, id.len);
            return Err(
                forebay_process::Error::new(forebay_process::ErrorKind::Invalid, what).at(&id.locator)
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_settled_once_the_clock_has_moved_on() {
        let now = SystemTime::now();
        let young = Version::dated("a", now);
        assert!(!young.is_settled(now));
        assert!(young.is_settled(now + Duration::from_secs(3)));
        assert!(Version::named("etag").is_settled(now));
        let future = Version::dated("a", now + Duration::from_secs(9));
        assert!(!future.is_settled(now), "a stamp from the future says nothing");
    }

    #[test]
    fn ids_of_two_nodes_name_the_same_bytes_by_length_and_tag_alone() {
        let id = |len, tag: &str, inode, changed_ns| SourceId {
            locator: Locator::new("a.h5"),
            len,
            version: Version { file: Some(FileState { inode, changed_ns }), ..Version::named(tag) },
        };
        let here = id(10, "1700", 7, 5);
        assert!(here.names_same_bytes(&id(10, "1700", 8, 6)), "another node numbers it otherwise");
        assert!(
            !here.names_same_bytes(&id(11, "1700", 7, 5)) && !here.names_same_bytes(&id(10, "1701", 7, 5))
        );
        assert!(here.is_unchanged(&id(10, "1700", 7, 6)), "a new mode is no change of bytes");
        assert!(!here.is_unchanged(&id(10, "1700", 8, 5)), "another file in its place is");
        let tags = [here, id(10, "1700", 7, 6), id(10, "1700", 8, 5)].map(|id| id.version.full_tag());
        assert!(tags[0] != tags[1] && tags[0] != tags[2] && tags[1] != tags[2], "what is kept is kept apart");
    }
}
