//! How long the stored chunks of a variable are, as far as its description says.

use crate::{
    container::variable::Variable,
    extents::{Extents, chunk_table::ChunkTable, shards::Shards},
    grid::Grid,
};

/// How long the stored chunks of a variable are. Those in shards are taken as equally long: a shard's index, which says more,
/// is read only when values are.
#[derive(Clone, Copy, Debug)]
pub struct ChunkSizes<'a> {
    grid: &'a Grid,
    places: ChunkPlaces<'a>,
    /// Bytes of a decoded chunk.
    decoded_len: u64,
}

#[derive(Clone, Copy, Debug)]
enum ChunkPlaces<'a> {
    Listed(&'a ChunkTable),
    InShards(&'a Shards),
}

impl<'a> ChunkSizes<'a> {
    /// Those of `variable`, where it is stored in chunks.
    pub fn of(variable: &'a Variable) -> Option<Self> {
        let places = match &variable.extents {
            Extents::Chunks(table) => ChunkPlaces::Listed(table),
            Extents::Shards(shards) => ChunkPlaces::InShards(shards),
            _ => return None,
        };
        Some(Self { grid: &variable.grid, places, decoded_len: variable.chunk_len() })
    }

    /// Chunks that were written, or may have been.
    pub fn count(&self) -> u64 {
        match self.places {
            ChunkPlaces::Listed(table) => table.len() as u64,
            ChunkPlaces::InShards(shards) => shards.chunk_count(self.grid),
        }
    }

    /// Bytes of all of them.
    pub fn total(&self) -> u64 {
        match self.places {
            ChunkPlaces::Listed(table) => table.stored_len(),
            ChunkPlaces::InShards(shards) => shards.stored_len(self.grid),
        }
    }

    /// Bytes of one, on average, and at least 1.
    pub fn mean(&self) -> u64 {
        self.total().checked_div(self.count()).unwrap_or(0).max(1)
    }

    /// Bytes of the longest; in shards a little more than a decoded chunk has, which no filter exceeds by much.
    pub fn longest(&self) -> u64 {
        match self.places {
            ChunkPlaces::Listed(table) => table.longest_stored(),
            ChunkPlaces::InShards(shards) => {
                let most = self.decoded_len.saturating_add(self.decoded_len / 8).saturating_add(4096);
                shards.files.longest_stored().min(most)
            }
        }
    }

    /// Bytes of chunk `number`; 0 when it was never written.
    pub fn at(&self, number: u64) -> u64 {
        match self.places {
            ChunkPlaces::Listed(table) => table.get(number).map_or(0, |extent| extent.range.len()),
            ChunkPlaces::InShards(shards) => {
                shards.find(self.grid, number).map_or(0, |place| shards.mean_len(self.grid, place))
            }
        }
    }
}
