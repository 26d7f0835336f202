//! Accelerator utilisation (AU) and throughput by DLIO's formulas.

use crate::{
    layout::{self, Split},
    metrics::mean_stdev::{MeanStdev, ratio},
    order,
    timings::{BlockTimings, CheckpointTimings, EpochTimings, RankTimings, RunTimings},
    workload::{FileNaming, Workload},
};

/// Which release's formula for throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DlioFormula {
    /// DLIO 2.0.0 of the package index and before: all steps over all time; AU leaves out the first step.
    AllSteps,
    /// The main branch of 2026: two steps fewer, whatever AU leaves out, over the time of the steps that AU counts.
    TwoStepsFewer,
}

impl DlioFormula {
    /// That of the release whose layout `workload` has.
    pub fn of(workload: &Workload) -> Self {
        match workload.dataset.naming {
            FileNaming::Dlio => Self::TwoStepsFewer,
            FileNaming::H5bench | FileNaming::Dlio2408 => Self::AllSteps,
        }
    }
}

/// AU and throughput of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DlioMetrics {
    /// Of training.
    pub train: Option<DlioSplit>,
    /// Of evaluation.
    pub eval: Option<DlioSplit>,
    /// Of checkpoints that were saved.
    pub save: Option<CheckpointRates>,
    /// Of checkpoints that were loaded.
    pub load: Option<CheckpointRates>,
}

/// AU and throughput of training or of evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DlioSplit {
    /// AU of each epoch in percent, the mean over ranks.
    pub au_percent: Vec<f64>,
    /// Samples per second of each epoch, all ranks together.
    pub samples_per_s: Vec<f64>,
    /// AU over epochs.
    pub au: MeanStdev,
    /// Throughput over epochs.
    pub throughput: MeanStdev,
    /// 2^20 bytes per second over epochs.
    pub io_mib_per_s: MeanStdev,
    /// Whether mean AU reaches the target.
    pub meets_target: bool,
}

/// How fast checkpoints were, as rank 0 saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointRates {
    /// 2^30 bytes of all ranks.
    pub size_gib: f64,
    /// 2^30 bytes per second, over checkpoints.
    pub gib_per_s: MeanStdev,
    /// Seconds, over checkpoints.
    pub seconds: MeanStdev,
}

impl DlioMetrics {
    /// The metrics of `run`.
    pub fn of(run: &RunTimings, formula: DlioFormula) -> Self {
        Self {
            train: split(run, formula, Split::Train),
            eval: split(run, formula, Split::Eval),
            save: checkpoints(run, false),
            load: checkpoints(run, true),
        }
    }
}

/// AU in percent and samples per second of one rank's block.
pub(crate) fn block(
    workload: &Workload,
    formula: DlioFormula,
    split: Split,
    block: &BlockTimings,
) -> (f64, f64) {
    let steps = &block.steps;
    let count = steps.len();
    let start = match formula {
        DlioFormula::AllSteps => 1,
        DlioFormula::TwoStepsFewer => workload.output.exclude_start_steps as usize,
    };
    let end = match formula {
        DlioFormula::AllSteps => count,
        DlioFormula::TwoStepsFewer => count.saturating_sub(workload.output.exclude_end_steps as usize),
    };
    let (start, end) = (start.min(count), end.max(start.min(count)));
    let compute: f64 = steps[start..end].iter().map(|step| step.compute_s).sum();
    let left_out: f64 = steps[..start].iter().chain(&steps[end..]).map(|step| step.proc_s()).sum();
    let whole = block.end_s - block.start_s;
    let counted = whole - left_out;
    let au_percent = 100.0 * ratio(compute, counted);
    let batch_size = order::batch_size(workload, split) as f64;
    let samples_per_s = match (formula, split) {
        (DlioFormula::TwoStepsFewer, Split::Train) => {
            ratio(count.saturating_sub(2) as f64, counted) * batch_size
        }
        _ => ratio(count as f64, whole) * batch_size,
    };
    (au_percent, samples_per_s)
}

/// AU in percent and samples per second of one rank's epoch: the mean over blocks, weighted by their steps.
pub(crate) fn epoch(
    workload: &Workload,
    formula: DlioFormula,
    split: Split,
    epoch: &EpochTimings,
) -> Option<(f64, f64)> {
    let blocks = blocks_of(epoch, split);
    if blocks.is_empty() {
        return None;
    }
    let steps: usize = blocks.iter().map(|block| block.steps.len()).sum();
    let weighted = blocks.iter().map(|of| (block(workload, formula, split, of), of.steps.len() as f64));
    let (au, samples) = weighted
        .fold((0.0, 0.0), |sum, ((au, samples), weight)| (sum.0 + au * weight, sum.1 + samples * weight));
    Some((ratio(au, steps as f64), ratio(samples, steps as f64)))
}

/// The blocks of an epoch's training, or its evaluation as one.
pub(crate) fn blocks_of(epoch: &EpochTimings, split: Split) -> &[BlockTimings] {
    match split {
        Split::Train => &epoch.blocks,
        Split::Eval => epoch.evaluation.as_slice(),
    }
}

fn split(run: &RunTimings, formula: DlioFormula, split: Split) -> Option<DlioSplit> {
    let epochs = epoch_numbers(run, split);
    if epochs.is_empty() {
        return None;
    }
    let mut found = DlioSplit::default();
    for number in epochs {
        let of_rank = |rank: &RankTimings| {
            let timings = rank.epochs.iter().find(|epoch| epoch.epoch == number)?;
            epoch(&run.workload, formula, split, timings)
        };
        let ranks: Vec<(f64, f64)> = run.ranks.iter().filter_map(of_rank).collect();
        found.au_percent.push(ratio(ranks.iter().map(|(au, _)| au).sum(), ranks.len() as f64));
        found.samples_per_s.push(ranks.iter().map(|(_, samples)| samples).sum());
    }
    found.au = MeanStdev::of(&found.au_percent);
    found.throughput = MeanStdev::of(&found.samples_per_s);
    let record_bytes = record_bytes(&run.workload);
    found.io_mib_per_s = found.throughput.scaled(record_bytes / (1u64 << 20) as f64);
    found.meets_target = found.au.mean >= 100.0 * run.workload.target_au;
    Some(found)
}

/// Bytes of a record, as DLIO counts them: with its defect 1 where data were generated in the same run.
fn record_bytes(workload: &Workload) -> f64 {
    let is_defect = workload.like_dlio
        && workload.phases.generate
        && workload.dataset.record_dims.is_empty()
        && workload.dataset.naming == FileNaming::Dlio;
    if is_defect { 1.0 } else { layout::sample_bytes(&workload.dataset) as f64 }
}

/// The epochs, from 1, in which some rank has done `split`.
pub(crate) fn epoch_numbers(run: &RunTimings, split: Split) -> Vec<u32> {
    let done = |epoch: &&EpochTimings| !blocks_of(epoch, split).is_empty();
    let mut numbers: Vec<u32> =
        run.ranks.iter().flat_map(|rank| rank.epochs.iter().filter(done).map(|epoch| epoch.epoch)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Checkpoints of a rank, in training and outside of it, in order of time.
pub(crate) fn checkpoints_of(rank: &RankTimings, is_load: bool) -> Vec<&CheckpointTimings> {
    let in_training = rank.epochs.iter().flat_map(|epoch| &epoch.checkpoints);
    in_training.chain(&rank.checkpoints).filter(|checkpoint| checkpoint.is_load == is_load).collect()
}

fn checkpoints(run: &RunTimings, is_load: bool) -> Option<CheckpointRates> {
    let of_ranks: Vec<Vec<&CheckpointTimings>> =
        run.ranks.iter().map(|rank| checkpoints_of(rank, is_load)).collect();
    let first = of_ranks.first().filter(|checkpoints| !checkpoints.is_empty())?;
    let seconds: Vec<f64> = first.iter().map(|checkpoint| checkpoint.end_s - checkpoint.start_s).collect();
    let size_of = |number: usize| -> f64 {
        let bytes = of_ranks.iter().filter_map(|checkpoints| checkpoints.get(number)).map(|one| one.bytes);
        bytes.sum::<u64>() as f64 / (1u64 << 30) as f64
    };
    let rates: Vec<f64> =
        seconds.iter().enumerate().map(|(number, time)| ratio(size_of(number), *time)).collect();
    Some(CheckpointRates {
        size_gib: size_of(0),
        gib_per_s: MeanStdev::of(&rates),
        seconds: MeanStdev::of(&seconds),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timings::StepTimings;

    fn steps(times: &[(f64, f64)]) -> BlockTimings {
        let step = |(load_s, compute_s): &(f64, f64)| StepTimings {
            load_s: *load_s,
            compute_s: *compute_s,
            ..StepTimings::default()
        };
        let steps: Vec<StepTimings> = times.iter().map(step).collect();
        BlockTimings { start_s: 10.0, end_s: 20.0, steps, ..BlockTimings::default() }
    }

    #[test]
    fn au_leaves_out_the_first_step_and_throughput_counts_two_steps_fewer() {
        let mut workload = Workload::default();
        workload.reader.batch_size = 4;
        let block_of = steps(&[(2.0, 1.0), (0.5, 1.5), (0.5, 1.5), (0.5, 2.0)]);
        // 1.5 + 1.5 + 2 of 10 - 3 seconds; (4 - 2) steps of 4 samples in 7 seconds.
        let (au, samples) = block(&workload, DlioFormula::TwoStepsFewer, Split::Train, &block_of);
        assert_eq!((au, samples), (100.0 * 5.0 / 7.0, 2.0 / 7.0 * 4.0));
        // 2.0.0: the same AU, all steps in all 10 seconds.
        let (au, samples) = block(&workload, DlioFormula::AllSteps, Split::Train, &block_of);
        assert_eq!((au, samples), (100.0 * 5.0 / 7.0, 4.0 / 10.0 * 4.0));
        workload.output.exclude_end_steps = 1;
        let (au, _) = block(&workload, DlioFormula::TwoStepsFewer, Split::Train, &block_of);
        assert!((au - 100.0 * 3.0 / 4.5).abs() < 1e-9);
    }

    #[test]
    fn without_computation_au_is_0_and_an_empty_block_is_no_fault() {
        let workload = Workload::default();
        assert_eq!(block(&workload, DlioFormula::TwoStepsFewer, Split::Train, &steps(&[(1.0, 0.0)])).0, 0.0);
        let empty = BlockTimings::default();
        assert_eq!(block(&workload, DlioFormula::AllSteps, Split::Eval, &empty), (0.0, 0.0));
    }
}
