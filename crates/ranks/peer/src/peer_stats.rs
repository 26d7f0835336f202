//! Counters of reads and placements.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a process.
#[derive(Debug, Default)]
pub struct PeerStats {
    placed: AtomicU64,
    host: AtomicU64,
    remote: AtomicU64,
    faults: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Bytes that this process has placed for all ranks.
    pub placed_bytes: u64,
    /// Bytes that it has read which another rank of its host had placed.
    pub host_bytes: u64,
    /// Bytes that it has read from ranks of other hosts.
    pub remote_bytes: u64,
    /// Reads of other ranks that failed, and blocks that were not what their checksums say.
    pub faults: u64,
}

impl PeerStats {
    pub(crate) fn placed(&self, len: u64) {
        self.placed.fetch_add(len, Relaxed);
    }

    pub(crate) fn of_host(&self, len: u64) {
        self.host.fetch_add(len, Relaxed);
    }

    pub(crate) fn remote(&self, len: u64) {
        self.remote.fetch_add(len, Relaxed);
    }

    pub(crate) fn fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }

    /// The counters of now.
    pub fn counters(&self) -> PeerCounters {
        PeerCounters {
            placed_bytes: self.placed.load(Relaxed),
            host_bytes: self.host.load(Relaxed),
            remote_bytes: self.remote.load(Relaxed),
            faults: self.faults.load(Relaxed),
        }
    }
}
