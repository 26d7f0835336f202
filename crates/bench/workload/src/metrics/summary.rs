//! One run in numbers: what our JSON holds and the HTML report draws.

use serde::{Deserialize, Serialize};

use crate::{
    layout::{self, Split},
    metrics::{
        dlio::{self, DlioFormula, blocks_of, checkpoints_of, epoch_numbers},
        mean_stdev::{MeanStdev, ratio},
    },
    timings::{BlockTimings, CheckpointTimings, EpochTimings, LatencyCounts, RunTimings, StepTimings},
};

/// One run in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// What it is called in tables and legends.
    pub label: String,
    /// The model.
    pub model: String,
    /// The engine.
    pub engine: String,
    /// The framework whose pattern was replayed.
    pub framework: String,
    /// The format of the files.
    pub format: String,
    /// How many ranks.
    pub ranks: u32,
    /// How many machines.
    pub hosts: u32,
    /// Workers of each rank.
    pub read_threads: u32,
    /// Samples of a training batch.
    pub batch_size: u64,
    /// Files for training.
    pub files: u64,
    /// Samples of each file.
    pub samples_per_file: u64,
    /// Bytes of a sample.
    pub record_bytes: u64,
    /// Whether HDF5 files were chunked.
    pub chunking: bool,
    /// When it began, in seconds since 1970.
    pub started_unix_s: f64,
    /// How long the whole process took.
    pub wall_s: f64,
    /// Seconds of CPU of all ranks.
    pub cpu_s: f64,
    /// Whether it ended by itself.
    pub complete: bool,
    /// Making the data set.
    pub generation: Option<GenerationSummary>,
    /// Training.
    pub train: Option<SplitSummary>,
    /// Evaluation.
    pub eval: Option<SplitSummary>,
    /// Checkpoints that were saved.
    pub save: Option<CheckpointSummary>,
    /// Checkpoints that were loaded.
    pub load: Option<CheckpointSummary>,
    /// What the time of a rank went to, on average, largest parts first as they follow each other.
    pub stages: Vec<StageTime>,
    /// What each tier served in training, all epochs and ranks together.
    pub tiers: Vec<TierShare>,
    /// MLPerf Storage's verdict on training, where there is computation.
    pub verdict: Option<AuVerdict>,
}

/// Making a data set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GenerationSummary {
    /// Seconds from the first rank's start to the last one's end.
    pub seconds: f64,
    /// Files that were written.
    pub files_written: u64,
    /// Files that were there.
    pub files_kept: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

/// Checkpoints that were saved, or loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSummary {
    /// How many.
    pub count: usize,
    /// Bytes of one, of all ranks.
    pub bytes: u64,
    /// Seconds of one.
    pub seconds: MeanStdev,
    /// Bytes per second of all ranks together.
    pub bytes_per_s: MeanStdev,
}

/// Training or evaluation in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SplitSummary {
    /// Epoch by epoch.
    pub epochs: Vec<EpochSummary>,
    /// Samples per second of all ranks, over epochs.
    pub samples_per_s: MeanStdev,
    /// Bytes per second of all ranks, over epochs.
    pub bytes_per_s: MeanStdev,
    /// AU in percent, over epochs, by DLIO's formula.
    pub au_percent: MeanStdev,
    /// Files opened and closed per second of the time spent on metadata, over epochs: the metadata rate of a worker.
    pub metadata_per_s: MeanStdev,
    /// How long single samples took.
    pub latency: LatencyPoints,
}

/// One epoch in numbers: it takes as long as its longest rank; what the time of a rank went to are means over ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochSummary {
    /// From 1.
    pub epoch: u32,
    /// Seconds of the rank that took longest, checkpoints left out.
    pub seconds: f64,
    /// Steps of the rank that has most.
    pub steps: u64,
    /// Samples of all ranks.
    pub samples: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Samples per second of all ranks.
    pub samples_per_s: f64,
    /// Bytes per second of all ranks.
    pub bytes_per_s: f64,
    /// AU in percent, by DLIO's formula.
    pub au_percent: f64,
    /// Waiting for batches.
    pub load_s: f64,
    /// Simulated computation.
    pub compute_s: f64,
    /// Waiting for other ranks.
    pub barrier_s: f64,
    /// Metadata, by all workers of a rank.
    pub metadata_s: f64,
    /// Reading, by all workers of a rank.
    pub read_s: f64,
    /// Simulated preprocessing, by all workers of a rank.
    pub preprocess_s: f64,
    /// The part of its requests for blocks that each tier served.
    pub hit_ratio: Option<f64>,
}

/// Quantiles of latencies, in seconds, and the whole distribution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoints {
    /// How many were measured.
    pub count: u64,
    /// Their mean.
    pub mean_s: f64,
    /// The median.
    pub p50_s: f64,
    /// Nine of ten took no longer.
    pub p90_s: f64,
    /// 99 of 100 took no longer.
    pub p99_s: f64,
    /// 999 of 1000 took no longer.
    pub p999_s: f64,
    /// The longest.
    pub max_s: f64,
    /// Seconds, and the part of all that took no longer.
    pub distribution: Vec<(f64, f64)>,
}

/// A part of the time of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageTime {
    /// What was done.
    pub stage: String,
    /// For how long, on average over ranks.
    pub seconds: f64,
}

/// What a tier served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierShare {
    /// The tier.
    pub tier: String,
    /// Requests that it served.
    pub hits: u64,
    /// Requests that went on to the next.
    pub misses: u64,
    /// Bytes that it served.
    pub bytes: u64,
}

/// MLPerf Storage's verdict: whether accelerators were kept busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuVerdict {
    /// Mean AU in percent.
    pub au_percent: f64,
    /// What was asked for, in percent.
    pub target_percent: f64,
    /// Whether that was reached.
    pub passes: bool,
}

/// The summary of `run`.
pub fn summarise(run: &RunTimings) -> RunSummary {
    let (workload, dataset) = (&run.workload, &run.workload.dataset);
    let train = split(run, Split::Train);
    // Without computation there is nothing to keep busy.
    let computes = |train: &&SplitSummary| train.epochs.iter().any(|epoch| epoch.compute_s > 0.0);
    let verdict = train.as_ref().filter(computes).map(|train| {
        let (au_percent, target_percent) = (train.au_percent.mean, 100.0 * workload.target_au);
        AuVerdict { au_percent, target_percent, passes: au_percent >= target_percent }
    });
    let mut hosts: Vec<&str> = run.ranks.iter().map(|rank| &*rank.host.name).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let clamped = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    RunSummary {
        label: format!(
            "{} · {} · {} rank{}",
            workload.model.name,
            run.engine,
            run.ranks.len(),
            plural(run.ranks.len())
        ),
        model: workload.model.name.clone(),
        engine: run.engine.clone(),
        framework: workload.framework.to_string(),
        format: dataset.format.to_string(),
        ranks: clamped(run.ranks.len()),
        hosts: clamped(hosts.len()),
        read_threads: workload.reader.read_threads,
        batch_size: workload.reader.batch_size,
        files: dataset.num_files_train,
        samples_per_file: dataset.num_samples_per_file,
        record_bytes: layout::sample_bytes(dataset),
        chunking: workload.hdf5.chunking,
        started_unix_s: run.started_unix_s,
        wall_s: run.wall_s,
        cpu_s: run.ranks.iter().map(|rank| rank.cpu_s).sum(),
        complete: run.complete,
        generation: generation(run),
        eval: split(run, Split::Eval),
        save: checkpoints(run, false),
        load: checkpoints(run, true),
        stages: stages(run),
        tiers: tiers(run),
        verdict,
        train,
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn generation(run: &RunTimings) -> Option<GenerationSummary> {
    let all: Vec<_> = run.ranks.iter().filter_map(|rank| rank.generation).collect();
    let start = all.iter().map(|one| one.start_s).reduce(f64::min)?;
    let end = all.iter().map(|one| one.end_s).reduce(f64::max)?;
    Some(GenerationSummary {
        seconds: end - start,
        files_written: all.iter().map(|one| one.files_written).sum(),
        files_kept: all.iter().map(|one| one.files_kept).sum(),
        bytes: all.iter().map(|one| one.bytes).sum(),
    })
}

fn split(run: &RunTimings, split: Split) -> Option<SplitSummary> {
    let numbers = epoch_numbers(run, split);
    if numbers.is_empty() {
        return None;
    }
    let epochs: Vec<EpochSummary> = numbers.into_iter().map(|number| epoch(run, split, number)).collect();
    let spread = |of: fn(&EpochSummary) -> f64| MeanStdev::of(&epochs.iter().map(of).collect::<Vec<f64>>());
    let ranks = run.ranks.len() as f64;
    let metadata_rates: Vec<f64> =
        epochs.iter().map(|epoch| ratio(epoch.samples as f64, epoch.metadata_s * ranks)).collect();
    let mut latency = LatencyCounts::default();
    for block in run.ranks.iter().flat_map(|rank| &rank.epochs).flat_map(|epoch| blocks_of(epoch, split)) {
        latency.merge(&block.latency);
    }
    Some(SplitSummary {
        samples_per_s: spread(|epoch| epoch.samples_per_s),
        bytes_per_s: spread(|epoch| epoch.bytes_per_s),
        au_percent: spread(|epoch| epoch.au_percent),
        metadata_per_s: MeanStdev::of(&metadata_rates),
        latency: points(&latency),
        epochs,
    })
}

fn points(latency: &LatencyCounts) -> LatencyPoints {
    let at = |quantile| latency.quantile_s(quantile).unwrap_or(0.0);
    LatencyPoints {
        count: latency.count(),
        mean_s: latency.mean_s().unwrap_or(0.0),
        p50_s: at(0.5),
        p90_s: at(0.9),
        p99_s: at(0.99),
        p999_s: at(0.999),
        max_s: latency.max_s().unwrap_or(0.0),
        distribution: latency.distribution(),
    }
}

fn epoch(run: &RunTimings, split: Split, number: u32) -> EpochSummary {
    let formula = DlioFormula::TwoStepsFewer;
    let epochs: Vec<&EpochTimings> =
        run.ranks.iter().flat_map(|rank| &rank.epochs).filter(|epoch| epoch.epoch == number).collect();
    let count = epochs.len().max(1) as f64;
    let blocks: Vec<&BlockTimings> = epochs.iter().flat_map(|epoch| blocks_of(epoch, split)).collect();
    let steps = || blocks.iter().flat_map(|block| &block.steps);
    let mean = |of: fn(&StepTimings) -> f64| steps().map(of).sum::<f64>() / count;
    let seconds_of = |epoch: &&EpochTimings| -> f64 {
        blocks_of(epoch, split).iter().map(|block| block.end_s - block.start_s).sum()
    };
    let steps_of = |epoch: &&EpochTimings| -> usize {
        blocks_of(epoch, split).iter().map(|block| block.steps.len()).sum()
    };
    let seconds = epochs.iter().map(seconds_of).fold(0.0, f64::max);
    let samples: u64 = steps().map(|step| u64::from(step.samples)).sum();
    let bytes: u64 = steps().map(|step| step.bytes).sum();
    let au =
        epochs.iter().filter_map(|one| dlio::epoch(&run.workload, formula, split, one)).map(|(au, _)| au);
    let (hits, misses) = first_tier(&epochs);
    EpochSummary {
        epoch: number,
        seconds,
        steps: epochs.iter().map(steps_of).max().unwrap_or(0) as u64,
        samples,
        bytes,
        samples_per_s: ratio(samples as f64, seconds),
        bytes_per_s: ratio(bytes as f64, seconds),
        au_percent: au.sum::<f64>() / count,
        load_s: mean(|step| step.load_s),
        compute_s: mean(|step| step.compute_s),
        barrier_s: mean(|step| step.barrier_s),
        metadata_s: mean(|step| step.metadata_s),
        read_s: mean(|step| step.read_s),
        preprocess_s: mean(|step| step.preprocess_s),
        hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
    }
}

/// Requests that some tier served, and those that went to the origin.
fn first_tier(epochs: &[&EpochTimings]) -> (u64, u64) {
    let counts = epochs.iter().flat_map(|epoch| &epoch.tiers);
    counts.fold((0, 0), |(hits, misses), one| match &*one.tier {
        "origin" => (hits, misses + one.hits),
        _ => (hits + one.hits, misses),
    })
}

fn tiers(run: &RunTimings) -> Vec<TierShare> {
    let mut shares: Vec<TierShare> = Vec::new();
    for counts in run.ranks.iter().flat_map(|rank| &rank.epochs).flat_map(|epoch| &epoch.tiers) {
        let at = shares.iter().position(|share| share.tier == counts.tier).unwrap_or_else(|| {
            shares.push(TierShare { tier: counts.tier.clone(), hits: 0, misses: 0, bytes: 0 });
            shares.len() - 1
        });
        let share = &mut shares[at];
        share.hits += counts.hits;
        share.misses += counts.misses;
        share.bytes += counts.bytes;
    }
    shares
}

fn checkpoints(run: &RunTimings, is_load: bool) -> Option<CheckpointSummary> {
    let of_ranks: Vec<Vec<&CheckpointTimings>> =
        run.ranks.iter().map(|rank| checkpoints_of(rank, is_load)).collect();
    let count = of_ranks.iter().map(Vec::len).max().filter(|count| *count > 0)?;
    let ranks_of = |number: usize| of_ranks.iter().filter_map(move |checkpoints| checkpoints.get(number));
    let bytes_of = |number| ranks_of(number).map(|one| one.bytes).sum::<u64>();
    let seconds_of = |number| {
        let start = ranks_of(number).map(|one| one.start_s).fold(f64::INFINITY, f64::min);
        ranks_of(number).map(|one| one.end_s).fold(0.0, f64::max) - start
    };
    let seconds: Vec<f64> = (0..count).map(seconds_of).collect();
    let rates: Vec<f64> = (0..count).map(|number| ratio(bytes_of(number) as f64, seconds[number])).collect();
    Some(CheckpointSummary {
        count,
        bytes: bytes_of(0),
        seconds: MeanStdev::of(&seconds),
        bytes_per_s: MeanStdev::of(&rates),
    })
}

/// What the time of a rank went to, on average; what is left of the run's time is "other".
fn stages(run: &RunTimings) -> Vec<StageTime> {
    let count = run.ranks.len().max(1) as f64;
    let sum = |split: Split, of: fn(&StepTimings) -> f64| {
        let blocks = run.ranks.iter().flat_map(|rank| &rank.epochs).flat_map(|epoch| blocks_of(epoch, split));
        blocks.flat_map(|block| &block.steps).map(of).sum::<f64>() / count
    };
    let saved = |is_load| {
        let all = run.ranks.iter().flat_map(|rank| checkpoints_of(rank, is_load));
        all.map(|one| one.end_s - one.start_s).sum::<f64>() / count
    };
    let generated = run.ranks.iter().filter_map(|rank| rank.generation);
    let mut stages = vec![
        ("generate data", generated.map(|one| one.end_s - one.start_s).sum::<f64>() / count),
        ("wait for batches", sum(Split::Train, |step| step.load_s)),
        ("compute", sum(Split::Train, |step| step.compute_s)),
        ("wait for ranks", sum(Split::Train, |step| step.barrier_s)),
        ("evaluate: wait", sum(Split::Eval, |step| step.load_s + step.barrier_s)),
        ("evaluate: compute", sum(Split::Eval, |step| step.compute_s)),
        ("save checkpoints", saved(false)),
        ("load checkpoints", saved(true)),
    ];
    let known: f64 = stages.iter().map(|(_, seconds)| seconds).sum();
    stages.push(("other", (run.wall_s - known).max(0.0)));
    stages.retain(|(_, seconds)| *seconds > 0.0);
    stages.into_iter().map(|(stage, seconds)| StageTime { stage: stage.to_owned(), seconds }).collect()
}
