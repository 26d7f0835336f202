//! The six ways an HDF5 file says where its chunks are, each ending in the same chunk table.

mod chunk_list;
mod extensible_array;
mod fixed_array;
mod trees;

use forebay_process::{Error, Result};

use forebay_container::ChunkTable;

use crate::message::layout::{ChunkedLayout, Index};
pub(crate) use chunk_list::IndexedArray;
use chunk_list::{ChunkNumbering, IndexedChunk, Pairs};

impl IndexedArray<'_> {
    /// The chunk table of the array.
    pub(crate) fn table(&self, layout: &ChunkedLayout) -> Result<ChunkTable> {
        let mut pairs = Pairs { of: self, found: Vec::new() };
        let Some(address) = layout.address else {
            return ChunkTable::new(Vec::new(), self.grid.chunk_count());
        };
        match &layout.index {
            Index::TreeV1 => trees::tree_v1(self, address, &mut pairs)?,
            Index::TreeV2 => trees::tree_v2(self, address, &mut pairs)?,
            Index::Single { filtered } => {
                let (len, mask) = filtered.unwrap_or((self.chunk_len, 0));
                pairs.push(&vec![0; self.grid.shape.len()], IndexedChunk { address, len, mask })?;
            }
            Index::Implicit => self.implicit(address, &mut pairs)?,
            Index::FixedArray => fixed_array::read(self, address, &mut pairs)?,
            Index::ExtensibleArray => extensible_array::read(self, address, &mut pairs)?,
        }
        ChunkTable::new(pairs.found, self.grid.chunk_count())
    }

    /// Chunks end to end, in the order of the largest grid the array may have.
    fn implicit(&self, address: u64, pairs: &mut Pairs<'_>) -> Result<()> {
        let order = ChunkNumbering::row_major(self);
        for number in 0..self.grid.chunk_count() {
            let at = self.grid.chunk_at(number);
            let place = order.position(&at).and_then(|position| position.checked_mul(self.chunk_len));
            let address = place.and_then(|offset| address.checked_add(offset));
            let address = address.ok_or_else(|| Error::corrupt("a chunk beyond 64 bits"))?;
            // No index has to be read, and any number of arrays may lie over the same bytes.
            self.file.spend(IMPLICIT_BYTES)?;
            pairs.push(&at, IndexedChunk { address, len: self.chunk_len, mask: 0 })?;
        }
        Ok(())
    }
}

/// What a chunk that stands in no index counts as: half of what a file of chunks of one byte may spend.
const IMPLICIT_BYTES: u64 = 16;
