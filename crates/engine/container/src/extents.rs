//! Where a variable's values lie.

use serde::{Deserialize, Serialize};

use crate::{Boxes, ChunkTable, Mappings, Segments, Shards, SourceIndex};

/// What reads values that have no extents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opaque {
    /// The name of its reader: `libhdf5`.
    pub library: String,
    /// Why there are no extents, for `inspect` and messages.
    pub why: String,
    /// What the reader calls the variable: whatever it needs to find it.
    pub name: String,
    /// Which source the library opens.
    pub source: SourceIndex,
}

/// Where a variable's values lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extents {
    /// Chunk by chunk.
    Chunks(ChunkTable),
    /// Chunk by chunk, many in one file, by an index that each file has.
    Shards(Shards),
    /// The array is one chunk, laid end to end in segments of sources.
    Segments(Segments),
    /// In boxes that form no grid, each stored and filtered as a whole; what is in none has the fill value.
    Boxes(Boxes),
    /// In parts of other variables; later mappings lie over earlier ones.
    Mapped(Mappings),
    /// In the description itself, as stored elements in C order: what a format works out, such as labels and offsets.
    Inline(Vec<u8>),
    /// Nowhere we know: a library reads it.
    Opaque(Opaque),
}

impl Extents {
    /// True when every index in here points to something the container has.
    pub fn is_sound(&self, source_count: usize, part_count: usize) -> bool {
        match self {
            Self::Chunks(table) => table.is_sound(source_count),
            Self::Shards(shards) => shards.files.is_sound(source_count),
            Self::Segments(segments) => segments.is_sound(source_count),
            Self::Boxes(boxes) => boxes.is_sound(source_count),
            Self::Mapped(mappings) => mappings.iter().all(|mapping| mapping.is_sound(part_count)),
            Self::Inline(_) => true,
            Self::Opaque(opaque) => (opaque.source.0 as usize) < source_count,
        }
    }
}
