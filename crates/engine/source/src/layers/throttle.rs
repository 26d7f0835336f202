//! A bandwidth limit that all readers share.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// A bandwidth limit (token bucket without burst): tells when bytes have passed a line that all readers share.
#[derive(Debug)]
pub struct Throttle {
    bytes_per_second: Option<NonZeroU64>,
    began: Instant,
    /// When the last byte queued so far will have passed, in nanoseconds since `began`.
    busy_until_ns: AtomicU64,
}

impl Throttle {
    /// A limit of `bytes_per_second`, idle from now on; without one, bytes take no time.
    pub fn new(bytes_per_second: Option<NonZeroU64>) -> Self {
        Self { bytes_per_second, began: Instant::now(), busy_until_ns: AtomicU64::new(0) }
    }

    /// Queues `bytes` behind all others, not before `start`, and gives the time when the last of them has passed.
    pub fn pass(&self, start: Instant, bytes: u64) -> Instant {
        let Some(rate) = self.bytes_per_second else { return start };
        let cost_ns = saturate(u128::from(bytes) * 1_000_000_000 / u128::from(rate.get()));
        let start_ns = saturate(start.saturating_duration_since(self.began).as_nanos());
        let done_ns = |busy_ns: u64| busy_ns.max(start_ns).saturating_add(cost_ns);
        let before_ns = self.busy_until_ns.fetch_update(Relaxed, Relaxed, |busy_ns| Some(done_ns(busy_ns)));
        let until = Duration::from_nanos(done_ns(before_ns.unwrap_or_else(|busy_ns| busy_ns)));
        // Only a limit that is busy for centuries has no such moment.
        self.began.checked_add(until).unwrap_or(start)
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
