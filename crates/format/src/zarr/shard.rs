//! Shards: files of many chunks, whose index says where in the file each of them lies.
//!
//! ```text
//!   chunk │ chunk │ … │ { offset u64 │ length u64 } per chunk, in C order │ CRC32C
//! ```
//! A chunk that was never written has both numbers all ones. The index may also stand at the start.

use forebay_source::{ByteRange, Error, Result, SourceExt, SourceId};

use super::{array::Described, codec::ShardIndex, store::Store};
use forebay_container::{ByteOrder, Extent, Grid, shape::product};

/// Bytes of one entry.
const ENTRY_LEN: u64 = 16;
const CHECKSUM_LEN: u64 = 4;

/// Where the chunks in `files` lie, by number, in the order of `files`.
pub(super) fn chunks(
    store: &Store<'_>,
    described: &Described,
    index: ShardIndex,
    files: &[(u64, Extent)],
    sources: &[SourceId],
) -> Result<Vec<(u64, Extent)>> {
    let shape = Shape::of(described);
    let read = store.each(files, |(number, whole)| {
        let id = &sources[whole.source.0 as usize];
        one(store, &shape, index, (*number, *whole), id).map_err(|error| error.at(&id.locator))
    })?;
    let mut pairs = Vec::new();
    for chunks in read {
        pairs.extend(chunks?);
    }
    Ok(pairs)
}

/// How chunks lie in shards.
struct Shape<'a> {
    /// The array in shards.
    files: &'a Grid,
    /// Chunks of the array along each axis.
    all: Vec<u64>,
    /// Chunks of one shard along each axis.
    within: Vec<u64>,
}

impl<'a> Shape<'a> {
    fn of(described: &'a Described) -> Self {
        let (files, grid) = (&described.files, &described.grid);
        let within = files.chunk.iter().zip(&grid.chunk).map(|(shard, chunk)| shard / chunk).collect();
        Self { files, all: grid.chunks(), within }
    }

    /// The number of the chunk that has `position` others before it in the shard at `shard`; `None` beyond the border.
    fn number(&self, shard: &[u64], position: u64) -> Option<u64> {
        let (mut rest, mut number, mut stride) = (position, 0u64, 1u64);
        for ((shard, within), all) in shard.iter().zip(&self.within).zip(&self.all).rev() {
            let at = shard.checked_mul(*within)?.checked_add(rest % within)?;
            rest /= within;
            if at >= *all {
                return None;
            }
            number = number.checked_add(at.checked_mul(stride)?)?;
            stride = stride.checked_mul(*all)?;
        }
        Some(number)
    }
}

fn one(
    store: &Store<'_>,
    shape: &Shape<'_>,
    index: ShardIndex,
    (shard, whole): (u64, Extent),
    id: &SourceId,
) -> Result<Vec<(u64, Extent)>> {
    let count = product(&shape.within);
    let entries_len = count.checked_mul(ENTRY_LEN);
    let index_len =
        entries_len.and_then(|len| len.checked_add(if index.has_checksum { CHECKSUM_LEN } else { 0 }));
    let index_len = index_len.filter(|len| *len <= id.len).ok_or_else(|| {
        Error::corrupt(format!("a shard of {} bytes is too short for an index of {count} chunks", id.len))
    })?;
    let start = if index.is_at_start { 0 } else { id.len - index_len };
    let bytes = store.open_known(id)?.fetch_one(ByteRange::at(start, index_len))?;
    let entries = checked(&bytes, index).map_err(|error| error.at(format!("index at {start:#x}")))?;
    let at = shape.files.chunk_at(shard);
    let mut found = Vec::new();
    for (position, entry) in (0..count).zip(entries.as_chunks::<16>().0) {
        let [offset, len] = numbers(entry, index.order);
        if (offset, len) == (u64::MAX, u64::MAX) {
            continue;
        }
        let Some(number) = shape.number(&at, position) else { continue };
        let range = ByteRange::checked(offset, len, id.len)
            .map_err(|error| error.at(format!("chunk {position} of the index at {start:#x}")))?;
        found.push((number, Extent { source: whole.source, range, skipped: 0 }));
    }
    Ok(found)
}

/// The entries of an index, without a checksum, which must be right.
fn checked(bytes: &[u8], index: ShardIndex) -> Result<&[u8]> {
    if !index.has_checksum {
        return Ok(bytes);
    }
    let (entries, stored) = bytes.split_last_chunk().ok_or_else(|| Error::corrupt("no checksum"))?;
    let (stored, found) = (u32::from_le_bytes(*stored), crc32c::crc32c(entries));
    // A fuzzer cannot guess checksums.
    if stored != found && !cfg!(fuzzing) {
        return Err(Error::corrupt(format!("bad checksum: stored {stored:#010x}, found {found:#010x}")));
    }
    Ok(entries)
}

fn numbers(entry: &[u8; 16], order: ByteOrder) -> [u64; 2] {
    let (halves, _) = entry.as_chunks::<8>();
    let number = |half: &[u8; 8]| match order {
        ByteOrder::Little => u64::from_le_bytes(*half),
        ByteOrder::Big => u64::from_be_bytes(*half),
    };
    [number(&halves[0]), number(&halves[1])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_numbered_over_all_shards_and_end_at_the_border() {
        let files = Grid { shape: vec![5, 7], chunk: vec![4, 6] };
        let shape = Shape { files: &files, all: vec![3, 3], within: vec![2, 2] };
        let numbers = |shard: &[u64]| -> Vec<_> { (0..4).map(|at| shape.number(shard, at)).collect() };
        assert_eq!(numbers(&[0, 0]), [Some(0), Some(1), Some(3), Some(4)]);
        assert_eq!(numbers(&[0, 1]), [Some(2), None, Some(5), None]);
        assert_eq!(numbers(&[1, 1]), [Some(8), None, None, None]);
    }
}
