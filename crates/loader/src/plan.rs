//! Which samples are in which batch: pure, so that resuming, sharding and looking ahead are arithmetic.

use std::{ops::Range, sync::Arc};

use forebay_source::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{
    groups::Groups,
    ledger::{Horizon, Moment},
    options::Options,
    order::{Order, Shuffle},
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
    /// The plan of epochs over `groups` as `options` say.
    pub(crate) fn of(options: &Options, groups: Groups) -> Result<Self> {
        let &Options { shuffle, seed, batch_size: batch, shard, tail, .. } = options;
        Self::new(PlanSpec { shuffle, seed, batch, shard, tail }, Arc::new(groups))
    }

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
            order: order(epoch)?,
            steps: self.steps(start)?,
            next_order: order(epoch.wrapping_add(1))?,
            next_steps: self.steps(0)?,
            is_full: matches!(self.spec.shuffle, Shuffle::Full),
        })
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
    order: Order,
    steps: Steps,
    next_order: Order,
    next_steps: Steps,
    is_full: bool,
}

impl Epoch {
    /// Which epoch.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The same epoch as run number `run`: what is known of another run's future does not hold for it.
    pub(crate) fn in_run(self, run: u64) -> Self {
        Self { run, ..self }
    }

    /// Which run it is.
    pub(crate) fn run(&self) -> u64 {
        self.run
    }

    /// The moment of `step`.
    pub(crate) fn moment(&self, step: u64) -> Moment {
        Moment::new(self.run, step)
    }

    /// Batches in it, the same on every rank.
    pub fn step_count(&self) -> u64 {
        self.steps.step_count()
    }

    /// How many ranks share it.
    pub(crate) fn world(&self) -> u32 {
        self.steps.spec().shard.world
    }

    /// True when it begins with its first sample, and not in the middle.
    pub(crate) fn is_whole(&self) -> bool {
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

    /// Positions of the order that all ranks together have consumed after batch `step`.
    pub fn consumed_after(&self, step: u64) -> u64 {
        self.steps.consumed_after(step)
    }
}

impl Horizon for Epoch {
    fn uses(&self, samples: Range<u64>, now: Moment) -> Vec<Moment> {
        let steps = samples.filter_map(|sample| self.step_of(sample));
        steps.map(|step| self.moment(step)).filter(|moment| *moment >= now).collect()
    }

    /// A full shuffle uses every unit again and again, in every epoch; the others use each for a while, and the next
    /// epoch may as well decode it again.
    fn looks_beyond(&self) -> bool {
        self.is_full
    }

    fn next_epoch_use(&self, samples: Range<u64>, _: Moment) -> Moment {
        let steps = samples.filter_map(|sample| self.next_steps.step_of(self.next_order.position(sample)));
        steps.map(|step| Moment::new(self.run + 1, step)).min().unwrap_or(Moment::NEVER)
    }
}
