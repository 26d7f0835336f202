//! What an area of this process has done, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters behind [`StageStats`](crate::StageStats).
#[derive(Debug, Default)]
pub(crate) struct StageCounters {
    pub(crate) staged_bytes: AtomicU64,
    pub(crate) staged_writes: AtomicU64,
    pub(crate) sealed_files: AtomicU64,
    pub(crate) published_files: AtomicU64,
    pub(crate) passed_through_bytes: AtomicU64,
    pub(crate) passed_through_writes: AtomicU64,
    pub(crate) drained_bytes: AtomicU64,
    pub(crate) drain_writes: AtomicU64,
    pub(crate) merged_writes: AtomicU64,
    pub(crate) destination_syncs: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// Adds `amount` to a counter.
pub(crate) fn count(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Relaxed);
}
