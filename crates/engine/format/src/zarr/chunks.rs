//! Which of an array's chunk files are there.

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{ByteRange, SourceId};

use super::{array::Described, store::ZarrStore};
use forebay_container::{Extent, SourceIndex};

/// The files of an array, each a chunk or a shard of chunks: their numbers in the grid of files, and all their bytes.
pub(super) type Files = Vec<(u64, Extent)>;

/// An array by its path.
pub(super) type NamedArray<'a> = (&'a str, &'a Described);

/// Sorts `files` to the arrays they belong to; those that are chunks become sources, behind `root`.
pub(super) fn sort(
    store: &ZarrStore<'_>,
    files: Vec<SourceId>,
    arrays: &[NamedArray<'_>],
    root: SourceId,
) -> Result<(Vec<Files>, Vec<SourceId>)> {
    let by_path: HashMap<&str, usize> =
        arrays.iter().enumerate().map(|(index, (path, _))| (*path, index)).collect();
    let mut found: Vec<Files> = vec![Vec::new(); arrays.len()];
    // Files come sorted, so most belong to the array of the one before.
    let mut last: Option<usize> = None;
    let mut count = 0;
    let mut is_chunk = |id: &SourceId| {
        let key = store.key(&id.locator)?;
        let known = last.filter(|index| within(arrays[*index].0, key).is_some());
        let index = known.or_else(|| owner(&by_path, key))?;
        last = Some(index);
        let (path, described) = arrays[index];
        let number = described.keys.number(within(path, key)?, &described.files)?;
        count = u32::wrapping_add(count, 1);
        found[index].push((number, whole(count, id.len)));
        Some(())
    };
    // There may be a million of them: they stay where they are, and `root` takes the place of a document.
    let mut sources = files;
    sources.retain(|id| is_chunk(id).is_some());
    if u32::try_from(sources.len()).is_err() {
        return Err(Error::unsupported("more than 2^32 files"));
    }
    sources.insert(0, root);
    Ok((found, sources))
}

/// All of the source at `index`, which is `len` long.
fn whole(index: u32, len: u64) -> Extent {
    Extent { source: SourceIndex(index), range: ByteRange::at(0, len), skipped: 0 }
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

/// More files than this are not asked for one by one: that takes 20 s at 10 ms each, 32 at once.
const MOST_ASKED: u64 = 1 << 16;

/// Asks for each file that the array at `path` may have, where nobody lists them.
pub(super) fn ask(
    store: &ZarrStore<'_>,
    (path, described): NamedArray<'_>,
    sources: &mut Vec<SourceId>,
) -> Result<Files> {
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
        let index = u32::try_from(sources.len()).map_err(|_| Error::unsupported("more than 2^32 files"))?;
        found.push((number, whole(index, id.len)));
        sources.push(id);
    }
    Ok(found)
}
