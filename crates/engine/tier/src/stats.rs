//! What was read from where.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use serde::{Deserialize, Serialize};

/// What was read from where, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Each tier, from the top.
    pub tiers: Vec<TierStats>,
    /// The origin.
    pub origin: OriginStats,
    /// Blocks placed on a tier.
    pub placed: u64,
    /// Their bytes.
    pub placed_bytes: u64,
    /// Blocks that were fetched for a tier and that none kept.
    pub refused: u64,
    /// Blocks that were evicted from a tier and kept by one below it.
    pub demoted: u64,
    /// Reads that were served by what had been fetched ahead of them.
    pub ahead: u64,
    /// Bytes fetched ahead that are still held.
    pub ahead_bytes: u64,
    /// Time that readers waited for the origin, in nanoseconds.
    pub wait_ns: u64,
    /// Requests of readers that wait for a thread.
    pub waiting: u64,
    /// Sources of which more is to be placed.
    pub backlog: u64,
}

/// What was read from a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStats {
    /// Its name.
    pub name: String,
    /// Reads it served.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time, in nanoseconds; of whole copies one read in 16 is timed, for all of them.
    pub ns: u64,
    /// Bytes it holds.
    pub used: u64,
    /// The most bytes it may hold.
    pub quota: u64,
    /// Copies that were evicted for others.
    pub evicted: u64,
    /// Copies that could not be read, or were not what was put.
    pub faults: u64,
    /// Why it is not used at all, where it could not be opened.
    pub left_out: Option<String>,
}

/// What was read from the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginStats {
    /// Reads.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time, in nanoseconds.
    pub ns: u64,
}

impl Stats {
    /// Reads that the tiers spared the origin.
    pub fn saved(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.reads).sum()
    }

    /// The part of all bytes read that came from tiers; nothing before the first read.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn hit_ratio(&self) -> Option<f64> {
        let near: u64 = self.tiers.iter().map(|tier| tier.bytes).sum();
        let all = near.saturating_add(self.origin.bytes);
        (all > 0).then(|| near as f64 / all as f64)
    }

    /// What was read since `before`; what is held is as it is now.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let tiers = self.tiers.iter().enumerate().map(|(index, tier)| {
            let nothing = TierStats::default();
            let before = before.tiers.get(index).unwrap_or(&nothing);
            TierStats {
                name: tier.name.clone(),
                left_out: tier.left_out.clone(),
                reads: tier.reads.saturating_sub(before.reads),
                bytes: tier.bytes.saturating_sub(before.bytes),
                ns: tier.ns.saturating_sub(before.ns),
                evicted: tier.evicted.saturating_sub(before.evicted),
                faults: tier.faults.saturating_sub(before.faults),
                ..*tier
            }
        });
        Self {
            tiers: tiers.collect(),
            origin: OriginStats {
                reads: self.origin.reads.saturating_sub(before.origin.reads),
                bytes: self.origin.bytes.saturating_sub(before.origin.bytes),
                ns: self.origin.ns.saturating_sub(before.origin.ns),
            },
            placed: self.placed.saturating_sub(before.placed),
            placed_bytes: self.placed_bytes.saturating_sub(before.placed_bytes),
            refused: self.refused.saturating_sub(before.refused),
            demoted: self.demoted.saturating_sub(before.demoted),
            ahead: self.ahead.saturating_sub(before.ahead),
            wait_ns: self.wait_ns.saturating_sub(before.wait_ns),
            ..*self
        }
    }
}

/// Reads, their bytes and their time, counted by many threads that do not wait for each other.
#[derive(Debug, Default)]
pub(crate) struct ReadCounters {
    shards: [ReadShard; SHARDS],
}

/// Counters that lie in lines of memory of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ReadShard {
    pub(crate) reads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) ns: AtomicU64,
}

const SHARDS: usize = 16;

/// The number of the next thread that counts.
static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: usize = NEXT.fetch_add(1, Relaxed) % SHARDS;
}

impl ReadCounters {
    /// Counts `count` reads of `bytes` in all that took `ns`.
    #[inline]
    pub(crate) fn count(&self, count: u64, bytes: u64, ns: u64) {
        // A thread that is ending has no number any more.
        let shard = &self.shards[NUMBER.try_with(|number| *number).unwrap_or(0)];
        shard.reads.fetch_add(count, Relaxed);
        shard.bytes.fetch_add(bytes, Relaxed);
        shard.ns.fetch_add(ns, Relaxed);
    }

    /// Counts `count` reads of `bytes` in all that began at `began`.
    pub(crate) fn add(&self, count: u64, bytes: u64, began: Instant) {
        self.count(count, bytes, nanos(began));
    }

    /// The sum of what `counter` picks.
    pub(crate) fn sum(&self, counter: impl Fn(&ReadShard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| counter(shard).load(Relaxed)).sum()
    }
}

pub(crate) fn nanos(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// What is counted while others read.
#[derive(Debug, Default)]
pub(crate) struct TierCounters {
    pub(crate) tiers: Vec<ReadCounters>,
    pub(crate) origin: ReadCounters,
    pub(crate) placed: AtomicU64,
    pub(crate) placed_bytes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) demoted: AtomicU64,
    pub(crate) ahead: AtomicU64,
    pub(crate) wait_ns: AtomicU64,
}
