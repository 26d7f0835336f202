//! What a loader did, counted while it runs.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What a loader did so far.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct LoaderStats { $($(#[$doc])* pub $name: u64,)* }

        impl LoaderStats {
            /// The sum of both.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($name: self.$name.saturating_add(other.$name),)* }
            }

            /// What was done since it was `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
        }

        /// Counters that many threads add to.
        #[derive(Debug, Default)]
        pub struct LoaderCounters { $($(#[$doc])* pub $name: AtomicU64,)* }

        impl LoaderCounters {
            /// The counts now.
            pub fn stats(&self) -> LoaderStats {
                LoaderStats { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Batches handed to the consumer.
    batches,
    /// Samples in them.
    samples,
    /// Bytes in them.
    delivered_bytes,
    /// Bytes asked of the sources.
    read_bytes,
    /// Requests for them, as far as the loader can see: near ones may still have been joined below.
    requests,
    /// Bytes that came out of the filters.
    decoded_bytes,
    /// Units, chunks as a rule, that were read and decoded.
    decoded_units,
    /// Units that had been decoded before and were lost for want of room.
    decoded_again,
    /// Bytes written to the spill.
    spilled_bytes,
    /// Bytes read back from it.
    unspilled_bytes,
    /// Samples left out because they could not be read.
    skipped,
    /// Batches of which no sample could be read.
    skipped_batches,
    /// Samples another stood in for because they could not be read.
    substituted,
    /// Time in which threads read, in nanoseconds, over all threads.
    read_ns,
    /// Time in which threads decoded.
    decode_ns,
    /// Time in which threads copied into batches.
    copy_ns,
    /// Time in which threads waited for the consumer to take a batch.
    full_ns,
    /// Time in which threads waited for memory of batches that the consumer has yet to let go.
    memory_ns,
    /// Time in which the consumer waited for a batch.
    wait_ns,
}

impl LoaderCounters {
    /// Adds the time since `began` to `counter`, and gives the time it is now.
    pub fn lap(counter: &AtomicU64, began: Instant) -> Instant {
        let now = Instant::now();
        counter.fetch_add(nanos(now - began), Relaxed);
        now
    }

    /// Adds `count` to `counter`.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }
}

/// Whole nanoseconds.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl LoaderStats {
    /// Which stage limited the run, by where time went.
    pub fn bottleneck(&self) -> Bottleneck {
        if self.wait_ns.saturating_mul(10) < self.full_ns.saturating_add(self.memory_ns) {
            return Bottleneck::Consumer;
        }
        match self.read_ns.max(self.decode_ns).max(self.copy_ns).max(self.memory_ns) {
            0 => Bottleneck::Nothing,
            most if most == self.memory_ns => Bottleneck::Memory,
            most if most == self.decode_ns => Bottleneck::Decode,
            most if most == self.read_ns => Bottleneck::Read,
            _ => Bottleneck::Copy,
        }
    }
}

/// The stage that limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Nothing ran.
    Nothing,
    /// Reading bytes.
    Read,
    /// Undoing filters.
    Decode,
    /// Copying into batches: memory is the limit.
    Copy,
    /// The limit on memory: batches that could be made ahead wait for room.
    Memory,
    /// The consumer: batches wait for it.
    Consumer,
}

impl Bottleneck {
    /// A sentence for people.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Nothing => "nothing was loaded",
            Self::Read => {
                "reading limits: more read threads, a larger transfer size or a nearer place would help"
            }
            Self::Decode => "decoding limits: more read threads, or a faster filter in the files would help",
            Self::Copy => "copying limits: this is as fast as the memory of this machine goes",
            Self::Memory => "memory limits: batches wait for room; a higher memory= would help",
            Self::Consumer => "the consumer limits: batches wait for it",
        }
    }
}
