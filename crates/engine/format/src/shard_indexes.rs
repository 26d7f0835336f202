//! The indexes of shards that were read.

use std::sync::OnceLock;

use forebay_container::{ShardIndex, SourceIndex};
use forebay_process::{Error, ErrorKind, Result};

/// The indexes that were read so far, by the source that is the shard: a source is a shard of one variable alone.
#[derive(Debug, Default)]
pub(crate) struct ShardIndexes(OnceLock<Box<[OnceLock<ShardIndex>]>>);

impl ShardIndexes {
    /// The place of the index of shard `source`, one of `source_count`.
    pub(crate) fn slot(&self, source: SourceIndex, source_count: usize) -> Result<&OnceLock<ShardIndex>> {
        let slots = self.0.get_or_init(|| (0..source_count).map(|_| OnceLock::new()).collect());
        let number = source.0 as usize;
        slots.get(number).ok_or_else(|| Error::new(ErrorKind::Bug, format!("no source {number}")))
    }
}
