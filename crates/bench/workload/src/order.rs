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
//! Batches are formulas over positions of the rank's list, and the list is kept only where it is shuffled; parts of a shuffled list are
//! found without it (`order/trace.rs`). DLIO's defects in order ([`Workload::like_dlio`]) are in `samples.rs` and `shuffle.rs`.

mod counts;
mod dealing;
mod numbers;
mod samples;
mod shuffle;
mod trace;

use forebay_process::{Error, ErrorKind, Result};

use self::{
    dealing::{BatchDealing, batches_of, range_of},
    numbers::{SampleNumbers, ShuffledPart},
    samples::StoredSamples,
    shuffle::{generator, shuffles_samples},
};
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
/// A limit above the steps that there are is an error, as in DLIO; a limit of all ranks is a maximum, as in h5bench.
pub fn steps(workload: &Workload, split: Split, at: RankPosition) -> Result<u64> {
    let samples = files_used(workload, split, at.ranks) * workload.dataset.num_samples_per_file;
    let there_are = samples / batch_size(workload, split).max(1) / u64::from(at.ranks.max(1));
    let Some(limit) = workload.train.steps_per_epoch.filter(|_| split == Split::Train) else {
        return Ok(there_are);
    };
    let limit = match workload.train.steps_of_all_ranks {
        true => {
            let (ranks, rank) = (u64::from(at.ranks.max(1)), u64::from(at.rank));
            (limit / ranks + u64::from(rank < limit % ranks)).min(there_are)
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

/// The batches of one rank in one epoch, each made when it is asked for.
///
/// In order they take no memory. Shuffled they take 4 bytes for each sample of the epoch; where a run reads a small part of an epoch,
/// as `bert` does, for each sample that it reads.
#[derive(Clone, Debug)]
pub struct EpochOrder {
    dealing: BatchDealing,
    numbers: SampleNumbers,
    stored: StoredSamples,
    steps: u64,
}

impl EpochOrder {
    /// The batches of the rank `at` in `epoch`, from 1.
    pub fn new(workload: &Workload, split: Split, epoch: u32, at: RankPosition) -> Result<Self> {
        let batch = batch_size(workload, split).max(1);
        let stored = StoredSamples::new(workload, split, epoch, at);
        let total = stored.total();
        let (from, len) = match workload.reader.rank_share {
            RankShare::Ranges => range_of(total, at),
            RankShare::Batches => batches_of(total, batch, at),
        };
        let workers = workload.reader.read_threads.max(1);
        let dealing = match loader(workload) {
            LoaderKind::TensorFlow => BatchDealing::Interleaved { len, batch, workers },
            _ => BatchDealing::InTurn { len, batch, workers },
        };
        let steps = steps(workload, split, at)?.min(dealing.count());
        let numbers = if shuffles_samples(workload) {
            let random = generator(workload, workload.reader.sample_shuffle, epoch);
            // DLIO shuffles within the range of a rank, h5bench all samples, of which a rank takes its part.
            let shuffled = match workload.reader.rank_share {
                RankShare::Ranges => ShuffledPart { random, first: from, len, part: (0, len) },
                RankShare::Batches => ShuffledPart { random, first: 0, len: total, part: (from, len) },
            };
            shuffled.numbers(dealing, batch, steps)
        } else {
            SampleNumbers::InOrder(from)
        };
        Ok(Self { dealing, numbers, stored, steps })
    }

    /// How many batches there are.
    pub fn len(&self) -> u64 {
        self.steps
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.steps == 0
    }

    /// The batch of `step`, from 0.
    pub fn batch(&self, step: u64) -> Option<BatchOrder> {
        let dealt = self.dealing.batch(step).filter(|_| step < self.steps)?;
        let sample = |index| {
            let position = self.dealing.position(dealt, index);
            self.stored.sample(self.numbers.at(position, step, index), position)
        };
        Some(BatchOrder { worker: dealt.worker, samples: (0..dealt.len).map(sample).collect() })
    }

    /// Bytes that the order takes.
    pub fn byte_len(&self) -> usize {
        self.numbers.byte_len()
    }
}

/// The batches of one rank in one epoch (from 1), step by step, as a list.
pub fn batches(workload: &Workload, split: Split, epoch: u32, at: RankPosition) -> Result<Vec<BatchOrder>> {
    let order = EpochOrder::new(workload, split, epoch, at)?;
    Ok((0..order.len()).map_while(|step| order.batch(step)).collect())
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
