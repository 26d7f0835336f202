//! An array as both versions describe it, before its chunks are looked for.

use forebay_process::{Error, Result};

use super::{codec::Objects, element::ZarrElement, key::Keys};
use forebay_container::{Attribute, Filter, Grid, ShardIndexForm};

/// An array as both versions describe it.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) element: ZarrElement,
    /// What a special meaning of elements is called, for callers that read the numbers.
    pub(super) note: Option<String>,
    /// The array and its chunks: the smallest ones that are decoded by themselves.
    pub(super) grid: Grid,
    /// The array and what one file holds of it: a chunk, or a shard of them.
    pub(super) files: Grid,
    pub(super) keys: Keys,
    pub(super) filters: Vec<Filter>,
    /// One stored element; empty for zeros.
    pub(super) fill: Vec<u8>,
    /// True when nothing says what was never written.
    pub(super) has_no_fill: bool,
    /// Set where files are shards.
    pub(super) shard: Option<ShardIndexForm>,
    /// Set where elements are objects of any length.
    pub(super) objects: Option<Objects>,
    pub(super) dimensions: Vec<String>,
    pub(super) attributes: Vec<Attribute>,
}

/// The grid of `shape` in chunks of `chunk`, where that is one that can be counted.
pub(super) fn grid(shape: Vec<u64>, mut chunk: Vec<u64>) -> Result<Grid> {
    if shape.len() != chunk.len() {
        return Err(Error::corrupt(format!("{} axes in chunks of {}", shape.len(), chunk.len())));
    }
    for (len, chunk) in shape.iter().zip(&mut chunk) {
        match (*len, *chunk) {
            // Nothing along this axis yet.
            (0, 0) => *chunk = 1,
            (_, 0) => return Err(Error::corrupt("chunks of length 0")),
            _ => {}
        }
    }
    let grid = Grid { shape, chunk };
    if grid.element_count() == u64::MAX || grid.chunk_count() == u64::MAX {
        return Err(Error::unsupported("more elements than can be counted"));
    }
    Ok(grid)
}

/// Names of axes, if there is one for each; an axis without a name has an empty one.
pub(super) fn dimensions(names: Option<&serde_json::Value>, ndim: usize) -> Vec<String> {
    let names = names.and_then(serde_json::Value::as_array).filter(|names| names.len() == ndim);
    let names: Vec<String> =
        names.into_iter().flatten().map(|name| name.as_str().unwrap_or_default().to_owned()).collect();
    if names.iter().all(String::is_empty) { Vec::new() } else { names }
}
