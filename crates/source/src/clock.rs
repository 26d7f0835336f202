//! A line that lets so many bytes pass in a second, whoever they are for.

use std::{
    num::NonZeroU64,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// Tells when bytes have come over a line that all readers share.
#[derive(Debug)]
pub struct Clock {
    bytes_per_second: Option<NonZeroU64>,
    began: Instant,
    /// When the last byte granted so far will have come, in nanoseconds since `began`.
    busy_until_ns: AtomicU64,
}

impl Clock {
    /// A line of this speed, free from now on; without one, bytes take no time.
    pub fn new(bytes_per_second: Option<NonZeroU64>) -> Self {
        Self { bytes_per_second, began: Instant::now(), busy_until_ns: AtomicU64::new(0) }
    }

    /// Puts `bytes` on the line behind all others, not before `start`, and gives when the last of them has come.
    pub fn pass(&self, start: Instant, bytes: u64) -> Instant {
        let Some(rate) = self.bytes_per_second else { return start };
        let cost_ns = saturate(u128::from(bytes) * 1_000_000_000 / u128::from(rate.get()));
        let start_ns = saturate(start.saturating_duration_since(self.began).as_nanos());
        let done_ns = |busy_ns: u64| busy_ns.max(start_ns).saturating_add(cost_ns);
        let before_ns = self.busy_until_ns.fetch_update(Relaxed, Relaxed, |busy_ns| Some(done_ns(busy_ns)));
        let until = Duration::from_nanos(done_ns(before_ns.unwrap_or_else(|busy_ns| busy_ns)));
        // Only a line that is busy for centuries has no such moment.
        self.began.checked_add(until).unwrap_or(start)
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_one_after_another_at_the_speed_of_the_line() {
        let clock = Clock::new(NonZeroU64::new(1000));
        let start = Instant::now() + Duration::from_secs(1);
        assert_eq!(clock.pass(start, 500), start + Duration::from_millis(500));
        assert_eq!(clock.pass(start, 500), start + Duration::from_secs(1));
        let later = start + Duration::from_secs(9);
        assert_eq!(clock.pass(later, 1), later + Duration::from_millis(1));
    }

    #[test]
    fn without_a_speed_bytes_take_no_time() {
        let start = Instant::now();
        assert_eq!(Clock::new(None).pass(start, u64::MAX), start);
    }
}
