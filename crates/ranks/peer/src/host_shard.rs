//! The memory of a host's part of a table, kept by the process that leads the ranks of the host.

use std::sync::Arc;

use forebay_process::Result;
use forebay_store::{ShardMemory, ShardPlace};

use crate::block_table::TableShape;

/// The part of one host: a table and its slots. It outlives the windows through which ranks read it.
#[derive(Debug)]
pub struct HostShard {
    pub(crate) memory: Arc<ShardMemory>,
    pub(crate) shape: TableShape,
}

impl HostShard {
    /// An empty part of `quota` bytes for blocks of at most `block_len`; memory is taken as it is used.
    pub fn new(quota: u64, block_len: u64, place: &ShardPlace) -> Result<Self> {
        let shape = TableShape::new(quota, block_len);
        let memory = Arc::new(ShardMemory::new(shape.byte_len(), place)?);
        Ok(Self { memory, shape })
    }

    /// True when it is one of blocks of `block_len`, and as large as a new one of `quota` bytes.
    pub fn has_room_for(&self, quota: u64, block_len: u64) -> bool {
        let wanted = TableShape::new(quota, block_len);
        self.shape.slot_len == wanted.slot_len && self.shape.slots >= wanted.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_serves_files_that_want_no_more_blocks_and_none_of_another_length() {
        let shard = HostShard::new(10 * 4096, 4096, &ShardPlace::Memory).unwrap();
        assert!(shard.has_room_for(10 * 4096 + 5, 4096) && shard.has_room_for(0, 4096));
        assert!(!shard.has_room_for(11 * 4096, 4096) && !shard.has_room_for(0, 8192));
        let empty = HostShard::new(100, 4096, &ShardPlace::Memory).unwrap();
        assert!(empty.has_room_for(4095, 4096) && !empty.has_room_for(4096, 4096));
    }
}
