//! Bytes of a file that is passed over from front to back.

use bytes::Bytes;
use forebay_process::Result;
use forebay_source::{ByteRange, Source, SourceExt};

/// What is read after a jump: enough for the names and lengths that stand before a large value.
const LEAST_BYTES: u64 = 64 << 10;
/// What is read at a time where nothing is jumped over.
const MOST_BYTES: u64 = 4 << 20;

/// The part of a file that is held in memory.
#[derive(Debug)]
pub(super) struct FileWindow<'a> {
    source: &'a dyn Source,
    start: u64,
    bytes: Bytes,
    next_len: u64,
}

impl<'a> FileWindow<'a> {
    pub(super) fn over(source: &'a dyn Source) -> Self {
        Self { source, start: 0, bytes: Bytes::new(), next_len: LEAST_BYTES }
    }

    /// Length of the file.
    pub(super) fn file_len(&self) -> u64 {
        self.source.id().len
    }

    /// The bytes of `range`, which is short and lies in the file.
    pub(super) fn get(&mut self, range: ByteRange) -> Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if range.start < self.start || range.end > end {
            // What follows at once was not jumped to.
            let follows = range.start >= self.start && range.start <= end.saturating_add(LEAST_BYTES);
            self.next_len = if follows { (self.next_len * 2).min(MOST_BYTES) } else { LEAST_BYTES };
            let len = range.len().max(self.next_len).max(self.source.request_bytes());
            let window =
                ByteRange { start: range.start, end: range.start.saturating_add(len).min(self.file_len()) };
            self.bytes = self.source.fetch_one(ByteRange { end: window.end.max(range.end), ..window })?;
            self.start = range.start;
        }
        let from = usize::try_from(range.start - self.start).unwrap_or(usize::MAX);
        let len = usize::try_from(range.len()).unwrap_or(usize::MAX);
        Ok(self.bytes.get(from..).and_then(|bytes| bytes.get(..len)).unwrap_or_default())
    }

    /// Calls `each` with the bytes of `range`, which may be long, a part at a time.
    pub(super) fn each_part(&mut self, range: ByteRange, mut each: impl FnMut(&[u8])) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + LEAST_BYTES);
            each(self.get(ByteRange { start: at, end })?);
            at = end;
        }
        Ok(())
    }
}
