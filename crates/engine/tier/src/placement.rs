//! How copies are placed: plain settings.

use std::time::Duration;

use crate::policy::ForesightHandle;

/// How copies are placed.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Bytes of a block.
    pub block_len: u64,
    /// Threads that fetch and place blocks.
    pub threads: usize,
    /// Whether the whole of a source is placed in the background once a part of it was read.
    pub whole_file: bool,
    /// The most bytes that are prefetched and held outside the tiers.
    pub ahead: u64,
    /// How long a source may be read from copies before the origin is asked whether it has changed.
    pub recheck: Duration,
    /// Whether copies are evicted for bytes that nobody asked for: the rest of a file, or of a block. Where they are not,
    /// what was placed stays, and a source that fits counts as near from the start.
    pub evicts_for_prefetch: bool,
    /// Whether what will be read is prefetched, where it is known; the rest of a file then does not follow a part of it,
    /// but for what other processes read.
    pub looks_ahead: bool,
    /// What is known of the future, shared with the tiers.
    pub foresight: ForesightHandle,
}

/// Requests of 1 MiB take 5 ms of a file system's 200 MiB/s and 2 ms of latency: larger ones gain less than a third,
/// and small reads then wait longer for them.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// Six requests at a time fill a file system of 200 MiB/s at 2 ms each three times over.
pub const THREADS: usize = 6;

/// A user who overwrites a set during a run gets an error within seconds, at the cost of one `open` per file in use and
/// interval.
pub const RECHECK: Duration = Duration::from_secs(10);

/// Somewhat more than a second of 200 MiB/s: a pause of the origin of that length delays no reader.
pub const AHEAD_BYTES: u64 = 256 << 20;

/// Part of a process's share that is prefetched at most, unless the user sets another amount.
const AHEAD_PART: u64 = 8;

impl Placement {
    /// Bytes that a process whose share of memory is `share` may prefetch; none where it does not look ahead.
    pub(crate) fn ahead_within(&self, share: u64) -> u64 {
        match self {
            Self { looks_ahead: false, .. } => 0,
            Self { ahead: AHEAD_BYTES, .. } => AHEAD_BYTES.min(share / AHEAD_PART),
            Self { ahead, .. } => *ahead,
        }
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            block_len: BLOCK_BYTES,
            threads: THREADS,
            whole_file: true,
            ahead: AHEAD_BYTES,
            recheck: RECHECK,
            evicts_for_prefetch: false,
            looks_ahead: true,
            foresight: ForesightHandle::default(),
        }
    }
}
