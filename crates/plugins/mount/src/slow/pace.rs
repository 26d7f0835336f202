//! How slow a mount is, and how that is kept.

use std::{
    num::{NonZeroU32, NonZeroU64},
    thread,
    time::{Duration, Instant},
};

use forebay_source::Throttle;

/// How slow a mount is; by default not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// How long each read and each write waits before its bytes begin to pass.
    pub latency: Duration,
    /// How long each open waits, and whatever changes names or lengths: create, rename, remove, truncate.
    pub open_latency: Duration,
    /// How long each fsync waits.
    pub fsync_latency: Duration,
    /// How fast bytes pass, for all readers and writers together.
    pub bytes_per_second: Option<NonZeroU64>,
    /// How many bytes a read or a write may have: longer ones are as many as it takes, one after another. Never more
    /// than the 1 MiB that the kernel puts into a request.
    pub request_bytes: Option<NonZeroU32>,
}

/// A pace, and the line that all share.
#[derive(Debug)]
pub(crate) struct PacedLine {
    pace: Pace,
    throttle: Throttle,
}

impl PacedLine {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, throttle: Throttle::new(pace.bytes_per_second) }
    }

    /// How many operations a request of `len` bytes is; the rest of a page that the kernel cut off is none.
    pub(crate) fn operations(&self, len: u64, is_rest: bool) -> u64 {
        match self.pace.request_bytes {
            _ if is_rest => 0,
            Some(most) => len.div_ceil(u64::from(most.get())).max(1),
            None => 1,
        }
    }

    /// Comes back when `operations` that began at `began`, with `len` bytes in all, would be done.
    pub(crate) fn wait_for_bytes(&self, began: Instant, operations: u64, len: u64) {
        let operations = u32::try_from(operations).unwrap_or(u32::MAX);
        let latency = self.pace.latency.saturating_mul(operations);
        sleep_until(self.throttle.pass(began + latency, len));
    }

    /// Comes back when an operation on names or lengths that began at `began` would be done.
    pub(crate) fn wait_for_names(&self, began: Instant) {
        sleep_until(began + self.pace.open_latency);
    }

    /// Comes back when an fsync that began at `began` would be done.
    pub(crate) fn wait_for_sync(&self, began: Instant) {
        sleep_until(began + self.pace.fsync_latency);
    }
}

fn sleep_until(end: Instant) {
    let left = end.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        thread::sleep(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_cut_into_operations_of_the_size_that_is_set() {
        let line = |bytes| PacedLine::new(Pace { request_bytes: NonZeroU32::new(bytes), ..Pace::default() });
        let counts = [0, 1, 4096, 4097, 1 << 20].map(|len| line(4096).operations(len, false));
        assert_eq!(counts, [1, 1, 1, 2, 256]);
        assert_eq!(line(0).operations(1 << 20, false), 1, "no size is set");
        assert_eq!(line(4096).operations(100, true), 0, "the rest of a page");
    }
}
