//! One readable, unchanging run of bytes.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{ByteRange, Fill, Locator, Result};

/// What tells one state of a source's bytes from the next: a file's times and inode, a bucket's ETag.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Version {
    /// Differs whenever the bytes may differ.
    pub tag: String,
    /// When the bytes last changed, where `tag` is drawn from a clock.
    pub modified: Option<SystemTime>,
}

/// File systems stamp times from a coarse clock (up to 2 s on FAT and old NFS, 4 ms on ext4): two writes within
/// one tick leave the same stamp.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

impl Version {
    /// A version named by the place itself, such as an ETag.
    pub fn named(tag: impl Into<String>) -> Self {
        Self { tag: tag.into(), modified: None }
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

/// An unchanging run of bytes that can be read anywhere.
///
/// # Contract
/// - `fetch` returns one buffer per range, in the order asked, each exactly as long as its range.
/// - Ranges may touch, overlap, repeat, be empty, and come in any order; how they are joined into
///   requests is the source's own business.
/// - A range past the end, or a fill whose memory is not as long as its range, is
///   [`Invalid`](crate::ErrorKind::Invalid), and nothing is returned.
/// - `request_bytes` is the same whenever it is asked.
/// - Safe to call from many threads at once; a call blocks until all its bytes are there.
///
/// There are no default methods, so a wrapper cannot forget one. Conveniences go to [`SourceExt`].
pub trait Source: Send + Sync + fmt::Debug {
    /// Which bytes these are.
    fn id(&self) -> &SourceId;

    /// Lends the bytes of `ranges`: best when they will be decoded, or are already in memory.
    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>>;

    /// Puts bytes where the caller wants them, to be believed as the answer says: best when they are used as they lie.
    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust>;

    /// Makes sure that whatever was copied before this call are the bytes of [`id`](Self::id), and nothing that was
    /// written to them since.
    fn vouch(&self) -> Result<()>;

    /// How many bytes one request ought to bring for its latency to be hidden: 0 where small requests cost hardly
    /// more than large ones, as in memory and on local disks.
    fn request_bytes(&self) -> u64;

    /// Says that `range` will be asked for next, or soon if it is empty: a source may prepare for it, at next to no cost.
    /// What it says of a range past the end is ignored.
    fn expect(&self, range: ByteRange);
}

/// How far bytes that were copied are to be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Trust {
    /// They are the source's.
    Full,
    /// They are once [`Source::vouch`] says so. To ask costs a system call: whoever copies much asks once, and may leave
    /// it to a thread that has less to do.
    OnceVouched,
}

/// What every [`Source`] can do besides.
pub trait SourceExt: Source {
    /// Reads one range.
    fn fetch_one(&self, range: ByteRange) -> Result<Bytes> {
        Ok(self.fetch(&[range])?.remove(0))
    }

    /// Puts bytes where the caller wants them, to be believed without more ado.
    fn fetch_into(&self, fills: &mut [Fill<'_>]) -> Result<()> {
        match self.copy_into(fills)? {
            Trust::Full => Ok(()),
            Trust::OnceVouched => self.vouch(),
        }
    }
}

impl<S: Source + ?Sized> SourceExt for S {}

/// [`Source::copy_into`] for a source that has nothing better than to copy what it lends.
pub fn fill_by_fetching(source: &dyn Source, fills: &mut [Fill<'_>]) -> Result<Trust> {
    let ranges: Vec<_> = fills.iter().map(|fill| fill.range).collect();
    check_fills(source.id(), fills)?;
    for (fill, bytes) in fills.iter_mut().zip(source.fetch(&ranges)?) {
        fill.into.copy_from_slice(&bytes);
    }
    Ok(Trust::Full)
}

/// Refuses a fill whose memory is not exactly as long as its range.
pub fn check_fills(id: &SourceId, fills: &[Fill<'_>]) -> Result<()> {
    for fill in fills {
        if fill.into.len() as u64 != fill.range.len() {
            let what =
                format!("a range of {} bytes given {} bytes of memory", fill.range.len(), fill.into.len());
            return Err(crate::Error::new(crate::ErrorKind::Invalid, what).at(&id.locator));
        }
    }
    Ok(())
}

/// Refuses ranges that reach past the end of `id`'s bytes.
pub fn check_ranges(id: &SourceId, ranges: impl IntoIterator<Item = ByteRange>) -> Result<()> {
    for range in ranges {
        if range.end > id.len || range.start > range.end {
            let what = format!("bytes {}..{} of a source {} long", range.start, range.end, id.len);
            return Err(crate::Error::new(crate::ErrorKind::Invalid, what).at(&id.locator));
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
        let young = Version { tag: "a".into(), modified: Some(now) };
        assert!(!young.is_settled(now));
        assert!(young.is_settled(now + Duration::from_secs(3)));
        assert!(Version::named("etag").is_settled(now));
        let future = Version { tag: "a".into(), modified: Some(now + Duration::from_secs(9)) };
        assert!(!future.is_settled(now), "a stamp from the future says nothing");
    }
}
