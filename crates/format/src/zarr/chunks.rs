//! Which of an array's chunk files are there.

use std::collections::HashMap;

use forebay_source::{ByteRange, Error, ErrorKind, Result, SourceId};

use super::{array::Described, json::unsupported, store::Store};
use crate::{Extent, SourceIndex};

/// A file of an array: a chunk, or a shard of chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkFile {
    /// Its number in the grid of files.
    pub(super) number: u64,
    pub(super) source: SourceIndex,
    pub(super) len: u64,
}

impl ChunkFile {
    /// All of it.
    pub(super) fn extent(&self) -> Extent {
        Extent { source: self.source, range: ByteRange::at(0, self.len), skipped: 0 }
    }
}

/// An array by its path.
pub(super) type Placed<'a> = (&'a str, &'a Described);

/// Sorts `files` to the arrays they belong to; those that are chunks become sources.
pub(super) fn sort(
    store: &Store<'_>,
    files: Vec<SourceId>,
    arrays: &[Placed<'_>],
    sources: &mut Vec<SourceId>,
) -> Result<Vec<Vec<ChunkFile>>> {
    let by_path: HashMap<&str, usize> =
        arrays.iter().enumerate().map(|(index, (path, _))| (*path, index)).collect();
    let mut found: Vec<Vec<ChunkFile>> = vec![Vec::new(); arrays.len()];
    // Files come sorted, so most belong to the array of the one before.
    let mut last: Option<usize> = None;
    for id in files {
        let Some(key) = store.key(&id.locator) else { continue };
        let Some(index) =
            last.filter(|index| within(arrays[*index].0, key).is_some()).or_else(|| owner(&by_path, key))
        else {
            continue;
        };
        last = Some(index);
        let (path, described) = arrays[index];
        let Some(number) = within(path, key).and_then(|key| described.keys.number(key, &described.files))
        else {
            continue;
        };
        let len = id.len;
        found[index].push(ChunkFile { number, source: add(sources, id)?, len });
    }
    Ok(found)
}

/// The key of what lies in the array at `path`.
fn within<'k>(path: &str, key: &'k str) -> Option<&'k str> {
    if path.is_empty() { Some(key) } else { key.strip_prefix(path)?.strip_prefix('/') }
}

/// The array that `key` lies in.
fn owner(by_path: &HashMap<&str, usize>, key: &str) -> Option<usize> {
    let folders = key.match_indices('/').map(|(at, _)| &key[..at]);
    std::iter::once("").chain(folders).find_map(|path| by_path.get(path).copied())
}

fn add(sources: &mut Vec<SourceId>, id: SourceId) -> Result<SourceIndex> {
    let index = u32::try_from(sources.len()).map_err(|_| unsupported("more than 2^32 files"))?;
    sources.push(id);
    Ok(SourceIndex(index))
}

/// More files than this are not asked for one by one: that takes 20 s at 100 ms each, 32 at once.
const MOST_ASKED: u64 = 1 << 16;

/// Asks for each file that the array at `path` may have, where nobody lists them.
pub(super) fn ask(
    store: &Store<'_>,
    (path, described): Placed<'_>,
    sources: &mut Vec<SourceId>,
) -> Result<Vec<ChunkFile>> {
    let grid = &described.files;
    let count = grid.chunk_count();
    if count > MOST_ASKED {
        let what = format!("{count} chunks at a place that does not list them");
        return Err(
            Error::new(ErrorKind::Unsupported, what).hint("read it from an object store or a local copy")
        );
    }
    let numbers: Vec<u64> = (0..count).collect();
    let slash = if path.is_empty() { "" } else { "/" };
    let answers = store.each(&numbers, |number| {
        let key = described.keys.name(&grid.chunk_at(*number));
        Ok(store.open(&format!("{path}{slash}{key}"))?.map(|source| source.id().clone()))
    })?;
    let mut found = Vec::new();
    for (number, id) in numbers.into_iter().zip(answers) {
        let id: Option<SourceId> = id?;
        let Some(id) = id else { continue };
        let len = id.len;
        found.push(ChunkFile { number, source: add(sources, id)?, len });
    }
    Ok(found)
}
