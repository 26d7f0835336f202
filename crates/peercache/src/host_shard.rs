//! The memory of a host's part of the cache, kept by the process that leads the ranks of the host.

use std::sync::Arc;

use forebay_source::Result;
use forebay_store::{ShardMemory, ShardPlace};

use crate::host_table::HostTableShape;

/// The part of one host: a table and its slots. It outlives the windows through which ranks read it.
#[derive(Debug)]
pub struct HostShard {
    pub(crate) memory: Arc<ShardMemory>,
    pub(crate) shape: HostTableShape,
}

impl HostShard {
    /// An empty part of `quota` bytes for blocks of at most `block_len`; memory is taken as it is used.
    pub fn new(quota: u64, block_len: u64, place: &ShardPlace) -> Result<Self> {
        let shape = HostTableShape::new(quota, block_len);
        let memory = Arc::new(ShardMemory::new(shape.byte_len(), place)?);
        Ok(Self { memory, shape })
    }

    /// The length of a block, at most.
    pub fn block_len(&self) -> u64 {
        self.shape.slot_len
    }
}
