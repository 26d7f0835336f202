//! Which sample is read when, by which rank and worker: the orders of DLIO's loaders and of h5bench.
//!
//! ```text
//! files ─► shuffled? ─► samples of a rank ─► shuffled? ─► batches ─► workers
//!          file_shuffle  RankShare           sample_shuffle          PyTorch: batch b to worker b mod W
//!                                                                    TensorFlow: each worker its own part
//! ```
//!
//! A sample is a number: `file * samples_per_file + record`, with files numbered as [`layout`](crate::layout) lists them.
//!
//! DLIO's defects in order ([`Workload::like_dlio`]) are in `order/defects.rs`.

mod counts;
mod defects;
mod samples;
mod shuffle;

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    layout::Split,
    workload::{LoaderKind, RankShare, Workload},
};

pub use counts::{RankPosition, batch_size, files_used};

/// The samples of one step, in the order in which they are read, and the worker that reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchOrder {
    /// The worker, from 0; 0 too where the rank itself reads.
    pub worker: u32,
    /// The samples.
    pub samples: Vec<u64>,
}

/// Steps of an epoch of `split` on one rank; the last incomplete batch is left out.
///
/// A limit above the steps that there are is an error, as in DLIO.
pub fn steps(workload: &Workload, split: Split, at: RankPosition) -> Result<u64> {
    let samples = files_used(workload, split, at.ranks) * workload.dataset.num_samples_per_file;
    let there_are = samples / batch_size(workload, split).max(1) / u64::from(at.ranks.max(1));
    let Some(limit) = workload.train.steps_per_epoch.filter(|_| split == Split::Train) else {
        return Ok(there_are);
    };
    let limit = match workload.train.steps_of_all_ranks {
        true => {
            let (ranks, rank) = (u64::from(at.ranks.max(1)), u64::from(at.rank));
            limit / ranks + u64::from(rank < limit % ranks)
        }
        false => limit,
    };
    if limit > there_are {
        let what = format!("{limit} steps of an epoch are asked for and there are {there_are}");
        return Err(Error::new(ErrorKind::Invalid, what)
            .hint("take fewer steps (total_training_steps), fewer ranks, smaller batches or more files"));
    }
    Ok(limit)
}

/// The batches of one rank in one epoch (from 1), step by step.
pub fn batches(workload: &Workload, split: Split, epoch: u32, at: RankPosition) -> Result<Vec<BatchOrder>> {
    let step_count = usize::try_from(steps(workload, split, at)?).unwrap_or(usize::MAX);
    let batch_size = usize::try_from(batch_size(workload, split)).unwrap_or(usize::MAX).max(1);
    // How TensorFlow's samples are dealt to workers depends on how many there are.
    let most = match loader(workload) {
        LoaderKind::TensorFlow => usize::MAX,
        _ => step_count.saturating_mul(batch_size),
    };
    let samples = samples::of_rank(workload, split, epoch, at, most);
    let workers = workload.reader.read_threads.max(1);
    let batches = match loader(workload) {
        LoaderKind::TensorFlow => interleaved(&samples, batch_size, workers),
        _ => in_turn(&samples, batch_size, workers),
    };
    Ok(batches.into_iter().take(step_count).collect())
}

/// The samples of [`batches`], one after the other.
pub fn samples(workload: &Workload, split: Split, epoch: u32, at: RankPosition) -> Result<Vec<u64>> {
    Ok(batches(workload, split, epoch, at)?.into_iter().flat_map(|batch| batch.samples).collect())
}

/// Batches that workers may have in work or ready beyond the one that is computed on.
pub fn read_ahead(workload: &Workload) -> u64 {
    let workers = u64::from(workload.reader.read_threads);
    let prefetch = u64::from(workload.reader.prefetch_size);
    match loader(workload) {
        _ if workers == 0 => 0,
        // PyTorch: `prefetch_factor` batches of each worker, which is 2 where none is given.
        LoaderKind::PyTorch if prefetch == 0 => 2 * workers,
        LoaderKind::PyTorch => prefetch.div_ceil(workers) * workers,
        _ => prefetch.max(1),
    }
}

/// Whether workers live for all epochs; otherwise each epoch has new ones (TensorFlow).
pub fn workers_persist(workload: &Workload) -> bool {
    loader(workload) != LoaderKind::TensorFlow
}

fn loader(workload: &Workload) -> LoaderKind {
    // h5bench has one pool of workers, whatever the framework.
    match workload.reader.rank_share {
        RankShare::Batches => LoaderKind::PyTorch,
        RankShare::Ranges => workload.reader.loader,
    }
}

/// PyTorch, DALI, h5bench: batches follow each other, and the workers take them in turn.
fn in_turn(samples: &[u64], batch_size: usize, workers: u32) -> Vec<BatchOrder> {
    let whole = samples.chunks_exact(batch_size);
    let turns = (0..workers).cycle();
    whole.zip(turns).map(|(samples, worker)| BatchOrder { worker, samples: samples.to_vec() }).collect()
}

/// TensorFlow: each worker has a contiguous part and makes batches of it, of which one from each is taken in turn.
///
/// Samples beyond the last equal part go to the first worker again, and the last batch of a worker may be short, as in DLIO.
fn interleaved(samples: &[u64], batch_size: usize, workers: u32) -> Vec<BatchOrder> {
    let worker_count = workers as usize;
    let part_len = (samples.len() / worker_count).max(1);
    let mut parts = vec![Vec::new(); worker_count];
    for (position, sample) in samples.iter().enumerate() {
        parts[position / part_len % worker_count].push(*sample);
    }
    let rounds = parts.iter().map(|part| part.len().div_ceil(batch_size)).max().unwrap_or(0);
    let turns = (0..rounds).flat_map(|round| (0..workers).map(move |worker| (round, worker)));
    let batches = turns.filter_map(|(round, worker)| {
        let samples = parts[worker as usize].chunks(batch_size).nth(round)?.to_vec();
        Some(BatchOrder { worker, samples })
    });
    batches.collect()
}
