//! What the cache has done, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one process.
#[derive(Debug, Default)]
pub(crate) struct CacheStats {
    hit_bytes: AtomicU64,
    filled_bytes: AtomicU64,
    passed_bytes: AtomicU64,
    kept_bytes: AtomicU64,
    refused_bytes: AtomicU64,
}

/// The counters at one moment, in the order of `forebay_hdf5_stats_t` in the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Bytes of reads that came from the cache.
    pub hit_bytes: u64,
    /// Bytes that were read from files to fill units.
    pub filled_bytes: u64,
    /// Bytes of reads that went to the connector below as they were.
    pub passed_bytes: u64,
    /// Bytes that were put into the tier.
    pub kept_bytes: u64,
    /// Bytes that the tier had no room for, or whose file had changed.
    pub refused_bytes: u64,
    /// Bytes that the tier holds.
    pub used_bytes: u64,
    /// The most it may hold.
    pub quota_bytes: u64,
}

impl CacheStats {
    /// Bytes of a read came from the cache.
    pub(crate) fn hit(&self, len: u64) {
        self.hit_bytes.fetch_add(len, Relaxed);
    }

    /// Bytes were read to fill units.
    pub(crate) fn filled(&self, len: u64) {
        self.filled_bytes.fetch_add(len, Relaxed);
    }

    /// Bytes of a read went past the cache.
    pub(crate) fn passed(&self, len: u64) {
        self.passed_bytes.fetch_add(len, Relaxed);
    }

    /// Bytes were put into the tier.
    pub(crate) fn kept(&self, len: usize) {
        self.kept_bytes.fetch_add(len as u64, Relaxed);
    }

    /// Bytes were not put there.
    pub(crate) fn refused(&self, len: usize) {
        self.refused_bytes.fetch_add(len as u64, Relaxed);
    }

    /// The counters of now; the tier's own are not known here.
    pub(crate) fn counters(&self) -> CacheCounters {
        CacheCounters {
            hit_bytes: self.hit_bytes.load(Relaxed),
            filled_bytes: self.filled_bytes.load(Relaxed),
            passed_bytes: self.passed_bytes.load(Relaxed),
            kept_bytes: self.kept_bytes.load(Relaxed),
            refused_bytes: self.refused_bytes.load(Relaxed),
            ..CacheCounters::default()
        }
    }
}
