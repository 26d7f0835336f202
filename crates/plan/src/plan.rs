//! Which samples are in which batch: pure, so that resuming, sharding and looking ahead are arithmetic.

use std::sync::Arc;

use forebay_source::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{
    groups::Groups,
    order::{Order, Shuffle},
    seed::sample_seed,
    shard::{Shard, Steps, StepsSpec, Tail},
};

/// What a plan is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSpec {
    /// In which order samples come.
    pub shuffle: Shuffle,
    /// Where the order starts from.
    pub seed: u64,
    /// Samples of a batch.
    pub batch: u64,
    /// Which of the ranks this is.
    pub shard: Shard,
    /// What becomes of an incomplete last batch; where nothing is said, one rank alone has a shorter one, and several
    /// must come out even.
    pub tail: Option<Tail>,
}

/// All epochs of one rank.
#[derive(Clone, Debug)]
pub struct Plan {
    spec: PlanSpec,
    groups: Arc<Groups>,
}

impl Plan {
    /// The plan of `spec` for samples that lie in `groups`.
    pub fn new(spec: PlanSpec, groups: Arc<Groups>) -> Result<Self> {
        let spec = PlanSpec { shuffle: spec.shuffle.decided(&groups), ..spec };
        let plan = Self { spec, groups };
        plan.steps(0)?;
        Ok(plan)
    }

    /// What it was made from, with the lanes of a block shuffle decided.
    pub fn spec(&self) -> &PlanSpec {
        &self.spec
    }

    /// How many samples are in a group that is best read together.
    pub fn group_len(&self) -> u64 {
        self.groups.group_len()
    }

    /// Batches that remain of an epoch once `start` positions of its order are consumed, the same on every rank.
    pub fn step_count(&self, start: u64) -> Result<u64> {
        Ok(self.steps(start)?.step_count())
    }

    /// What remains of epoch `epoch` once `start` positions of its order are consumed.
    pub fn epoch(&self, epoch: u64, start: u64) -> Result<Epoch> {
        let order = |epoch| Order::new(self.spec.shuffle, self.spec.seed, epoch, Arc::clone(&self.groups));
        Ok(Epoch {
            number: epoch,
            run: epoch,
            seed: self.spec.seed,
            order: order(epoch)?,
            steps: self.steps(start)?,
            next_order: order(epoch.wrapping_add(1))?,
            next_steps: self.steps(0)?,
            is_full: matches!(self.spec.shuffle, Shuffle::Full),
            most_steps: u64::MAX,
        })
    }

    /// Samples at the end of each whole epoch that fill no batch on every rank and are left out.
    pub fn dropped(&self) -> u64 {
        self.steps(0).map_or(0, |steps| steps.dropped())
    }

    fn steps(&self, start: u64) -> Result<Steps> {
        let PlanSpec { shuffle, batch, shard, tail, .. } = self.spec;
        let (world, remaining) = (u64::from(shard.world), self.groups.len().saturating_sub(start));
        let width = world.saturating_mul(batch);
        let tail = match tail {
            Some(tail) => tail,
            None if world <= 1 || width == 0 => Tail::Short,
            None if remaining.is_multiple_of(width) => Tail::Drop,
            None => {
                let what = format!("{remaining} samples do not divide into {world} ranks x {batch}");
                let error = Error::new(ErrorKind::Invalid, what);
                return Err(error.hint("set tail='drop', 'pad' or 'wrap'"));
            }
        };
        Steps::new(StepsSpec { len: self.groups.len(), start, batch, shard, tail, shuffle })
    }
}

/// One epoch of one rank.
#[derive(Debug)]
pub struct Epoch {
    number: u64,
    /// Which run it is, counted over all.
    run: u64,
    /// Where the order starts from.
    seed: u64,
    order: Order,
    steps: Steps,
    next_order: Order,
    next_steps: Steps,
    is_full: bool,
    /// Batches that are wanted of it.
    most_steps: u64,
}

impl Epoch {
    /// Which epoch.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The seed for whatever is random about `sample` in this epoch.
    pub fn sample_seed(&self, sample: u64) -> u64 {
        sample_seed(self.seed, self.number, sample)
    }

    /// The same epoch as run number `run`: what is known of another run's future does not hold for it.
    pub fn in_run(self, run: u64) -> Self {
        Self { run, ..self }
    }

    /// The same epoch, of which at most `steps` batches are wanted.
    pub fn first_steps(self, steps: u64) -> Self {
        Self { most_steps: steps, ..self }
    }

    /// Which run it is.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Batches in it, the same on every rank.
    pub fn step_count(&self) -> u64 {
        self.steps.step_count().min(self.most_steps)
    }

    /// How many ranks share it.
    pub fn world(&self) -> u32 {
        self.steps.spec().shard.world
    }

    /// True when it begins with its first sample, and not in the middle.
    pub fn is_whole(&self) -> bool {
        self.steps.spec().start == 0
    }

    /// Puts the samples of batch `step` into `samples`, `None` where padding stands.
    pub fn batch(&self, step: u64, samples: &mut Vec<Option<u64>>) {
        self.steps.positions(step, samples);
        for slot in samples.iter_mut().flatten() {
            *slot = self.order.sample(*slot);
        }
    }

    /// The step in which `sample` is used, if this rank uses it; what a wrapped tail repeats is not counted.
    pub fn step_of(&self, sample: u64) -> Option<u64> {
        self.steps.step_of(self.order.position(sample))
    }

    /// The step of the next epoch in which `sample` is used, if this rank uses it then.
    pub fn next_epoch_step_of(&self, sample: u64) -> Option<u64> {
        self.next_steps.step_of(self.next_order.position(sample))
    }

    /// True when every sample may come anywhere in it.
    pub fn is_fully_shuffled(&self) -> bool {
        self.is_full
    }

    /// Positions of the order that all ranks together have consumed after batch `step`.
    pub fn consumed_after(&self, step: u64) -> u64 {
        self.steps.consumed_after(step)
    }
}
