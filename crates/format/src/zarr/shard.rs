//! Shards: files of many chunks, whose index says where in the file each of them lies.
//!
//! ```text
//!   chunk │ chunk │ … │ { offset u64 │ length u64 } per chunk, in C order │ CRC32C
//! ```
//! A chunk that was never written has both numbers all ones. The index may also stand at the start.

use forebay_source::{ByteRange, Result, SourceExt, SourceId};

use super::{array::Described, chunks::ChunkFile, codec::ShardIndex, json::corrupt, store::Store};
use crate::{ByteOrder, Extent, Grid};

/// Bytes of one entry.
const ENTRY_LEN: u64 = 16;
const CHECKSUM_LEN: u64 = 4;

/// Where the chunks in `files` lie, by number, in the order of `files`.
pub(super) fn chunks(
    store: &Store<'_>,
    described: &Described,
    index: ShardIndex,
    files: &[ChunkFile],
    sources: &[SourceId],
) -> Result<Vec<(u64, Extent)>> {
    let shape = Shape::of(described);
    let read = store.each(files, |file| {
        let id = &sources[file.source.0 as usize];
        one(store, &shape, index, file, id).map_err(|error| error.at(&id.locator))
    })?;
    let mut pairs = Vec::new();
    for chunks in read {
        pairs.extend(chunks?);
    }
    Ok(pairs)
}

/// How chunks lie in shards.
struct Shape<'a> {
    /// The array in chunks.
    grid: &'a Grid,
    /// The array in shards.
    files: &'a Grid,
    /// One shard in chunks.
    within: Grid,
}

impl<'a> Shape<'a> {
    fn of(described: &'a Described) -> Self {
        let within = Grid { shape: described.files.chunk.clone(), chunk: described.grid.chunk.clone() };
        Self { grid: &described.grid, files: &described.files, within }
    }

    /// The number of the chunk that has `position` others before it in shard `file`; `None` beyond the border.
    fn number(&self, file: &[u64], position: u64) -> Option<u64> {
        let counts = self.within.chunks();
        let at: Option<Vec<u64>> = file
            .iter()
            .zip(&counts)
            .zip(self.within.chunk_at(position))
            .map(|((file, count), at)| file.checked_mul(*count)?.checked_add(at))
            .collect();
        self.grid.chunk_number(&at?)
    }
}

fn one(
    store: &Store<'_>,
    shape: &Shape<'_>,
    index: ShardIndex,
    file: &ChunkFile,
    id: &SourceId,
) -> Result<Vec<(u64, Extent)>> {
    let count = shape.within.chunk_count();
    let entries_len = count.checked_mul(ENTRY_LEN);
    let index_len =
        entries_len.and_then(|len| len.checked_add(if index.has_checksum { CHECKSUM_LEN } else { 0 }));
    let index_len = index_len.filter(|len| *len <= file.len).ok_or_else(|| {
        corrupt(format!("a shard of {} bytes is too short for an index of {count} chunks", file.len))
    })?;
    let start = if index.is_at_start { 0 } else { file.len - index_len };
    let bytes = store.open_known(id)?.fetch_one(ByteRange::at(start, index_len))?;
    let entries = checked(&bytes, index).map_err(|error| error.at(format!("index at {start:#x}")))?;
    let at = shape.files.chunk_at(file.number);
    let mut found = Vec::new();
    for (position, entry) in (0..count).zip(entries.as_chunks::<16>().0) {
        let [offset, len] = numbers(entry, index.order);
        if (offset, len) == (u64::MAX, u64::MAX) {
            continue;
        }
        let Some(number) = shape.number(&at, position) else { continue };
        let range = ByteRange::checked(offset, len, file.len)
            .map_err(|error| error.at(format!("chunk {position} of the index at {start:#x}")))?;
        found.push((number, Extent { source: file.source, range, skipped: 0 }));
    }
    Ok(found)
}

/// The entries of an index, without a checksum, which must be right.
fn checked(bytes: &[u8], index: ShardIndex) -> Result<&[u8]> {
    if !index.has_checksum {
        return Ok(bytes);
    }
    let (entries, stored) = bytes.split_last_chunk().ok_or_else(|| corrupt("no checksum"))?;
    let (stored, found) = (u32::from_le_bytes(*stored), crc32c::crc32c(entries));
    // A fuzzer cannot guess checksums.
    if stored != found && !cfg!(fuzzing) {
        return Err(corrupt(format!("bad checksum: stored {stored:#010x}, found {found:#010x}")));
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
