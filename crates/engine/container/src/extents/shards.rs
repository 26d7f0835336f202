//! Shards, as Zarr's `sharding_indexed` stores them: files of many chunks, each with an index of where they lie.
//!
//! ```text
//!   chunk │ chunk │ … │ { offset u64 │ length u64 } per chunk, in C order │ CRC32C
//! ```
//! A chunk that was never written has both numbers all ones. The index may also stand at the start. A description says
//! which shards there are and how their indexes are stored; an index is read when a chunk of its shard is first needed.

use forebay_process::{Error, Result};
use forebay_source::ByteRange;
use serde::{Deserialize, Serialize};

use crate::{
    ByteOrder,
    extents::chunk_table::{ChunkTable, Extent},
    grid::{Grid, selection::Selection, shape::product},
};

/// Bytes of one entry of an index.
const ENTRY_LEN: u64 = 16;
const CHECKSUM_LEN: u64 = 4;

/// How the index of a shard is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardIndexForm {
    /// The byte order of its numbers.
    pub order: ByteOrder,
    /// True when a CRC32C follows it.
    pub has_checksum: bool,
    /// True when it stands before the chunks, and not behind them.
    pub is_at_start: bool,
}

/// The shards of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shards {
    /// The array, cut into shards.
    pub grid: Grid,
    /// The shards that were written, by their number in `grid`: all bytes of each.
    pub files: ChunkTable,
    /// How their indexes are stored.
    pub form: ShardIndexForm,
    /// Bytes that each chunk takes, where they are stored as they are.
    pub chunk_len: Option<u64>,
}

/// Where a chunk is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InShard {
    /// The shard's number.
    pub shard: u64,
    /// All of its bytes.
    pub file: Extent,
    /// Chunks before it in the shard's index.
    pub position: u64,
}

impl Shards {
    /// Where chunk `number` of `chunks` is looked up; `None` when its shard was never written.
    pub fn find(&self, chunks: &Grid, number: u64) -> Option<InShard> {
        let (mut rest, mut shard, mut position) = (number, 0u64, 0u64);
        let (mut shard_stride, mut stride) = (1u64, 1u64);
        for axis in (0..chunks.shape.len()).rev() {
            let (len, chunk, shard_len) = (chunks.shape[axis], chunks.chunk[axis], self.grid.chunk[axis]);
            let (count, within) = (len.div_ceil(chunk).max(1), (shard_len / chunk).max(1));
            let at = rest % count;
            rest /= count;
            shard = shard.saturating_add((at / within).saturating_mul(shard_stride));
            shard_stride = shard_stride.saturating_mul(len.div_ceil(shard_len));
            // More chunks than can be counted have no entry in any index, which is an error there.
            position = position.saturating_add((at % within).saturating_mul(stride));
            stride = stride.saturating_mul(within);
        }
        Some(InShard { shard, file: self.files.get(shard)?, position })
    }

    /// The shards that were written and have elements of `selection`.
    pub fn touching(&self, selection: &Selection) -> impl Iterator<Item = (u64, Extent)> {
        self.grid.overlaps(selection).filter_map(|shard| Some((shard.chunk, self.files.get(shard.chunk)?)))
    }

    /// Chunks of one shard along each axis.
    fn chunks_within(&self, chunks: &Grid) -> Vec<u64> {
        self.grid.chunk.iter().zip(&chunks.chunk).map(|(shard, chunk)| shard / chunk).collect()
    }

    /// Bytes of an index, `u64::MAX` when there are more.
    fn index_len(&self, chunks: &Grid) -> u64 {
        let entries = product(&self.chunks_within(chunks)).saturating_mul(ENTRY_LEN);
        entries.saturating_add(if self.form.has_checksum { CHECKSUM_LEN } else { 0 })
    }

    /// Where the index of the shard `file` lies.
    pub fn index_range(&self, chunks: &Grid, file: Extent) -> Result<ByteRange> {
        let (len, index_len) = (file.range.len(), self.index_len(chunks));
        if index_len > len {
            let count = product(&self.chunks_within(chunks));
            let what = format!("a shard of {len} bytes is too short for an index of {count} chunks");
            return Err(Error::corrupt(what));
        }
        let start = if self.form.is_at_start { file.range.start } else { file.range.end - index_len };
        Ok(ByteRange::at(start, index_len))
    }

    /// The index that is stored as `bytes`.
    pub fn index(&self, bytes: &[u8]) -> Result<ShardIndex> {
        if !self.form.has_checksum {
            return Ok(ShardIndex(bytes.into()));
        }
        let (entries, stored) = bytes.split_last_chunk().ok_or_else(|| Error::corrupt("no checksum"))?;
        let (stored, found) = (u32::from_le_bytes(*stored), crc32c::crc32c(entries));
        // A fuzzer cannot guess checksums.
        if stored != found && !cfg!(fuzzing) {
            return Err(Error::corrupt(format!("bad checksum: stored {stored:#010x}, found {found:#010x}")));
        }
        Ok(ShardIndex(entries.into()))
    }

    /// Where the chunk at `place` lies, by the `index` of its shard; `None` when it was never written.
    pub fn extent(&self, index: &ShardIndex, place: InShard) -> Result<Option<Extent>> {
        let InShard { file, position, .. } = place;
        let entry = usize::try_from(position).ok().and_then(|at| index.0.as_chunks::<16>().0.get(at));
        let entry = entry.ok_or_else(|| Error::corrupt("an index without an entry for the chunk"))?;
        let (halves, _) = entry.as_chunks::<8>();
        let number = |half: &[u8; 8]| match self.form.order {
            ByteOrder::Little => u64::from_le_bytes(*half),
            ByteOrder::Big => u64::from_be_bytes(*half),
        };
        let (offset, len) = (number(&halves[0]), number(&halves[1]));
        if (offset, len) == (u64::MAX, u64::MAX) {
            return Ok(None);
        }
        let range = ByteRange::checked(offset, len, file.range.len())?;
        if self.chunk_len.is_some_and(|wanted| wanted != len) {
            let wanted = self.chunk_len.unwrap_or(0);
            return Err(Error::corrupt(format!("a chunk of {len} bytes where {wanted} belong")));
        }
        let range = ByteRange::at(file.range.start + range.start, len);
        Ok(Some(Extent { range, ..file }))
    }

    /// Chunks of the array that lie in shards which were written, an upper bound of those that were.
    pub fn chunk_count(&self, chunks: &Grid) -> u64 {
        if self.files.len() as u64 == self.grid.chunk_count() {
            return chunks.chunk_count();
        }
        self.files.iter().fold(0, |count, (shard, _)| count.saturating_add(self.chunks_in(chunks, shard)))
    }

    /// Chunks of the array that lie in `shard`.
    fn chunks_in(&self, chunks: &Grid, shard: u64) -> u64 {
        let (at, within, all) = (self.grid.chunk_at(shard), self.chunks_within(chunks), chunks.chunks());
        at.iter().zip(&within).zip(&all).fold(1u64, |count, ((at, within), all)| {
            count.saturating_mul(all.saturating_sub(at.saturating_mul(*within)).min(*within))
        })
    }

    /// Bytes that a chunk in the shard of `place` takes on average.
    pub fn mean_len(&self, chunks: &Grid, place: InShard) -> u64 {
        let len = place.file.range.len().saturating_sub(self.index_len(chunks));
        len.checked_div(self.chunks_in(chunks, place.shard)).unwrap_or(0)
    }

    /// Bytes of all shards without their indexes.
    pub fn stored_len(&self, chunks: &Grid) -> u64 {
        let indexes = self.index_len(chunks).saturating_mul(self.files.len() as u64);
        self.files.stored_len().saturating_sub(indexes)
    }

    /// True when shards of this size hold whole chunks of `chunks`.
    pub fn fits(&self, chunks: &Grid) -> bool {
        let Grid { shape, chunk } = &self.grid;
        shape == &chunks.shape
            && chunk.len() == chunks.chunk.len()
            && chunk
                .iter()
                .zip(&chunks.chunk)
                .all(|(shard, chunk)| *shard > 0 && *chunk > 0 && shard.is_multiple_of(*chunk))
    }
}

/// The index of one shard: where its chunks lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardIndex(Box<[u8]>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extents::source_index::SourceIndex;

    fn shards(written: &[u64]) -> (Shards, Grid) {
        let grid = Grid { shape: vec![5, 7], chunk: vec![4, 6] };
        let file = |number: &u64| {
            let source = SourceIndex(u32::try_from(*number).unwrap() + 1);
            (*number, Extent { source, range: ByteRange::at(0, 100), skipped: 0 })
        };
        let files = ChunkTable::new(written.iter().map(file).collect(), 4).unwrap();
        let form = ShardIndexForm { order: ByteOrder::Little, has_checksum: true, is_at_start: false };
        let chunks = Grid { shape: vec![5, 7], chunk: vec![2, 3] };
        (Shards { grid, files, form, chunk_len: None }, chunks)
    }

    #[test]
    fn a_chunk_is_looked_up_in_its_shard_at_its_place() {
        let (shards, chunks) = shards(&[0, 1, 3]);
        let found = |number| shards.find(&chunks, number).map(|found| (found.shard, found.position));
        let wanted = [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 2)].map(Some);
        assert_eq!((0..6).map(found).collect::<Vec<_>>(), wanted);
        assert_eq!((6..9).map(found).collect::<Vec<_>>(), [None, None, Some((3, 0))]);
        assert!(shards.fits(&chunks));
    }

    #[test]
    fn chunks_beyond_the_border_are_not_counted() {
        let (all, chunks) = shards(&[0, 1, 2, 3]);
        assert_eq!(all.chunk_count(&chunks), 9);
        assert_eq!(shards(&[1]).0.chunk_count(&chunks), 2);
        assert_eq!(shards(&[3]).0.chunk_count(&chunks), 1);
        assert_eq!(all.stored_len(&chunks), 4 * (100 - 4 * 16 - 4));
    }

    #[test]
    fn an_index_that_is_too_short_gives_no_place() {
        let (shards, chunks) = shards(&[0]);
        let place = shards.find(&chunks, 4).unwrap();
        assert!(shards.extent(&ShardIndex(vec![0; 16].into()), place).is_err());
        assert!(shards.index(&[0; 20]).is_err(), "a bad checksum");
    }
}
