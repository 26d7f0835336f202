//! Chunks listed in B-trees.

use forebay_process::{Error, Result};

use super::chunk_list::{IndexedArray, IndexedChunk, Pairs};
use crate::{
    cursor::MetadataCursor,
    tree_v1::{self, TreeKeys},
    tree_v2::TreeV2,
};

/// Version 1: keys hold the length, the mask and the offset of the chunk in elements.
pub(crate) fn tree_v1(of: &IndexedArray<'_>, root: u64, pairs: &mut Pairs<'_>) -> Result<()> {
    let ndim = of.grid.shape.len();
    let mut at = vec![0; ndim];
    tree_v1::walk(of.file, root, TreeKeys::Chunks { ndim }, &mut |key, address| {
        let mut cursor = MetadataCursor::new(key, of.file.sizes);
        let len = u64::from(cursor.u32()?);
        let mask = cursor.u32()?;
        for (at, chunk) in at.iter_mut().zip(&of.grid.chunk) {
            let offset = cursor.u64()?;
            if offset % chunk != 0 {
                return Err(Error::corrupt(format!("a chunk at offset {offset}, not a multiple of {chunk}")));
            }
            *at = offset / chunk;
        }
        pairs.push(&at, IndexedChunk { address, len, mask })
    })
}

/// Version 2: records hold the address, for filtered chunks length and mask, and the place in chunks.
pub(crate) fn tree_v2(of: &IndexedArray<'_>, address: u64, pairs: &mut Pairs<'_>) -> Result<()> {
    let ndim = of.grid.shape.len();
    let tree = TreeV2::open(of.file, address)?;
    let fixed = u64::from(of.file.sizes.offset) + 8 * ndim as u64;
    let size_len = match tree.kind {
        10 if tree.record_len == fixed => None,
        11 if (fixed + 5..=fixed + 12).contains(&tree.record_len) => Some(tree.record_len - fixed - 4),
        kind => {
            return Err(Error::corrupt(format!(
                "chunks in a B-tree of kind {kind}, records of {}",
                tree.record_len
            )));
        }
    };
    let mut at = vec![0; ndim];
    tree.walk(of.file, &mut |record| {
        let mut cursor = MetadataCursor::new(record, of.file.sizes);
        let address = cursor.some_address("a chunk")?;
        let (mut len, mut mask) = (of.chunk_len, 0);
        if let Some(size_len) = size_len {
            len = cursor.uint(usize::try_from(size_len).unwrap_or(8))?;
            mask = cursor.u32()?;
        }
        for at in &mut at {
            *at = cursor.u64()?;
        }
        pairs.push(&at, IndexedChunk { address, len, mask })
    })
}
