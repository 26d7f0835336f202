//! The steps of one epoch as a loader makes them: each of its samples is a whole batch, in the order that the workload says.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

use forebay::{
    Error, ErrorKind, Result,
    batch::{BatchMaker, BatchRequest, LoaderStats, MadeFields, MakerThreads},
    plan::SetIdentity,
};
use forebay_workload::{EpochOrder, Mt19937, TimeDistribution};

use crate::{
    engine::{StepReader, StepRequest},
    phases::rank_orders::RankOrders,
    workers::worker::{BatchTimes, Preprocessing},
};

/// Makes the batches of one epoch by a [`StepReader`].
#[derive(Debug)]
pub(crate) struct StepMaker {
    reader: Arc<dyn StepReader>,
    batches: EpochOrder,
    /// What all ranks read, where they read together.
    of_ranks: Arc<RankOrders>,
    /// Simulated preprocessing of each sample, and what it is drawn from.
    preprocess: (TimeDistribution, u32),
    identity: SetIdentity,
    /// True when nobody waits for steps any more.
    is_over: Arc<AtomicBool>,
    /// How long each step took, until it is asked for.
    times: Mutex<HashMap<u64, BatchTimes>>,
}

impl StepMaker {
    /// The steps `batches`, read by `reader`.
    pub(crate) fn new(
        reader: Arc<dyn StepReader>,
        batches: EpochOrder,
        of_ranks: Arc<RankOrders>,
        (preprocess, seed): (TimeDistribution, u32),
        is_over: Arc<AtomicBool>,
    ) -> Self {
        let identity = SetIdentity {
            part_lens: vec![batches.len()],
            group_len: 1,
            numbering: None,
            content: "steps".to_owned(),
            version: "steps".to_owned(),
        };
        let preprocess = (preprocess, seed);
        Self { reader, batches, of_ranks, preprocess, identity, is_over, times: Mutex::default() }
    }

    /// How long the samples of `step` took; given once.
    pub(crate) fn take_times(&self, step: u64) -> BatchTimes {
        self.lock().remove(&step).unwrap_or_default()
    }

    /// Simulated preprocessing of the samples of `step`.
    fn preprocess_of(&self, step: u64, count: usize) -> Vec<f64> {
        let (distribution, seed) = self.preprocess;
        if distribution.is_zero() {
            return Vec::new();
        }
        #[expect(clippy::cast_possible_truncation, reason = "a seed: any bits will do")]
        let mut random = Mt19937::seeded(seed.wrapping_add((step as u32).wrapping_mul(2_654_435_761)));
        (0..count).map(|_| distribution.draw(&mut random)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, BatchTimes>> {
        // Entries are put in and taken out as wholes.
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchMaker for StepMaker {
    fn set(&self) -> &SetIdentity {
        &self.identity
    }

    fn threads(&self) -> MakerThreads {
        self.reader.threads()
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        let step = request.samples.first().copied().flatten();
        let batch = step.and_then(|step| self.batches.batch(step));
        let (Some(step), Some(batch)) = (step, batch) else {
            return Err(Error::new(ErrorKind::Bug, "a step that the epoch does not have"));
        };
        let preprocess_s = self.preprocess_of(step, batch.samples.len());
        let read = self.reader.read(&StepRequest {
            worker: batch.worker,
            samples: &batch.samples,
            preprocess: Preprocessing { seconds: &preprocess_s, is_over: &self.is_over },
            epoch: request.epoch,
            of_ranks: &self.of_ranks.of_step(step),
        })?;
        self.lock().insert(step, BatchTimes { worker: batch.worker, ..read.times });
        Ok(read.made)
    }

    fn is_too_long(&self, _sample: u64) -> bool {
        false
    }

    fn release_idle_memory(&self) {}

    fn stats(&self) -> LoaderStats {
        LoaderStats::default()
    }
}
