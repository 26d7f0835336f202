//! A histogram of durations with buckets of even relative width, as HdrHistogram has.
//!
//! Every power of two is cut into 32 buckets, so a quantile is at most 1/32 above the value it stands for. To record takes two
//! atomic operations and no lock; histograms of several threads, origins or ranks are merged by adding them up.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use serde::Serialize;

/// Buckets of each power of two.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 5;

/// Enough for every number of 64 bits: of values below [`STEPS`] each has a bucket of its own.
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) << STEP_BITS;

/// How often which durations were measured, to the nanosecond below 32 ns and to 1/32 above; 15 KiB.
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    longest_ns: AtomicU64,
    sum_ns: AtomicU64,
}

/// What is most asked of a [`Histogram`], in nanoseconds; all 0 where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencySummary {
    /// How many were measured.
    pub count: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// Half took no longer.
    pub p50_ns: u64,
    /// Nine of ten took no longer.
    pub p90_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl Histogram {
    /// A histogram of nothing yet.
    pub fn new() -> Self {
        let buckets = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, longest_ns: AtomicU64::new(0), sum_ns: AtomicU64::new(0) }
    }

    /// Counts `took`.
    pub fn record(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(took_ns)].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(took_ns, Relaxed);
        if took_ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.fetch_max(took_ns, Relaxed);
        }
    }

    /// Adds all that `other` has counted.
    pub fn merge(&self, other: &Self) {
        for (bucket, more) in self.buckets.iter().zip(&other.buckets) {
            bucket.fetch_add(more.load(Relaxed), Relaxed);
        }
        self.sum_ns.fetch_add(other.sum_ns.load(Relaxed), Relaxed);
        self.longest_ns.fetch_max(other.longest_ns.load(Relaxed), Relaxed);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// A duration that the part `quantile` (0 to 1) of all did not exceed; nothing where none was counted.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let wanted = (quantile.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0);
        let mut seen = 0;
        let found = self.buckets.iter().position(|bucket| {
            seen += bucket.load(Relaxed);
            seen as f64 >= wanted
        });
        found.map(|bucket| Duration::from_nanos(last_of(bucket).min(self.longest_ns.load(Relaxed))))
    }

    /// What is most asked of it.
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        let at = |quantile| {
            self.quantile(quantile).map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        LatencySummary {
            count,
            mean_ns: self.sum_ns.load(Relaxed).checked_div(count).unwrap_or(0),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            max_ns: self.longest_ns.load(Relaxed),
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Histogram").field(&self.summary()).finish()
    }
}

fn bucket_of(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    usize::try_from(u64::from(shift) * STEPS + (value >> shift)).unwrap_or(BUCKETS - 1)
}

/// The largest value of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    let first = (bucket - shift * STEPS) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_what_falls_into_them() {
        let mut first = 0;
        for bucket in 0..BUCKETS {
            let last = last_of(bucket);
            assert_eq!((bucket_of(first), bucket_of(last)), (bucket, bucket));
            assert!((last - first) as f64 <= first as f64 / STEPS as f64);
            first = last.wrapping_add(1);
        }
        assert_eq!(first, 0, "the last bucket ends with the largest number");
    }

    #[test]
    fn nothing_measured_has_no_quantile() {
        assert_eq!(
            (Histogram::new().quantile(0.5), Histogram::new().summary()),
            (None, LatencySummary::default())
        );
    }
}
