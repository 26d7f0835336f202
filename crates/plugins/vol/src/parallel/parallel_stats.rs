//! Counters of what was done for files that ranks have open together.

#![expect(unsafe_code, reason = "a C function that fills a caller's structure")]

use forebay_peer::PeerStats;
use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What this process has done, as `forebay_hdf5_parallel_stats` gives it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParallelCounters {
    /// Writes that were taken into this rank's log.
    pub staged_writes: u64,
    /// Their bytes.
    pub staged_bytes: u64,
    /// Writes that HDF5 made: filtered, late-allocated or otherwise unknown places.
    pub passed_writes: u64,
    /// Collective reads that every rank had in its cache or could fill on its own.
    pub served_collectives: u64,
    /// Collective reads that HDF5 made, as some rank needed it.
    pub passed_collectives: u64,
    /// Times at which all ranks brought their files up to date.
    pub settled: u64,
    /// Bytes that this rank has read from the file and placed where all ranks read them.
    pub shared_bytes: u64,
    /// Bytes of reads that came from what another rank of this host had placed.
    pub host_bytes: u64,
    /// Bytes of reads that came from ranks of other hosts.
    pub remote_bytes: u64,
    /// Reads of other hosts that failed, and went to the file instead.
    pub remote_faults: u64,
}

/// The counters of the process.
#[derive(Debug)]
pub(crate) struct ParallelStats {
    counts: [AtomicU64; 6],
    peers: LazyLock<Arc<PeerStats>>,
}

/// Those of this process.
pub(crate) static STATS: ParallelStats =
    ParallelStats { counts: [const { AtomicU64::new(0) }; 6], peers: LazyLock::new(Arc::default) };

impl ParallelStats {
    fn add(&self, index: usize, by: u64) {
        self.counts[index].fetch_add(by, Relaxed);
    }

    /// A write of `bytes` was accepted.
    pub(crate) fn staged(&self, bytes: u64) {
        self.add(0, 1);
        self.add(1, bytes);
    }

    /// A write was left to HDF5.
    pub(crate) fn passed(&self) {
        self.add(2, 1);
    }

    /// A collective read was served, or left to HDF5.
    pub(crate) fn collective(&self, is_served: bool) {
        self.add(if is_served { 3 } else { 4 }, 1);
    }

    /// All ranks have brought a file up to date.
    pub(crate) fn settled(&self) {
        self.add(5, 1);
    }

    /// Those of the cache that ranks have in common.
    pub(crate) fn peers(&self) -> &Arc<PeerStats> {
        &self.peers
    }

    /// The counts now.
    pub(crate) fn now(&self) -> ParallelCounters {
        let [staged_writes, staged_bytes, passed_writes, served_collectives, passed_collectives, settled] =
            std::array::from_fn(|index| self.counts[index].load(Relaxed));
        let peers = self.peers.counters();
        ParallelCounters {
            shared_bytes: peers.placed_bytes,
            host_bytes: peers.host_bytes,
            remote_bytes: peers.remote_bytes,
            remote_faults: peers.faults,
            staged_writes,
            staged_bytes,
            passed_writes,
            served_collectives,
            passed_collectives,
            settled,
        }
    }
}

/// Fills `into` with what this process has done for files that ranks have open together.
///
/// # Safety
/// `into` is null or has room for the counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_hdf5_parallel_stats(into: *mut ParallelCounters) {
    if !into.is_null() {
        // SAFETY: as promised by the caller.
        unsafe { *into = STATS.now() };
    }
}
