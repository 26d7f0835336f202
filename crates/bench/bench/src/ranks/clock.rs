//! The time of a run: seconds since its start, the same on all ranks of a node.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Seconds since the run's start by a monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    /// How long after the start of the run this clock was made.
    offset_s: f64,
    made: Instant,
    /// The monotonic clock of the node when this clock was made.
    made_ns: u64,
}

impl RunClock {
    /// The clock of a run that began at `started_unix_s`, in seconds since 1970 by rank 0.
    pub(crate) fn since(started_unix_s: f64) -> Self {
        let (made, made_ns) = (Instant::now(), crate::workers::worker::monotonic_ns());
        Self { offset_s: (unix_now_s() - started_unix_s).max(0.0), made, made_ns }
    }

    /// Seconds since the start.
    pub(crate) fn now_s(&self) -> f64 {
        self.offset_s + self.made.elapsed().as_secs_f64()
    }

    /// The time that the monotonic clock of the node showed as `at_ns`.
    pub(crate) fn of_monotonic(&self, at_ns: u64) -> f64 {
        let since_made = at_ns as f64 - self.made_ns as f64;
        self.offset_s + since_made / 1e9
    }
}

/// Seconds since 1970.
pub(crate) fn unix_now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
