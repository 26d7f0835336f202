//! The blocks of all sources of a schedule, under one number.

use std::collections::HashMap;

use forebay_loader::Schedule;
use forebay_tier::{SourceBlocks, SourceKey};

/// The blocks of all sources, under one number.
#[derive(Debug)]
pub(super) struct BlockNumbers {
    pub(super) keys: Vec<SourceKey>,
    pub(super) by_key: HashMap<SourceKey, usize>,
    pub(super) blocks: Vec<SourceBlocks>,
    /// The first block of each source, and one past the last of all.
    pub(super) firsts: Vec<u64>,
}

impl BlockNumbers {
    /// The blocks of `block_len` of all sources of `schedule`.
    pub(super) fn new(schedule: &Schedule, block_len: u64) -> Self {
        let keys: Vec<_> = schedule.sources().iter().map(SourceKey::of).collect();
        let by_key = keys.iter().enumerate().map(|(source, key)| (*key, source)).collect();
        let blocks: Vec<_> =
            schedule.sources().iter().map(|id| SourceBlocks::new(id.len, block_len)).collect();
        let mut firsts = vec![0];
        let mut total = 0u64;
        for blocks in &blocks {
            total = total.saturating_add(blocks.count());
            firsts.push(total);
        }
        Self { keys, by_key, blocks, firsts }
    }

    /// How many blocks all sources have.
    pub(super) fn count(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }
}
