//! What the loader does for latency alone, each part with a switch: batches are the same without it.
//!
//! `FOREBAY_LOADER_TUNING` names the parts that are on, such as `spin,prefetch`; `none` switches all off, and by default all
//! are on. It is for developers who measure what each is worth on their machine, and read when a loader is made.
//!
//! | part | what it does | measured, in parts of a mapped copy of 8 KiB samples (W1), one thread, 2 cores |
//! |---|---|---|
//! | `spin` | a consumer with a processor to itself stays awake for 200 us | 0.78, and 0.75 without |
//! | `prefetch` | sources and units are asked for their bytes shortly before these are copied | 0.83, and 0.75 without |
//! | `late_verify` | a consumer that waits asks the files of its batch whether they changed | 25 us of 155 us a batch (60 files) |
//!
//! Gains of this size show on a quiet machine alone. On a virtual one with busy neighbours (2026-11, best of 7 rounds in turns)
//! W1 gave 1.02 M samples/s with all parts, 1.01 M without `spin`, 1.03 M without `prefetch` and 1.05 M with none: no difference.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{Duration, Instant},
};

use forebay_source::{ByteRange, Source, prefetch};

use crate::{
    layout::{Storage, walk::FieldRead},
    set::column::SampleAt,
};

/// The environment variable that names the parts that are on.
const VARIABLE: &str = "FOREBAY_LOADER_TUNING";

/// Batches of a megabyte follow each other within 150 us, and to wake a consumer takes the thread that makes them 1.5 us. A
/// consumer that stays awake that long drops the batch it had the sooner, and its memory is filled again while the
/// processor still has it in its cache.
const SPIN: Duration = Duration::from_micros(200);

/// Bytes of a batch that are prefetched before there is memory for them. 8 KiB samples with none, 16, 32 and 64 KiB: 0.75,
/// 0.77, 0.78 and 0.83 of a mapped copy.
const PREFETCH_BYTES: u64 = 64 << 10;

/// Bytes that a source is sure to prefetch when it expects a range.
const EXPECTED_BYTES: usize = 512;

/// Which parts are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuning {
    pub(crate) spin: bool,
    pub(crate) prefetch: bool,
    pub(crate) late_verify: bool,
}

impl Tuning {
    /// What the environment says.
    pub(crate) fn from_env() -> Self {
        std::env::var(VARIABLE)
            .map_or_else(|_| Self::parse("spin,prefetch,late_verify"), |named| Self::parse(&named))
    }

    fn parse(named: &str) -> Self {
        let has = |part: &str| named.split(',').any(|one| one.trim() == part);
        Self { spin: has("spin"), prefetch: has("prefetch"), late_verify: has("late_verify") }
    }

    /// Has the processor fetch the first of `bytes` into its cache.
    pub(crate) fn prefetch(self, bytes: &[u8]) {
        if self.prefetch {
            prefetch(bytes);
        }
    }

    /// Tells `source` that `range` is copied next.
    pub(crate) fn expect(self, source: &dyn Source, range: ByteRange) {
        if self.prefetch {
            source.will_read(range);
        }
    }

    /// Tells the source of `field` which samples are copied first, before there is memory for them: a consumer that was just
    /// given a batch drops the one it had, and what is taken of the arena then is still in the processor's cache.
    pub(crate) fn expect_first(self, field: FieldRead<'_>, located: &[Option<SampleAt>]) {
        let ([part], [Storage::Rows(rows)]) = (&field.column.parts[..], &field.layout.parts[..]) else {
            return;
        };
        let Some(source) = rows.source().filter(|_| self.prefetch) else { return };
        let mut left = PREFETCH_BYTES;
        for located in located.iter().flatten() {
            let Some(range) = rows.range(part, located.number, 0) else { return };
            let wanted = range.len().min(left);
            for start in (range.start..range.start + wanted).step_by(EXPECTED_BYTES) {
                source.will_read(ByteRange { start, end: range.end });
            }
            left -= wanted;
            if left == 0 {
                return;
            }
        }
    }
}

/// Which batch a consumer waits for, seen by the threads, and which is there, seen by the consumer: without a lock.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// One more than the batch that the consumer waits for at this moment; 0 where it waits for none.
    awaited: AtomicU64,
    /// One more than the last batch that was finished when the consumer was to get it next.
    front: AtomicU64,
    /// True when a consumer that spins takes no processor from the threads.
    spins: bool,
    late_verify: bool,
}

impl Waiting {
    /// Nobody waits yet; `has_processor` says whether the consumer has one that no thread needs.
    pub(crate) fn new(tuning: Tuning, has_processor: bool) -> Self {
        let (awaited, front) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { awaited, front, spins: tuning.spin && has_processor, late_verify: tuning.late_verify }
    }

    /// Says that the consumer waits for batch `step`.
    pub(crate) fn begin(&self, step: u64) {
        self.awaited.store(step + 1, Relaxed);
    }

    /// Says that the consumer waits no more.
    pub(crate) fn end(&self) {
        self.awaited.store(0, Relaxed);
    }

    /// True when the consumer waits for some batch.
    pub(crate) fn is_waiting(&self) -> bool {
        self.awaited.load(Relaxed) > 0
    }

    /// True when the consumer waits for batch `step` and so has the time to verify it, while the next is begun.
    pub(crate) fn may_verify(&self, step: u64) -> bool {
        self.late_verify && self.awaited.load(Relaxed) == step + 1
    }

    /// Says that batch `step`, which the consumer gets next, is there.
    pub(crate) fn finish(&self, step: u64) {
        self.front.store(step + 1, Release);
    }

    /// True when a consumer stays awake for a while.
    pub(crate) fn spins(&self) -> bool {
        self.spins
    }

    /// Stays awake until batch `step` is there, the run is stopped, or `patience` or the time to spin is over.
    pub(crate) fn spin(&self, step: u64, stop: &AtomicBool, patience: Duration) {
        let (began, patience) = (Instant::now(), SPIN.min(patience));
        while self.front.load(Acquire) <= step && !stop.load(Relaxed) {
            if began.elapsed() >= patience {
                return;
            }
            // To read the clock takes as long as a few of these.
            (0..8).for_each(|_| std::hint::spin_loop());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_on_that_are_named() {
        let none = Tuning { spin: false, prefetch: false, late_verify: false };
        assert_eq!(Tuning::parse("none"), none);
        assert_eq!(Tuning::parse("spin, late_verify"), Tuning { spin: true, late_verify: true, ..none });
    }
}
