//! Where a variable's values lie.
//!
//! | file | idea |
//! |---|---|
//! | `chunk_table`, `source_index` | chunks, each with its source and range |
//! | `segments` | segments that are one array when laid end to end |
//! | `heap` | values of variable length |
//! | `shards` | chunks in shards, each with an index |
//! | `boxes`, `box_layout` | boxes that form no grid |
//! | `mapping`, `mappings`, `interval_tree` | parts of other variables; which of many boxes a selection may touch |

pub(crate) mod box_layout;
pub(crate) mod boxes;
pub(crate) mod chunk_table;
pub(crate) mod heap;
pub(crate) mod interval_tree;
pub mod mapping;
pub(crate) mod mappings;
pub(crate) mod segments;
pub(crate) mod shards;
pub(crate) mod source_index;

use serde::{Deserialize, Serialize};

use crate::extents::{
    boxes::Boxes, chunk_table::ChunkTable, mappings::Mappings, segments::Segments, shards::Shards,
    source_index::SourceIndex,
};

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
