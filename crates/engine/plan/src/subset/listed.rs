//! Samples in any order, each as often as it is listed.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedSamples {
    samples: Arc<[u64]>,
    /// The numbers, sorted by their samples; nothing where samples rise as they are listed.
    by_sample: Option<Arc<[u64]>>,
}

impl ListedSamples {
    pub(super) fn new(samples: Vec<u64>) -> Self {
        let by_sample = (!samples.is_sorted()).then(|| {
            let mut numbers: Vec<u64> = (0..samples.len() as u64).collect();
            // Stable: what comes more than once keeps its order.
            numbers.sort_by_key(|number| samples[index(*number)]);
            numbers.into()
        });
        Self { samples: samples.into(), by_sample }
    }

    pub(super) fn samples(&self) -> impl Iterator<Item = u64> {
        self.samples.iter().copied()
    }

    /// The sample of `number`, which is there.
    pub(super) fn sample(&self, number: u64) -> u64 {
        self.samples[index(number)]
    }

    /// True when samples rise as they are listed.
    pub(super) fn rises(&self) -> bool {
        self.by_sample.is_none()
    }

    pub(super) fn by_rank(&self, rank: u64) -> u64 {
        match &self.by_sample {
            Some(numbers) => numbers.get(index(rank)).copied().unwrap_or(rank),
            None => rank,
        }
    }

    /// How many listed samples are below `sample`.
    pub(super) fn rank(&self, sample: u64) -> u64 {
        let below = match &self.by_sample {
            Some(numbers) => numbers.partition_point(|number| self.samples[index(*number)] < sample),
            None => self.samples.partition_point(|listed| *listed < sample),
        };
        below as u64
    }
}

fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
