//! Segments of sources that are one array when laid end to end: a great many of uneven lengths.

use std::ops::Range;

use forebay_process::{Error, Result};
use forebay_source::ByteRange;
use serde::{Deserialize, Serialize};

use crate::extents::source_index::SourceIndex;

/// Where a segment starts that is stored nowhere and reads as zeros.
const HOLE: u64 = u64::MAX;

/// Segments of sources that are one array when laid end to end, each found by bisection.
///
/// A million of them take 16 MB, or 20 MB where they lie in as many sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segments {
    /// Where each ends in the array, in bytes.
    ends: Vec<u64>,
    /// Where each starts in its source.
    starts: Vec<u64>,
    /// The source of each, or the one of all.
    sources: Vec<SourceIndex>,
}

/// What one segment has of some bytes of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which bytes of the array.
    pub bytes: Range<u64>,
    /// Where they are stored; `None` for zeros that are not.
    pub stored: Option<(SourceIndex, ByteRange)>,
}

impl Segments {
    /// `ranges` of one source.
    pub fn within(source: SourceIndex, ranges: impl IntoIterator<Item = ByteRange>) -> Result<Self> {
        let mut segments = Self { sources: vec![source], ..Self::default() };
        ranges.into_iter().try_for_each(|range| segments.push(range.start, range.len()))?;
        Ok(segments)
    }

    /// A range of each of many sources.
    pub fn over(ranges: impl IntoIterator<Item = (SourceIndex, ByteRange)>) -> Result<Self> {
        let mut segments = Self::default();
        for (source, range) in ranges {
            segments.push(range.start, range.len())?;
            segments.sources.push(source);
        }
        Ok(segments)
    }

    /// Adds `len` bytes, of which the first are `range` of `source` and the rest zeros that are stored nowhere.
    pub fn push_padded(&mut self, len: u64, source: SourceIndex, range: ByteRange) -> Result<()> {
        let stored = range.len().min(len);
        for (start, len) in [(range.start, stored), (HOLE, len - stored)] {
            if len > 0 {
                self.push(start, len)?;
                self.sources.push(source);
            }
        }
        Ok(())
    }

    fn push(&mut self, start: u64, len: u64) -> Result<()> {
        let end = self.array_len().checked_add(len);
        self.ends.push(end.ok_or_else(|| Error::corrupt("more bytes than can be counted"))?);
        self.starts.push(start);
        Ok(())
    }

    /// How many segments.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of the array they make up.
    pub fn array_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Bytes of it that are stored.
    pub fn stored_len(&self) -> u64 {
        let lens = self.ends.iter().zip(self.offsets()).map(|(end, start)| end - start);
        lens.zip(&self.starts).filter(|(_, start)| **start != HOLE).map(|(len, _)| len).sum()
    }

    /// Where each segment starts in the array, and at last where the array ends.
    pub fn offsets(&self) -> impl Iterator<Item = u64> + '_ {
        [0].into_iter().chain(self.ends.iter().copied())
    }

    /// What the segments have of `bytes` of the array, in order.
    pub fn of(&self, bytes: Range<u64>) -> impl Iterator<Item = Segment> + '_ {
        let first = self.ends.partition_point(|end| *end <= bytes.start);
        (first..self.ends.len())
            .map(move |index| {
                let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
                let low = start.max(bytes.start);
                let high = self.ends[index].min(bytes.end).max(low);
                let source = self.sources.get(index).or(self.sources.first()).copied();
                let stored = (self.starts[index] != HOLE).then(|| {
                    let range = ByteRange::at(self.starts[index] + (low - start), high - low);
                    (source.unwrap_or(SourceIndex(0)), range)
                });
                Segment { bytes: low..high, stored }
            })
            .take_while(move |segment| segment.bytes.start < bytes.end)
            .filter(|segment| !segment.bytes.is_empty())
    }

    /// True when the segments are in order and lie in `source_count` sources.
    pub fn is_sound(&self, source_count: usize) -> bool {
        let has_sources = self.sources.len() == 1 || self.sources.len() == self.ends.len();
        let counts = |(index, start): (usize, &u64)| {
            let before = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            let len = self.ends[index].checked_sub(before);
            len.is_some_and(|len| *start == HOLE || start.checked_add(len).is_some())
        };
        has_sources
            && self.starts.len() == self.ends.len()
            && self.sources.iter().all(|source| (source.0 as usize) < source_count)
            && self.starts.iter().enumerate().all(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_in_the_segments_that_have_them() {
        let ranges = [ByteRange::at(10, 4), ByteRange::at(50, 0), ByteRange::at(30, 6), ByteRange::at(90, 1)];
        let segments = Segments::within(SourceIndex(2), ranges).unwrap();
        let found = |bytes| -> Vec<_> { segments.of(bytes).map(|found| found.stored.unwrap().1).collect() };
        assert_eq!(found(0..11), [ByteRange::at(10, 4), ByteRange::at(30, 6), ByteRange::at(90, 1)]);
        assert_eq!(found(3..5), [ByteRange::at(13, 1), ByteRange::at(30, 1)]);
        assert_eq!(found(4..4), []);
        assert_eq!(found(10..11), [ByteRange::at(90, 1)]);
        assert_eq!(segments.offsets().collect::<Vec<_>>(), [0, 4, 4, 10, 11]);
        assert!(segments.is_sound(3) && !segments.is_sound(2));
    }

    #[test]
    fn every_run_of_bytes_is_found_and_what_is_stored_nowhere_is_a_hole() {
        let mut segments = Segments::default();
        // The second has nothing stored, the third less than it is long.
        for (len, start, stored) in [(3, 10, 3), (2, 0, 0), (4, 50, 1), (1, 90, 1)] {
            segments.push_padded(len, SourceIndex(0), ByteRange::at(start, stored)).unwrap();
        }
        assert_eq!((segments.array_len(), segments.stored_len()), (10, 5));
        assert!(segments.is_sound(1));
        let at = [Some(10), Some(11), Some(12), None, None, Some(50), None, None, None, Some(90)];
        for start in 0..=10u64 {
            for end in start..=10 {
                let mut found = Vec::new();
                for Segment { bytes, stored } in segments.of(start..end) {
                    assert_eq!(bytes.start, start + found.len() as u64, "{start}..{end}");
                    let len = bytes.end - bytes.start;
                    match stored {
                        Some((_, range)) => found.extend((range.start..range.end).map(Some)),
                        None => found.extend((0..len).map(|_| None)),
                    }
                    assert_eq!(bytes.start + len, start + found.len() as u64, "{start}..{end}");
                }
                let wanted = usize::try_from(start).unwrap()..usize::try_from(end).unwrap();
                assert_eq!(found, at[wanted], "{start}..{end}");
            }
        }
    }

    #[test]
    fn segments_out_of_order_or_past_all_counting_are_not_sound() {
        let of = |ends: &[u64], starts: &[u64]| Segments {
            ends: ends.to_vec(),
            starts: starts.to_vec(),
            sources: vec![SourceIndex(0)],
        };
        assert!(!of(&[4, 2], &[0, 0]).is_sound(1));
        assert!(!of(&[4], &[u64::MAX - 1]).is_sound(1));
        assert!(!of(&[4], &[]).is_sound(1));
        assert!(of(&[4, 4], &[0, 9]).is_sound(1));
    }
}
