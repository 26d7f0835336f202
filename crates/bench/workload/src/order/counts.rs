//! Ranks, batches and files, counted.

use crate::{
    layout::Split,
    workload::{FileNaming, Workload},
};

/// A rank and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPosition {
    /// The rank.
    pub rank: u32,
    /// How many ranks there are.
    pub ranks: u32,
}

/// Samples of a batch of `split`.
pub fn batch_size(workload: &Workload, split: Split) -> u64 {
    match split {
        Split::Train => workload.reader.batch_size,
        Split::Eval => workload.reader.batch_size_eval,
    }
}

/// Files of `split` that an epoch reads: all, or with DLIO's trimming a multiple that may be 0.
pub fn files_used(workload: &Workload, split: Split, ranks: u32) -> u64 {
    let count = split.file_count(&workload.dataset);
    match workload.like_dlio {
        true => trimmed(workload, split, ranks, count),
        false => count,
    }
}

/// DLIO 2 cuts the count of *files* to a multiple of the *samples* of a step of all ranks; 2024-08 does not.
fn trimmed(workload: &Workload, split: Split, ranks: u32, files: u64) -> u64 {
    if workload.dataset.naming != FileNaming::Dlio {
        return files;
    }
    let samples = workload.dataset.num_samples_per_file.max(1);
    let of_a_step =
        samples.saturating_mul(batch_size(workload, split).max(1)).saturating_mul(u64::from(ranks.max(1)));
    files / of_a_step * of_a_step
}
