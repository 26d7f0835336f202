//! Where values of variable length lie that have only a reference in their place.

use serde::{Deserialize, Serialize};

use crate::extents::source_index::SourceIndex;

/// A heap of a source, such as HDF5's global heap: an element is stored as a count, an address and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Heap {
    /// Bytes of an address.
    pub offset_len: u8,
    /// Bytes of a length inside the heap.
    pub length_len: u8,
    /// What addresses count from.
    pub base: u64,
    /// The source the heap lies in.
    pub source: SourceIndex,
}

impl Heap {
    /// Bytes of one stored reference: count, address, index.
    pub fn reference_len(self) -> usize {
        usize::from(self.offset_len) + 8
    }
}
