//! Stretches of sources that are one array when laid end to end: a great many of uneven lengths.

use std::ops::Range;

use forebay_source::{ByteRange, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::SourceIndex;

/// Stretches of sources that are one array when laid end to end, each found by bisection.
///
/// A million of them take 16 MB, or 20 MB where they lie in as many sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Where each ends in the array, in bytes.
    ends: Vec<u64>,
    /// Where each starts in its source.
    starts: Vec<u64>,
    /// The source of each, or the one of all.
    sources: Vec<SourceIndex>,
}

/// What one stretch has of some bytes of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Which bytes of the array.
    pub bytes: Range<u64>,
    /// The source that has them.
    pub source: SourceIndex,
    /// Where they lie there.
    pub range: ByteRange,
}

impl Joined {
    /// `ranges` of one source.
    pub fn within(source: SourceIndex, ranges: impl IntoIterator<Item = ByteRange>) -> Result<Self> {
        let mut joined = Self { sources: vec![source], ..Self::default() };
        ranges.into_iter().try_for_each(|range| joined.push(range))?;
        Ok(joined)
    }

    /// A range of each of many sources.
    pub fn over(ranges: impl IntoIterator<Item = (SourceIndex, ByteRange)>) -> Result<Self> {
        let mut joined = Self::default();
        for (source, range) in ranges {
            joined.push(range)?;
            joined.sources.push(source);
        }
        Ok(joined)
    }

    fn push(&mut self, range: ByteRange) -> Result<()> {
        let end = self.stored_len().checked_add(range.len());
        let end = end.ok_or_else(|| Error::new(ErrorKind::Corrupt, "more bytes than can be counted"))?;
        self.ends.push(end);
        self.starts.push(range.start);
        Ok(())
    }

    /// How many stretches.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all of them.
    pub fn stored_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Where each stretch starts in the array, and at last where the array ends.
    pub fn offsets(&self) -> impl Iterator<Item = u64> + '_ {
        [0].into_iter().chain(self.ends.iter().copied())
    }

    /// What the stretches have of `bytes` of the array, in order.
    pub fn stretches(&self, bytes: Range<u64>) -> impl Iterator<Item = Stretch> + '_ {
        let first = self.ends.partition_point(|end| *end <= bytes.start);
        (first..self.ends.len())
            .map(move |index| {
                let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
                let (low, high) = (start.max(bytes.start), self.ends[index].min(bytes.end));
                let at = self.starts[index] + (low - start);
                let source = self.sources.get(index).or(self.sources.first()).copied();
                Stretch {
                    bytes: low..high.max(low),
                    source: source.unwrap_or(SourceIndex(0)),
                    range: ByteRange::at(at, high.saturating_sub(low)),
                }
            })
            .take_while(move |stretch| stretch.bytes.start < bytes.end)
            .filter(|stretch| !stretch.bytes.is_empty())
    }

    /// True when the stretches are in order and lie in `source_count` sources.
    pub fn is_sound(&self, source_count: usize) -> bool {
        let has_sources = self.sources.len() == 1 || self.sources.len() == self.ends.len();
        let counts = |(index, start): (usize, &u64)| {
            let before = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            let len = self.ends[index].checked_sub(before);
            len.is_some_and(|len| start.checked_add(len).is_some())
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
    fn bytes_are_found_in_the_stretches_that_have_them() {
        let ranges = [ByteRange::at(10, 4), ByteRange::at(50, 0), ByteRange::at(30, 6), ByteRange::at(90, 1)];
        let joined = Joined::within(SourceIndex(2), ranges).unwrap();
        let found = |bytes| -> Vec<_> { joined.stretches(bytes).map(|found| found.range).collect() };
        assert_eq!(found(0..11), [ByteRange::at(10, 4), ByteRange::at(30, 6), ByteRange::at(90, 1)]);
        assert_eq!(found(3..5), [ByteRange::at(13, 1), ByteRange::at(30, 1)]);
        assert_eq!(found(4..4), []);
        assert_eq!(found(10..11), [ByteRange::at(90, 1)]);
        assert_eq!(joined.offsets().collect::<Vec<_>>(), [0, 4, 4, 10, 11]);
        assert!(joined.is_sound(3) && !joined.is_sound(2));
    }

    #[test]
    fn stretches_out_of_order_or_past_all_counting_are_not_sound() {
        let one = vec![SourceIndex(0)];
        let of = |ends: &[u64], starts: &[u64]| Joined {
            ends: ends.to_vec(),
            starts: starts.to_vec(),
            sources: one.clone(),
        };
        assert!(!of(&[4, 2], &[0, 0]).is_sound(1));
        assert!(!of(&[4], &[u64::MAX]).is_sound(1));
        assert!(!of(&[4], &[]).is_sound(1));
        assert!(of(&[4, 4], &[0, 9]).is_sound(1));
    }
}
