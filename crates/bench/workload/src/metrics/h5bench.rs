//! Times and rates by h5bench's formulas, of one rank or as the mean over all.
//!
//! ```text
//! raw read rate = size per rank in the epoch / raw read time
//! observed rate = size per rank in the epoch / (observed time - emulated compute time)
//! throughput    = samples of a rank (batch size * steps) / observed time
//! io            = throughput * record size
//! ```
//!
//! The average of a rate is the mean of the rates of the epochs. Standard deviations are those of the whole population.

use crate::{
    layout::{self, Split},
    metrics::{
        dlio::{blocks_of, epoch_numbers},
        mean_stdev::MeanStdev,
    },
    timings::{BlockTimings, RankTimings, RunTimings, StepTimings},
};

/// Times and rates of training and evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct H5benchMetrics {
    /// Of training.
    pub train: Option<H5benchSplit>,
    /// Of evaluation.
    pub eval: Option<H5benchSplit>,
}

/// Times and rates of training or of evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct H5benchSplit {
    /// Bytes that all ranks read in the first epoch, which others have too unless they were interrupted.
    pub total_bytes: f64,
    /// Bytes of these that a rank reads.
    pub rank_bytes: f64,
    /// Bytes of a record.
    pub record_bytes: f64,
    /// Epoch by epoch.
    pub epochs: Vec<H5benchEpoch>,
}

/// Times of one epoch, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct H5benchEpoch {
    /// Bytes that a rank read.
    pub bytes: f64,
    /// Simulated computation.
    pub compute_s: f64,
    /// Opening and closing files and data sets, selecting.
    pub metadata_s: f64,
    /// `H5Dread` alone.
    pub read_s: f64,
    /// From the start of the epoch to its end.
    pub observed_s: f64,
    /// Samples per second of a rank.
    pub samples_per_s: f64,
}

impl H5benchMetrics {
    /// The mean over all ranks.
    pub fn of(run: &RunTimings) -> Self {
        let ranks: Vec<&RankTimings> = run.ranks.iter().collect();
        Self { train: split(run, Split::Train, &ranks), eval: split(run, Split::Eval, &ranks) }
    }

    /// Of one rank.
    pub fn of_rank(run: &RunTimings, rank: &RankTimings) -> Self {
        Self { train: split(run, Split::Train, &[rank]), eval: split(run, Split::Eval, &[rank]) }
    }
}

impl H5benchSplit {
    /// Bytes per second of `H5Dread` in each epoch; NaN where it took no time.
    pub fn raw_read_rates(&self) -> Vec<f64> {
        self.rates(|epoch| epoch.read_s)
    }

    /// Bytes per second of all but computation in each epoch; NaN where that took no time.
    pub fn observed_rates(&self) -> Vec<f64> {
        self.rates(|epoch| epoch.observed_s - epoch.compute_s)
    }

    /// Samples per second over epochs.
    pub fn throughput(&self) -> MeanStdev {
        MeanStdev::of(&self.epochs.iter().map(|epoch| epoch.samples_per_s).collect::<Vec<f64>>())
    }

    fn rates(&self, seconds: impl Fn(&H5benchEpoch) -> f64) -> Vec<f64> {
        let rate = |bytes: f64, seconds: f64| if seconds > 0.0 { bytes / seconds } else { f64::NAN };
        self.epochs.iter().map(|epoch| rate(epoch.bytes, seconds(epoch))).collect()
    }
}

fn split(run: &RunTimings, split: Split, ranks: &[&RankTimings]) -> Option<H5benchSplit> {
    let epochs = epoch_numbers(run, split);
    let first = *epochs.first()?;
    let record_bytes = layout::sample_bytes(&run.workload.dataset) as f64;
    let samples_of = |rank: &RankTimings, number: u32| -> u64 {
        let epoch = rank.epochs.iter().find(|epoch| epoch.epoch == number);
        epoch.map_or(0, |epoch| samples(blocks_of(epoch, split)))
    };
    let total_samples: u64 = run.ranks.iter().map(|rank| samples_of(rank, first)).sum();
    let total_bytes = total_samples as f64 * record_bytes;
    let rank_bytes = total_bytes / run.ranks.len().max(1) as f64;
    let mean_of_ranks = |number: u32| {
        let each = ranks.iter().map(|rank| epoch_of(rank, split, number, record_bytes));
        mean(&each.collect::<Vec<H5benchEpoch>>())
    };
    Some(H5benchSplit {
        total_bytes,
        rank_bytes,
        record_bytes,
        epochs: epochs.into_iter().map(mean_of_ranks).collect(),
    })
}

/// Samples that were read: those of the steps, of which TensorFlow's workers may have short ones.
fn samples(blocks: &[BlockTimings]) -> u64 {
    blocks.iter().flat_map(|block| &block.steps).map(|step| u64::from(step.samples)).sum()
}

fn epoch_of(rank: &RankTimings, split: Split, number: u32, record_bytes: f64) -> H5benchEpoch {
    let Some(epoch) = rank.epochs.iter().find(|epoch| epoch.epoch == number) else {
        return H5benchEpoch::default();
    };
    let blocks = blocks_of(epoch, split);
    let sum = |of: fn(&StepTimings) -> f64| blocks.iter().flat_map(|block| &block.steps).map(of).sum::<f64>();
    let observed_s: f64 = blocks.iter().map(|block| block.end_s - block.start_s).sum();
    let samples = samples(blocks) as f64;
    H5benchEpoch {
        bytes: samples * record_bytes,
        compute_s: sum(|step| step.compute_s),
        metadata_s: sum(|step| step.metadata_s),
        read_s: sum(|step| step.read_s),
        observed_s,
        samples_per_s: if observed_s > 0.0 { samples / observed_s } else { f64::NAN },
    }
}

fn mean(epochs: &[H5benchEpoch]) -> H5benchEpoch {
    let count = epochs.len().max(1) as f64;
    let mean = |of: fn(&H5benchEpoch) -> f64| epochs.iter().map(of).sum::<f64>() / count;
    H5benchEpoch {
        bytes: mean(|epoch| epoch.bytes),
        compute_s: mean(|epoch| epoch.compute_s),
        metadata_s: mean(|epoch| epoch.metadata_s),
        read_s: mean(|epoch| epoch.read_s),
        observed_s: mean(|epoch| epoch.observed_s),
        samples_per_s: mean(|epoch| epoch.samples_per_s),
    }
}
