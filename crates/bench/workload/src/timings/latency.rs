//! Latencies as counts in buckets: each power of two is cut into eight, so that a quantile is at most 1/8 too long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets of each power of two.
const STEP_BITS: u32 = 3;

/// How often which latency was measured; serialises as pairs of bucket and count, so that runs of any length are small.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyCounts {
    /// Number of a bucket and how many fell into it, in order of bucket.
    buckets: Vec<(u16, u64)>,
    /// The longest, in nanoseconds.
    max_ns: u64,
    /// All together, in nanoseconds.
    sum_ns: u64,
}

impl LatencyCounts {
    /// Counts `took`.
    pub fn record(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.add(bucket_of(took_ns), 1);
        self.max_ns = self.max_ns.max(took_ns);
        self.sum_ns = self.sum_ns.saturating_add(took_ns);
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.buckets {
            self.add(bucket, count);
        }
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// The mean in seconds; nothing where none was counted.
    pub fn mean_s(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64 / 1e9)
    }

    /// The longest in seconds; nothing where none was counted.
    pub fn max_s(&self) -> Option<f64> {
        (!self.buckets.is_empty()).then(|| self.max_ns as f64 / 1e9)
    }

    /// A latency in seconds that the part `quantile` (0 to 1) of all did not exceed; nothing where none was counted.
    pub fn quantile_s(&self, quantile: f64) -> Option<f64> {
        let wanted = quantile.clamp(0.0, 1.0) * self.count() as f64;
        self.cumulative().find(|(_, seen)| *seen as f64 >= wanted).map(|(latency_s, _)| latency_s)
    }

    /// The distribution function: a latency in seconds, and the part of all that did not exceed it, in order.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let count = self.count() as f64;
        self.cumulative().map(|(latency_s, seen)| (latency_s, seen as f64 / count)).collect()
    }

    fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().scan(0, |seen, &(bucket, count)| {
            *seen += count;
            Some((last_of(bucket).min(self.max_ns) as f64 / 1e9, *seen))
        })
    }

    fn add(&mut self, bucket: u16, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 += count,
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }
}

fn bucket_of(value: u64) -> u16 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let bucket = (u64::from(shift) << STEP_BITS) + (value >> shift);
    u16::try_from(bucket).expect("62 powers of two, eight buckets each, are below 512")
}

/// The largest value of a bucket.
fn last_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let shift = (bucket >> STEP_BITS).saturating_sub(1);
    let first = (bucket - (shift << STEP_BITS)) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(all_ns: &[u64]) -> LatencyCounts {
        let mut counts = LatencyCounts::default();
        all_ns.iter().for_each(|ns| counts.record(Duration::from_nanos(*ns)));
        counts
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_most_an_eighth_too_long(mut all_ns in prop::collection::vec(0u64..1 << 50, 1..200), part in 0.0f64..1.0) {
            let found = of(&all_ns).quantile_s(part).expect("something was counted");
            all_ns.sort_unstable();
            let count = all_ns.len();
            let wanted = (1..count).find(|many| *many as f64 >= part * count as f64).unwrap_or(count) - 1;
            let exact = all_ns[wanted] as f64 / 1e9;
            prop_assert!(found >= exact && found <= exact * 1.125 + 1e-15, "{found} for {exact}");
        }

        #[test]
        fn merged_counts_are_those_of_all(one in prop::collection::vec(any::<u64>(), 0..50), two in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut merged = of(&one);
            merged.merge(&of(&two));
            prop_assert_eq!(merged, of(&[one, two].concat()));
        }
    }

    #[test]
    fn the_distribution_ends_with_all_at_the_longest() {
        let counts = of(&[100, 200, 3_000_000_000]);
        assert_eq!(counts.distribution().last(), Some(&(3.0, 1.0)));
        assert_eq!((counts.max_s(), of(&[]).mean_s(), of(&[]).quantile_s(0.5)), (Some(3.0), None, None));
    }
}
