//! Where the chunks of a variable lie, one by one or at equal distances.

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::ByteRange;
use serde::{Deserialize, Serialize};

use crate::extents::source_index::SourceIndex;

/// Where one chunk's stored bytes lie, before any filter is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extent {
    /// Which source.
    pub source: SourceIndex,
    /// Which bytes of it.
    pub range: ByteRange,
    /// Filters that were left out for this chunk: bit `i` stands for filter `i`.
    pub skipped: u32,
}

/// The extents of a variable's chunks; a chunk that has none was never written and reads as the fill value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkTable(Places);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Places {
    Listed {
        /// Chunk numbers in rising order; absent when every chunk of the grid has an extent.
        numbers: Option<Vec<u64>>,
        extents: Vec<Extent>,
    },
    /// Chunk `i` lies `i` strides after the first: records of a file, of which there may be a great many.
    Regular { first: Extent, stride: u64, count: u64 },
}

impl Default for Places {
    fn default() -> Self {
        Self::Listed { numbers: None, extents: Vec::new() }
    }
}

impl ChunkTable {
    /// The table of `pairs` (chunk number, extent) for a grid of `chunk_count` chunks.
    ///
    /// Memory is in proportion to the pairs, not to the grid: a file can claim a vast empty one.
    pub fn new(mut pairs: Vec<(u64, Extent)>, chunk_count: u64) -> Result<Self> {
        if !pairs.is_sorted_by_key(|pair| pair.0) {
            pairs.sort_unstable_by_key(|pair| pair.0);
        }
        if let Some(twice) = pairs.windows(2).find(|two| two[0].0 == two[1].0) {
            return Err(Error::new(ErrorKind::Corrupt, format!("chunk {} is listed twice", twice[0].0)));
        }
        let numbers = (pairs.len() as u64 != chunk_count).then(|| pairs.iter().map(|pair| pair.0).collect());
        let extents = pairs.into_iter().map(|pair| pair.1).collect();
        Ok(Self(Places::Listed { numbers, extents }))
    }

    /// The table of a variable that is one chunk at `extent`.
    pub fn one(extent: Extent) -> Self {
        Self(Places::Listed { numbers: None, extents: vec![extent] })
    }

    /// The table of `count` chunks, the first at `first`, each `stride` bytes after the one before it.
    pub fn regular(first: Extent, stride: u64, count: u64) -> Result<Self> {
        let table = Self(Places::Regular { first, stride, count });
        if table.end().is_none() || first.range.start > first.range.end {
            let what = format!("{count} records of {stride} bytes from {:#x} on", first.range.start);
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        Ok(table)
    }

    /// One past the last byte of regular chunks, if that can be counted; 0 for listed ones.
    fn end(&self) -> Option<u64> {
        let Places::Regular { first, stride, count } = &self.0 else { return Some(0) };
        stride.checked_mul(count.saturating_sub(1))?.checked_add(first.range.end)
    }

    /// Where chunk `number` lies, if it was ever written.
    pub fn get(&self, number: u64) -> Option<Extent> {
        match &self.0 {
            Places::Listed { numbers, extents } => {
                let index = match numbers {
                    None => usize::try_from(number).ok()?,
                    Some(numbers) => numbers.binary_search(&number).ok()?,
                };
                extents.get(index).copied()
            }
            Places::Regular { first, stride, count } => (number < *count).then(|| Extent {
                range: ByteRange::at(first.range.start + number * stride, first.range.len()),
                ..*first
            }),
        }
    }

    /// All extents with their chunk numbers, in grid order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Extent)> + '_ {
        (0..self.len() as u64).filter_map(|index| {
            let number = match &self.0 {
                Places::Listed { numbers: Some(numbers), .. } => numbers[usize::try_from(index).ok()?],
                _ => index,
            };
            Some((number, self.at(index)?))
        })
    }

    /// The extent that has `index` others before it.
    fn at(&self, index: u64) -> Option<Extent> {
        match &self.0 {
            Places::Listed { extents, .. } => extents.get(usize::try_from(index).ok()?).copied(),
            Places::Regular { .. } => self.get(index),
        }
    }

    /// Chunks that were written.
    pub fn len(&self) -> usize {
        match &self.0 {
            Places::Listed { extents, .. } => extents.len(),
            Places::Regular { count, .. } => usize::try_from(*count).unwrap_or(usize::MAX),
        }
    }

    /// True when no chunk was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True where the places are worked out, not listed: then the table costs nothing to make or to keep.
    pub fn is_regular(&self) -> bool {
        matches!(self.0, Places::Regular { .. })
    }

    /// Bytes all chunks take in their sources.
    pub fn stored_len(&self) -> u64 {
        match &self.0 {
            Places::Listed { extents, .. } => {
                extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.range.len()))
            }
            Places::Regular { first, count, .. } => first.range.len().saturating_mul(*count),
        }
    }

    /// Bytes that the longest chunk takes in its source.
    pub fn longest_stored(&self) -> u64 {
        match &self.0 {
            Places::Listed { extents, .. } => {
                extents.iter().map(|extent| extent.range.len()).max().unwrap_or(0)
            }
            Places::Regular { first, .. } => first.range.len(),
        }
    }

    /// True when the table is in order and points only into `source_count` sources.
    pub fn is_sound(&self, source_count: usize) -> bool {
        match &self.0 {
            Places::Listed { numbers, extents } => {
                let in_order = numbers.as_ref().is_none_or(|numbers| {
                    numbers.len() == extents.len() && numbers.is_sorted_by(|low, high| low < high)
                });
                in_order && extents.iter().all(|extent| extent.is_sound(source_count))
            }
            Places::Regular { first, .. } => first.is_sound(source_count) && self.end().is_some(),
        }
    }
}

impl Extent {
    fn is_sound(&self, source_count: usize) -> bool {
        (self.source.0 as usize) < source_count && self.range.start <= self.range.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64) -> Extent {
        Extent { source: SourceIndex(0), range: ByteRange::at(start, 8), skipped: 0 }
    }

    #[test]
    fn a_sparse_table_finds_what_is_there_and_nothing_else() {
        let table = ChunkTable::new(vec![(7, extent(80)), (2, extent(40))], 1 << 60).unwrap();
        assert_eq!(table.get(2), Some(extent(40)));
        assert_eq!(table.get(7), Some(extent(80)));
        assert_eq!(table.get(3), None);
        assert_eq!(table.iter().map(|(number, _)| number).collect::<Vec<_>>(), [2, 7]);
    }

    #[test]
    fn a_full_table_needs_no_numbers() {
        let table = ChunkTable::new(vec![(0, extent(0)), (1, extent(8))], 2).unwrap();
        assert!(matches!(table.0, Places::Listed { numbers: None, .. }));
        assert_eq!(table.get(1), Some(extent(8)));
        assert_eq!(table.get(2), None);
    }

    #[test]
    fn records_lie_at_equal_distances_and_end() {
        let table = ChunkTable::regular(extent(100), 24, 3).unwrap();
        assert_eq!(table.iter().collect::<Vec<_>>(), [(0, extent(100)), (1, extent(124)), (2, extent(148))]);
        assert_eq!(table.get(3), None);
        assert_eq!((table.len(), table.stored_len()), (3, 24));
        let error = ChunkTable::regular(extent(100), u64::MAX / 2, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_chunk_listed_twice_is_corrupt() {
        let error = ChunkTable::new(vec![(1, extent(0)), (1, extent(8))], 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}
