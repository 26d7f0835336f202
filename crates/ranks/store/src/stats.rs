//! What was read from where, and how long it took.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use forebay_process::{Histogram, LatencySummary};
use serde::Serialize;

/// What a store has read so far, as this rank sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreStats {
    /// This rank.
    pub rank: usize,
    /// Ranks of the job.
    pub ranks: usize,
    /// Ranks that hold the set between them.
    pub width: usize,
    /// How bytes travel.
    pub transport: String,
    /// On which threads the communicator may be called: `any` or `caller`.
    pub threads: &'static str,
    /// Variables.
    pub variables: usize,
    /// Bytes of samples that this rank holds.
    pub shard_bytes: u64,
    /// Bytes by which it knows where samples lie.
    pub registry_bytes: u64,
    /// Samples and bytes from this rank's own shard.
    pub own: ReadCount,
    /// From other ranks of the same host, by loads from shared memory.
    pub same_host: ReadCount,
    /// From ranks of other hosts.
    pub remote: ReadCount,
    /// How long single gets took.
    pub get_latency: LatencySummary,
    /// How long batches took.
    pub batch_latency: LatencySummary,
    /// Ranks that are known to run no more.
    pub gone: Vec<usize>,
}

impl StoreStats {
    /// Adds what `other`, a store of the same variables, has read; latencies and the transport stay as they are.
    pub(crate) fn add(&mut self, other: Self) {
        self.width = self.width.max(other.width);
        // Where one is bound to a thread, so is what reads both.
        if other.threads == "caller" {
            self.threads = other.threads;
        }
        self.shard_bytes += other.shard_bytes;
        self.registry_bytes += other.registry_bytes;
        let counts = [&mut self.own, &mut self.same_host, &mut self.remote];
        for (count, more) in counts.into_iter().zip([other.own, other.same_host, other.remote]) {
            count.samples += more.samples;
            count.bytes += more.bytes;
        }
        self.gone.extend(other.gone);
        self.gone.sort_unstable();
        self.gone.dedup();
    }
}

/// The texts, each once, in the order in which they came first.
pub(crate) fn each_once(texts: Vec<String>) -> String {
    let mut known: Vec<String> = Vec::new();
    for text in texts {
        if !known.contains(&text) {
            known.push(text);
        }
    }
    known.join(", ")
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReadCount {
    /// Samples.
    pub samples: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one call has read, counted without atomics.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) own: ReadCount,
    pub(crate) same_host: ReadCount,
    pub(crate) remote: ReadCount,
}

impl Traffic {
    pub(crate) fn count_shared(&mut self, is_own: bool, bytes: u64, is_first_run: bool) {
        let count = if is_own { &mut self.own } else { &mut self.same_host };
        count.bytes += bytes;
        count.samples += u64::from(is_first_run);
    }

    pub(crate) fn count_remote(&mut self, bytes: u64, samples: u64) {
        self.remote.bytes += bytes;
        self.remote.samples += samples;
    }
}

/// What all threads have read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    own: AtomicCount,
    same_host: AtomicCount,
    remote: AtomicCount,
    pub(crate) gets: Histogram,
    pub(crate) batches: Histogram,
}

#[derive(Debug, Default)]
struct AtomicCount {
    samples: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn add(&self, traffic: &Traffic) {
        self.own.add(traffic.own);
        self.same_host.add(traffic.same_host);
        self.remote.add(traffic.remote);
    }

    pub(crate) fn counts(&self) -> [ReadCount; 3] {
        [self.own.get(), self.same_host.get(), self.remote.get()]
    }
}

impl AtomicCount {
    fn add(&self, count: ReadCount) {
        if count.bytes > 0 || count.samples > 0 {
            self.samples.fetch_add(count.samples, Relaxed);
            self.bytes.fetch_add(count.bytes, Relaxed);
        }
    }

    fn get(&self) -> ReadCount {
        ReadCount { samples: self.samples.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_of_several_stores_is_named_once() {
        let transports = ["MPI, shared memory", "TCP", "MPI, shared memory", "TCP"].map(str::to_owned);
        assert_eq!(each_once(transports.into()), "MPI, shared memory, TCP");
    }
}
