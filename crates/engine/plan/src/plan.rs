//! Which samples are in which batch: pure, so that resuming, sharding and looking ahead are arithmetic.

use std::sync::Arc;

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{
    groups::Groups,
    order::{Order, Shuffle},
    sampler::Sampler,
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
    sampler: Sampler,
}

impl Plan {
    /// The plan of `spec` for samples that lie in `groups`.
    pub fn new(spec: PlanSpec, groups: Arc<Groups>) -> Result<Self> {
        Self::of_sampler(spec, groups, Sampler::default())
    }

    /// The plan of `spec` for the samples of `sampler`, whose subset lies in `groups`.
    pub fn of_sampler(spec: PlanSpec, groups: Arc<Groups>, sampler: Sampler) -> Result<Self> {
        let spec = PlanSpec { shuffle: spec.shuffle.decided(&groups), ..spec };
        if sampler.draws.is_some() && matches!(spec.shuffle, Shuffle::Block { .. }) {
            let error = Error::new(ErrorKind::Invalid, "a block shuffle of samples that are drawn");
            return Err(error.hint("set shuffle='full', or leave it out"));
        }
        // What is drawn may be anywhere.
        let shuffle = if sampler.draws.is_some() { Shuffle::Full } else { spec.shuffle };
        let plan = Self { spec: PlanSpec { shuffle, ..spec }, groups, sampler };
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
        let order = |epoch| match &self.sampler.draws {
            Some(draws) => Ok(Order::drawn(Arc::clone(draws), self.spec.seed, epoch)),
            None => Order::new(self.spec.shuffle, self.spec.seed, epoch, Arc::clone(&self.groups)),
        };
        Ok(Epoch {
            number: epoch,
            run: epoch,
            seed: self.spec.seed,
            order: order(epoch)?,
            steps: self.steps(start)?,
            next_order: order(epoch.wrapping_add(1))?,
            next_steps: self.steps(0)?,
            is_full: matches!(self.spec.shuffle, Shuffle::Full),
            sampler: self.sampler.clone(),
            most_steps: u64::MAX,
        })
    }

    /// Samples at the end of each whole epoch that fill no batch on every rank and are left out.
    pub fn dropped(&self) -> u64 {
        self.steps(0).map_or(0, |steps| steps.dropped())
    }

    /// Which samples its epochs have.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// Positions of an epoch.
    pub fn epoch_len(&self) -> u64 {
        self.sampler.draws.as_ref().map_or_else(|| self.groups.len(), |draws| draws.len())
    }

    fn steps(&self, start: u64) -> Result<Steps> {
        let PlanSpec { shuffle, batch, shard, tail, .. } = self.spec;
        let (world, remaining) = (u64::from(shard.world), self.epoch_len().saturating_sub(start));
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
        Steps::new(StepsSpec { len: self.epoch_len(), start, batch, shard, tail, shuffle })
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
    sampler: Sampler,
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

    /// Puts the samples of batch `step` into `samples`, as the whole set counts them; `None` where padding stands.
    pub fn batch(&self, step: u64, samples: &mut Vec<Option<u64>>) {
        self.numbers(step, samples);
        if self.sampler.subset.is_some() {
            samples.iter_mut().flatten().for_each(|slot| *slot = self.sampler.sample(*slot));
        }
    }

    /// Puts the samples of batch `step` into `numbers`, as the subset counts them; `None` where padding stands.
    pub fn numbers(&self, step: u64, numbers: &mut Vec<Option<u64>>) {
        self.steps.positions(step, numbers);
        let ranked = self.sampler.subset.as_ref().filter(|_| self.order.is_by_rank());
        for slot in numbers.iter_mut().flatten() {
            let drawn = self.order.sample(*slot);
            *slot = ranked.map_or(drawn, |subset| subset.by_rank(drawn));
        }
    }

    /// Which samples of the whole set it has.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// The first step in which `sample` of the whole set is used, if this rank uses it; what a wrapped tail repeats is not
    /// counted.
    pub fn step_of(&self, sample: u64) -> Option<u64> {
        let mut first = None::<u64>;
        self.each_step_of(sample, |step| first = Some(first.map_or(step, |first| first.min(step))));
        first
    }

    /// Calls `each` with every step in which this rank uses `sample` of the whole set, in any order; what a wrapped tail
    /// repeats is not counted.
    pub fn each_step_of(&self, sample: u64, mut each: impl FnMut(u64)) {
        self.each_position(&self.order, sample, &mut |position| {
            self.steps.step_of(position).into_iter().for_each(&mut each);
        });
    }

    /// The first step of the next epoch in which `sample` of the whole set is used, if this rank uses it then.
    pub fn next_epoch_step_of(&self, sample: u64) -> Option<u64> {
        let mut first = None::<u64>;
        self.each_position(&self.next_order, sample, &mut |position| {
            let step = self.next_steps.step_of(position);
            first = first.into_iter().chain(step).min();
        });
        first
    }

    fn each_position(&self, order: &Order, sample: u64, each: &mut dyn FnMut(u64)) {
        let Some(subset) = &self.sampler.subset else { return order.each_position(sample, each) };
        for rank in subset.ranks(sample) {
            order.each_position(if order.is_by_rank() { rank } else { subset.by_rank(rank) }, each);
        }
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
