//! Counters of what goes through a mount.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// Number of counters.
const COUNTERS: usize = 18;

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Files opened.
    Opens,
    /// Of them, those that the kernel reads by itself.
    PassthroughOpens,
    /// Reads of programs.
    Reads,
    /// Requests by which they came.
    Requests,
    /// Bytes that they were given.
    Bytes,
    /// Files of which the rest was read from the origin as it is.
    Fallbacks,
    /// Names looked up.
    Lookups,
    /// Files and directories asked for their attributes.
    Stats,
    /// Directories listed.
    Lists,
    /// Writes of programs.
    Writes,
    /// Requests by which they came.
    WriteRequests,
    /// Bytes that were written.
    BytesWritten,
    /// Waits for written bytes to be safe.
    Fsyncs,
    /// Files, directories and links made.
    Creates,
    /// Entries renamed.
    Renames,
    /// Entries removed.
    Removes,
    /// Files cut or grown.
    Truncates,
    /// Changes of permissions, owner or times.
    Changes,
}

/// Counters that many threads count in.
#[derive(Debug)]
pub(crate) struct MountTally {
    counts: [AtomicU64; COUNTERS],
    began: Instant,
    /// What the counters were when they were last set back.
    base: Mutex<TallyCounts>,
}

/// The counters at one moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TallyCounts {
    counts: [u64; COUNTERS],
    pub(crate) seconds: f64,
}

impl MountTally {
    pub(crate) fn new() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; COUNTERS],
            began: Instant::now(),
            base: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, counter: Counter, by: u64) {
        self.counts[counter as usize].fetch_add(by, Relaxed);
    }

    /// What went through since the mount was made.
    pub(crate) fn total(&self) -> TallyCounts {
        TallyCounts {
            counts: std::array::from_fn(|index| self.counts[index].load(Relaxed)),
            seconds: self.began.elapsed().as_secs_f64(),
        }
    }

    /// What went through since the counters were last set back.
    pub(crate) fn recent(&self) -> TallyCounts {
        let base = *self.base();
        self.total().since(&base)
    }

    /// The same, and counted from here next time: nothing is counted twice or lost in between.
    pub(crate) fn take(&self) -> TallyCounts {
        let mut base = self.base();
        let total = self.total();
        let recent = total.since(&base);
        *base = total;
        recent
    }

    fn base(&self) -> MutexGuard<'_, TallyCounts> {
        // It is set by one assignment: a panic elsewhere cannot leave it half done.
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TallyCounts {
    pub(crate) fn of(&self, counter: Counter) -> u64 {
        self.counts[counter as usize]
    }

    /// What was counted after `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|index| self.counts[index].saturating_sub(before.counts[index])),
            seconds: self.seconds - before.seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_not_counted_again_and_the_total_goes_on() {
        let tally = MountTally::new();
        tally.add(Counter::Opens, 2);
        tally.add(Counter::Changes, 1);
        let taken = tally.take();
        assert_eq!((taken.of(Counter::Opens), taken.of(Counter::Changes)), (2, 1));
        tally.add(Counter::Opens, 5);
        assert_eq!((tally.recent().of(Counter::Opens), tally.recent().of(Counter::Changes)), (5, 0));
        assert_eq!(tally.total().of(Counter::Opens), 7);
    }
}
