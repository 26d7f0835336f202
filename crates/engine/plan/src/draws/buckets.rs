//! Runs of samples of similar length, shuffled: each sample once.
//!
//! ```text
//! all samples    shuffled by the key (seed, epoch)
//! pools          each of some runs, sorted by length
//! runs           of as many samples as a batch has, shuffled; an incomplete one comes last
//! ```
//!
//! A pool is a quarter of all runs, at most 64 of them: batches have other companions in every epoch, and their samples
//! differ in length by as much as neighbours in a sorted pool do.

use std::sync::Arc;

use forebay_process::Result;

use super::checks::{check_count, invalid};
use crate::{
    permutation::Permutation,
    seed::{Purpose, SeedKey},
};

/// Runs of samples of similar length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketDraws {
    lens: Arc<[u64]>,
    run_len: u64,
}

/// Runs of a pool, at the most.
const MOST_POOLED: u64 = 64;

impl BucketDraws {
    /// All samples, which have the lengths `lens`, in runs of `run_len`: what a batch has.
    pub fn new(lens: Vec<u64>, run_len: u64) -> Result<Self> {
        check_count("the number of samples", lens.len() as u64)?;
        if run_len == 0 {
            return Err(invalid("batch_size=0", "set batch_size to at least 1"));
        }
        Ok(Self { lens: lens.into(), run_len })
    }

    pub(super) fn population(&self) -> u64 {
        self.lens.len() as u64
    }

    pub(super) fn each_word(&self, add: &mut dyn FnMut(u64)) {
        add(self.run_len);
        self.lens.iter().for_each(|len| add(*len));
    }

    /// The numbers of an epoch.
    pub(super) fn table(&self, seed: u64, epoch: u64) -> Vec<u32> {
        let count = self.population();
        let order = Permutation::new(count, SeedKey::new(Purpose::Samples, seed, epoch).pair());
        let mut numbers: Vec<u32> =
            (0..count).map(|position| u32::try_from(order.at(position)).unwrap_or(u32::MAX)).collect();
        let run_len = usize::try_from(self.run_len).unwrap_or(usize::MAX).min(numbers.len().max(1));
        let run_count = numbers.len() / run_len;
        let pooled = (run_count as u64 / 4).clamp(1, MOST_POOLED);
        let pool = run_len.saturating_mul(usize::try_from(pooled).unwrap_or(1));
        numbers.chunks_mut(pool).for_each(|pool| pool.sort_by_key(|number| self.lens[*number as usize]));
        let runs = Permutation::new(run_count as u64, SeedKey::new(Purpose::Run, seed, epoch).pair());
        let run = |at: usize| {
            let start = usize::try_from(runs.at(at as u64)).unwrap_or(0) * run_len;
            &numbers[start..start + run_len]
        };
        let rest = &numbers[run_count * run_len..];
        (0..run_count).flat_map(run).chain(rest).copied().collect()
    }
}
