//! Byte ranges and how near ones are joined.

use bytes::Bytes;
use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// A half-open range of bytes, `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl ByteRange {
    /// `len` bytes from `start`, which the caller knows to fit.
    pub fn at(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// `len` bytes from `start` of something `limit` long, when a file says so.
    pub fn checked(start: u64, len: u64, limit: u64) -> Result<Self> {
        match start.checked_add(len) {
            Some(end) if end <= limit => Ok(Self { start, end }),
            _ => Err(Error::new(
                ErrorKind::Corrupt,
                format!("{len} bytes at {start:#x} reach past the end, {limit:#x}"),
            )),
        }
    }

    /// How many bytes.
    pub fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// True when there are none.
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Cuts `self` out of `bytes`, which hold the source's bytes from `origin` on.
    ///
    /// # Panics
    /// When `bytes` do not cover `self`.
    pub fn cut(self, bytes: &Bytes, origin: u64) -> Bytes {
        let from = usize::try_from(self.start - origin).expect("in memory");
        let to = usize::try_from(self.end - origin).expect("in memory");
        bytes.slice(from..to)
    }
}

/// A range and the memory its bytes go to, which is exactly as long.
#[derive(Debug)]
pub struct Fill<'a> {
    /// Which bytes.
    pub range: ByteRange,
    /// Where to put them.
    pub into: &'a mut [u8],
}

/// Joins ranges that lie at most `gap_bytes` apart; the result is sorted and disjoint.
pub fn coalesce(ranges: &[ByteRange], gap_bytes: u64) -> Vec<ByteRange> {
    coalesce_within(ranges, gap_bytes, u64::MAX)
}

/// Joins like [`coalesce`], but no more than `run_bytes` where the ranges do not themselves overlap.
///
/// Each range lies in one run, the last that starts at or before it.
pub fn coalesce_within(ranges: &[ByteRange], gap_bytes: u64, run_bytes: u64) -> Vec<ByteRange> {
    let mut sorted: Vec<_> = ranges.iter().copied().filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable();
    let mut runs: Vec<ByteRange> = Vec::new();
    for range in sorted {
        match runs.last_mut() {
            Some(run)
                if range.start < run.end
                    || (range.start - run.end <= gap_bytes && range.end - run.start <= run_bytes) =>
            {
                run.end = run.end.max(range.end);
            }
            _ => runs.push(range),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_past_the_end_is_corrupt_and_so_is_one_that_wraps() {
        for (start, len) in [(9, 2), (u64::MAX, 2)] {
            assert_eq!(ByteRange::checked(start, len, 10).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn near_ranges_are_joined_and_far_ones_are_not() {
        let ranges = [ByteRange::at(90, 10), ByteRange::at(0, 10), ByteRange::at(12, 8)];
        assert_eq!(coalesce(&ranges, 2), [ByteRange::at(0, 20), ByteRange::at(90, 10)]);
        assert_eq!(coalesce(&ranges, 1).len(), 3);
    }

    #[test]
    fn a_run_stops_growing_at_its_limit_but_never_cuts_a_range() {
        let touching: Vec<_> = (0..10).map(|index| ByteRange::at(index * 10, 10)).collect();
        assert_eq!(coalesce_within(&touching, 0, 30).len(), 4);
        let overlapping = [ByteRange::at(0, 20), ByteRange::at(10, 40)];
        assert_eq!(coalesce_within(&overlapping, 0, 30), [ByteRange::at(0, 50)]);
    }
}
