//! How the samples of a rank become batches of workers: which positions of the rank's list are in which step.

use crate::order::counts::RankPosition;

/// The positions of batches, by formulas: nothing is listed.
#[derive(Clone, Copy, Debug)]
pub(super) enum BatchDealing {
    /// PyTorch, DALI, h5bench: batches follow each other, and the workers take them in turn; the last incomplete one is left out.
    InTurn {
        /// Samples of the rank.
        len: u64,
        batch: u64,
        workers: u32,
    },
    /// TensorFlow: each worker has a contiguous part and makes batches of it, of which one from each is taken in turn.
    ///
    /// Samples beyond the last equal part go to the first workers again, and the last batch of a worker may be short, as in DLIO.
    Interleaved { len: u64, batch: u64, workers: u32 },
}

/// One batch: its worker, and the positions of its samples in the rank's list as up to a few runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DealtBatch {
    pub(super) worker: u32,
    /// The first sample among those of the worker, and how many there are.
    first: u64,
    pub(super) len: u64,
}

impl BatchDealing {
    /// How many batches there are.
    pub(super) fn count(&self) -> u64 {
        match *self {
            Self::InTurn { len, batch, .. } => len / batch,
            Self::Interleaved { batch, workers, .. } => {
                (0..workers).map(|worker| self.worker_len(worker).div_ceil(batch)).sum()
            }
        }
    }

    /// Batch number `step`.
    pub(super) fn batch(&self, step: u64) -> Option<DealtBatch> {
        match *self {
            Self::InTurn { batch, workers, .. } => {
                let worker = u32::try_from(step % u64::from(workers)).expect("below the workers");
                let dealt = DealtBatch { worker, first: step * batch, len: batch };
                (step < self.count()).then_some(dealt)
            }
            Self::Interleaved { batch, workers, .. } => {
                let (round, worker) = self.round_of(step)?;
                debug_assert!(worker < workers);
                let first = round * batch;
                let len = batch.min(self.worker_len(worker) - first);
                Some(DealtBatch { worker, first, len })
            }
        }
    }

    /// The position of sample `index` of `batch` in the rank's list.
    pub(super) fn position(&self, batch: DealtBatch, index: u64) -> u64 {
        let number = batch.first + index;
        match *self {
            Self::InTurn { .. } => number,
            Self::Interleaved { workers, .. } => {
                let part = self.part_len();
                let turn = number / part * u64::from(workers) + u64::from(batch.worker);
                turn * part + number % part
            }
        }
    }

    /// The round and the worker of `step`: later rounds lack the last workers, which have fewer samples.
    fn round_of(&self, step: u64) -> Option<(u64, u32)> {
        let Self::Interleaved { batch, workers, .. } = *self else { return None };
        let rounds_of = |worker| self.worker_len(worker).div_ceil(batch);
        let full_rounds = rounds_of(workers - 1);
        let worker_of = |number: u64| u32::try_from(number).expect("below the workers");
        if step < full_rounds * u64::from(workers) {
            return Some((step / u64::from(workers), worker_of(step % u64::from(workers))));
        }
        let mut left = step - full_rounds * u64::from(workers);
        for round in full_rounds..rounds_of(0) {
            let with_it = (0..workers).take_while(|worker| rounds_of(*worker) > round).count() as u64;
            if left < with_it {
                return Some((round, worker_of(left)));
            }
            left -= with_it;
        }
        None
    }

    /// Samples of a worker; no worker has more than one before it.
    fn worker_len(&self, worker: u32) -> u64 {
        let (Self::InTurn { len, workers, .. } | Self::Interleaved { len, workers, .. }) = *self;
        let part = self.part_len();
        let cycle = part * u64::from(workers);
        let rest = (len % cycle).saturating_sub(part * u64::from(worker)).min(part);
        len / cycle * part + rest
    }

    /// Samples of a contiguous part.
    fn part_len(&self) -> u64 {
        let (Self::InTurn { len, workers, .. } | Self::Interleaved { len, workers, .. }) = *self;
        (len / u64::from(workers)).max(1)
    }
}

/// DLIO's share of a rank as a start and a length: a range of equal length, shorter on the last ranks.
pub(super) fn range_of(total: u64, at: RankPosition) -> (u64, u64) {
    let of_each = total.div_ceil(u64::from(at.ranks.max(1)));
    let from = (of_each * u64::from(at.rank)).min(total);
    (from, of_each.min(total - from))
}

/// h5bench's share of a rank, as a start and a length: equally many whole batches.
pub(super) fn batches_of(total: u64, batch_size: u64, at: RankPosition) -> (u64, u64) {
    let len = total / batch_size.max(1) / u64::from(at.ranks.max(1)) * batch_size;
    (len * u64::from(at.rank), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plainest way: all positions dealt to lists.
    fn listed(len: u64, batch: u64, workers: u32) -> Vec<(u32, Vec<u64>)> {
        let part_len = (len / u64::from(workers)).max(1);
        let mut parts = vec![Vec::new(); workers as usize];
        for position in 0..len {
            parts[usize::try_from(position / part_len).unwrap() % workers as usize].push(position);
        }
        let batch = usize::try_from(batch).unwrap();
        let rounds = parts.iter().map(|part| part.len().div_ceil(batch)).max().unwrap_or(0);
        let turns = (0..rounds).flat_map(|round| (0..workers).map(move |worker| (round, worker)));
        let batches = turns.filter_map(|(round, worker)| {
            Some((worker, parts[worker as usize].chunks(batch).nth(round)?.to_vec()))
        });
        batches.collect()
    }

    #[test]
    fn interleaved_batches_are_those_of_lists() {
        for len in 0..40 {
            for (batch, workers) in [(1, 1), (1, 4), (2, 3), (3, 5), (5, 2), (7, 7)] {
                let dealing = BatchDealing::Interleaved { len, batch, workers };
                let dealt: Vec<_> = (0..dealing.count())
                    .map(|step| {
                        let batch = dealing.batch(step).unwrap();
                        (batch.worker, (0..batch.len).map(|at| dealing.position(batch, at)).collect())
                    })
                    .collect();
                assert_eq!(dealt, listed(len, batch, workers), "{len} samples, {batch} of {workers}");
                assert_eq!(dealing.batch(dealing.count()), None);
            }
        }
    }
}
