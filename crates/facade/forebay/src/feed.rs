//! A loader, the tiers it reads through, and what it tells them of the future.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use forebay_batch::{Backing, BatchMaker, MakerThreads, PlainBacking};
use forebay_loader::{InForce, Loader, Next, Options, Receipt, Run, SampleSet};
use forebay_plan::{LoaderState, Resumed, StateCheck};
use forebay_process::{Histogram, LatencySummary, ProcessIdentity, Result, current_process};
use forebay_tier::{Stats, Tiered};
use forebay_transform::{BatchRoom, FieldForm, TransformSpec, Transformed};
use serde::Serialize;

use crate::{LoaderForesight, foresee};

/// A loader and the tiers it reads through.
///
#[derive(Debug)]
pub struct Feed {
    loader: Loader,
    tiers: Option<Arc<Tiered>>,
    epochs: Mutex<Epochs>,
    /// Held here: the tiers hold a weak reference.
    foresight: Mutex<Option<Arc<LoaderForesight>>>,
    /// The process whose tiers these are.
    process: ProcessIdentity,
    /// How long reads of the set's origin took.
    origin_latency: Arc<Histogram>,
}

/// What was read from where, run by run.
#[derive(Debug, Default)]
struct Epochs {
    done: Vec<EpochTiers>,
    /// The epoch under way, and what was read before it.
    current: Option<(u64, Stats)>,
}

/// What one epoch read from where.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochTiers {
    /// Which epoch.
    pub epoch: u64,
    /// The part of all bytes read that came from tiers.
    pub hit_ratio: Option<f64>,
    /// Reads that the tiers spared the origin.
    pub saved: u64,
    /// The rest.
    #[serde(flatten)]
    pub stats: Stats,
}

/// What was read from where, in all and epoch by epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierReport {
    /// In all, opening included.
    #[serde(flatten)]
    pub total: Stats,
    /// Reads that the tiers spared the origin.
    pub saved: u64,
    /// Epoch by epoch, the one under way last.
    pub epochs: Vec<EpochTiers>,
}

/// More epochs than this are not remembered one by one.
const MOST_EPOCHS: usize = 1000;

impl EpochTiers {
    fn new(epoch: u64, stats: Stats) -> Self {
        Self { epoch, hit_ratio: stats.hit_ratio(), saved: stats.saved(), stats }
    }
}

impl Feed {
    /// A loader of `set`, which was opened through `tiers`.
    pub fn new(set: Arc<SampleSet>, options: Options, tiers: Option<Arc<Tiered>>) -> Result<Self> {
        Ok(Self::of(Loader::new(set, options)?, tiers))
    }

    /// The same, whose batches lie in memory of `backing`.
    pub fn over(
        set: Arc<SampleSet>,
        options: Options,
        tiers: Option<Arc<Tiered>>,
        backing: Arc<dyn Backing>,
    ) -> Result<Self> {
        Ok(Self::of(Loader::over(set, options, backing)?, tiers))
    }

    /// A loader of the batches of `maker`, which reads through no tiers of its own.
    pub fn of_maker(maker: Arc<dyn BatchMaker>, options: Options) -> Result<Self> {
        Ok(Self::of(Loader::of_maker(maker, options)?, None))
    }

    fn of(loader: Loader, tiers: Option<Arc<Tiered>>) -> Self {
        let (epochs, foresight) = (Mutex::default(), Mutex::default());
        Self { loader, tiers, epochs, foresight, process: current_process(), origin_latency: Arc::default() }
    }

    /// The same, whose batches of fields `forms` are transformed as `spec` says; those lie in memory of `backing`, if one is given.
    pub fn transformed(
        mut self,
        forms: &[FieldForm],
        spec: &TransformSpec,
        backing: Option<Arc<dyn Backing>>,
    ) -> Result<Self> {
        if spec.is_none() {
            return Ok(self);
        }
        let batch_size = self.loader.options().batch_size;
        // Two are the consumer's at least: one it is given while it still holds the one before.
        let held = self.loader.options().held.max(2) as u64;
        let batches = self.loader.in_force().batches_ahead + held;
        let backing = backing.unwrap_or_else(|| Arc::new(PlainBacking::default()));
        let room = BatchRoom { batch_size, batches, backing };
        self.loader.decorate(|maker| Ok(Arc::new(Transformed::new(maker, forms, spec, room)?)))?;
        Ok(self)
    }

    /// The same, with what the origin of the set measures: [`Origins::latency`](crate::Origins::latency).
    #[must_use]
    pub fn measured_by(mut self, origin_latency: Arc<Histogram>) -> Self {
        self.origin_latency = origin_latency;
        self
    }

    /// How long reads of the set's origin took so far, by whichever loader of the set; empty if it is not measured.
    pub fn origin_latency(&self) -> LatencySummary {
        self.origin_latency.summary()
    }

    /// Begins an epoch, and tells the tiers what is in it.
    pub fn start(&self) -> Result<Run> {
        self.begin_tiers(self.loader.upcoming())?;
        self.loader.start()
    }

    /// Begins the epoch after that of `before`, whose batches can still be committed, as [`Loader::start_next`] does.
    pub fn start_next(&self, before: &Run) -> Result<Run> {
        self.begin_tiers(self.loader.upcoming_after(before))?;
        self.loader.start_next(before)
    }

    /// Begins to make the next epoch ahead, as [`Loader::start_after`] does; never where there are tiers, which have one epoch at
    /// a time.
    pub fn start_after(&self, run: &Run) -> Result<Option<Run>> {
        if self.tiers.is_some() { Ok(None) } else { self.loader.start_after(run) }
    }

    /// Goes on with a run that was begun ahead, as [`Loader::follow`] does.
    pub fn follow(&self, run: &Run) -> bool {
        self.loader.follow(run)
    }

    /// The next batch of `run`, committed.
    pub fn next(&self, run: &mut Run, patience: Duration) -> Result<Next> {
        let next = self.next_uncommitted(run, patience)?;
        if let Next::Batch(batch) = &next {
            self.commit(batch.receipt());
        }
        Ok(next)
    }

    /// Counts a batch as used, as [`Loader::commit`] does.
    pub fn commit(&self, receipt: Receipt) {
        self.loader.commit(receipt);
    }

    /// The next batch of `run`, which counts in the state once it is [committed](Self::commit).
    pub fn next_uncommitted(&self, run: &mut Run, patience: Duration) -> Result<Next> {
        let next = self.loader.next_uncommitted(run, patience)?;
        match (&next, &self.tiers) {
            (Next::End, Some(tiers)) => self.close_epoch(tiers),
            (Next::Batch(batch), Some(_)) => {
                if let Some(foresight) = &*self.lock_foresight() {
                    foresight.reach(batch.epoch, batch.step);
                }
            }
            _ => {}
        }
        Ok(next)
    }

    /// True when batches may be made on one thread alone, the one that asks for them.
    pub fn makes_on_caller(&self) -> bool {
        self.loader.maker().threads() == MakerThreads::Caller
    }

    /// Goes on from `state`, as [`Loader::load_state`] does. What the tiers know of another order is forgotten.
    pub fn load_state(&self, state: &LoaderState, check: StateCheck) -> Result<Resumed> {
        let before = self.loader.plan();
        let resumed = self.loader.load_state(state, check)?;
        let plan = self.loader.plan();
        if (plan.spec(), plan.group_len()) != (before.spec(), before.group_len()) {
            drop(self.lock_foresight().take());
        }
        Ok(resumed)
    }

    /// Where the consumer is.
    pub fn state(&self) -> LoaderState {
        self.loader.state()
    }

    /// Where the consumer is, or nothing where that cannot be known without waiting, as [`Loader::state_at_once`].
    pub fn state_at_once(&self) -> Option<LoaderState> {
        self.loader.state_at_once()
    }

    /// Makes `epoch` the next one that is begun, from its start.
    pub fn set_epoch(&self, epoch: u64) {
        self.loader.set_epoch(epoch);
    }

    /// The epoch that is begun next, and the position of its order where it begins.
    pub fn upcoming(&self) -> (u64, u64) {
        self.loader.upcoming()
    }

    /// Batches of a whole epoch, wherever the consumer is in it.
    pub fn step_count(&self) -> Result<u64> {
        self.loader.step_count()
    }

    /// Batches that the consumer has yet to commit of the epoch it is in, or else of the next.
    pub fn remaining(&self) -> Result<u64> {
        self.loader.remaining()
    }

    /// Gives memory back to the system, as [`Loader::release_memory`] does.
    pub fn release_memory(&self) {
        self.loader.release_memory();
    }

    /// How the loader works.
    pub fn options(&self) -> &Options {
        self.loader.options()
    }

    /// What the loader did so far.
    pub fn stats(&self) -> forebay_batch::LoaderStats {
        self.loader.stats()
    }

    /// What threads, memory and spill are in force.
    pub fn in_force(&self) -> InForce {
        self.loader.in_force()
    }

    /// What was read from where; nothing without tiers.
    pub fn tier_report(&self) -> Option<TierReport> {
        let epochs = self.lock();
        let total = self.tiers.as_ref()?.stats();
        let mut reports = epochs.done.clone();
        if let Some((epoch, before)) = &epochs.current {
            reports.push(EpochTiers::new(*epoch, total.since(before)));
        }
        Some(TierReport { saved: total.saved(), total, epochs: reports })
    }

    /// The tiers.
    pub fn tiers(&self) -> Option<&Arc<Tiered>> {
        self.tiers.as_ref()
    }

    /// Has the tiers begin an epoch at a position of it. First the tiers: what the loader's threads are at by then would be fetched
    /// twice.
    fn begin_tiers(&self, (epoch, position): (u64, u64)) -> Result<()> {
        let Some(tiers) = &self.tiers else { return Ok(()) };
        self.close_epoch(tiers);
        self.lock().current = Some((epoch, tiers.stats()));
        self.foresee(tiers, epoch, position)
    }

    /// Tells the tiers what the epoch that has begun will read.
    fn foresee(&self, tiers: &Tiered, epoch: u64, position: u64) -> Result<()> {
        let mut known = self.lock_foresight();
        match &*known {
            Some(foresight) => foresight.begin(tiers, epoch, position),
            None => {
                let schedule = Arc::new(self.loader.schedule()?);
                *known = Some(foresee(tiers, schedule, epoch, position)?);
                Ok(())
            }
        }
    }

    fn lock_foresight(&self) -> MutexGuard<'_, Option<Arc<LoaderForesight>>> {
        self.foresight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_epoch(&self, tiers: &Tiered) {
        let mut epochs = self.lock();
        let now = tiers.stats();
        if let Some((epoch, before)) = epochs.current.take()
            && epochs.done.len() < MOST_EPOCHS
        {
            epochs.done.push(EpochTiers::new(epoch, now.since(&before)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Epochs> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        // A thread of the tiers that is just asking what comes next would otherwise be the last to hold the set, and leave
        // the tiers some time after they were closed.
        let foresight = self.foresight.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != current_process() {
            // A forked child has neither those threads nor these tiers, and a thread of the parent may have held a lock in them.
            return std::mem::forget(foresight);
        }
        drop(foresight);
        if let Some(tiers) = &self.tiers {
            tiers.finish_looking();
        }
    }
}
