//! A set of samples, an order, and where the consumer is in it.

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

use forebay_batch::{Backing, BatchMaker, Depth, LoaderCounters, LoaderStats, MakerThreads, PlainBacking};
use forebay_plan::{
    Epoch, Groups, LoaderState, ORDER_VERSION, Plan, PlanSpec, Resumed, STATE_VERSION, SetIdentity,
    StateCheck,
};
use forebay_process::{Error, ErrorKind, Event, EventKind, Result};

use crate::{
    assemble::file_maker::FileMaker,
    epoch::{
        batch::{Batch, Receipt},
        cursor::{EpochCursor, RunToken},
        make_batch::RunSpec,
        observer::{EpochObserver, Observation},
        run::{Next, Run, RunPace, RunTurn},
        schedule::Schedule,
    },
    estimate::Estimate,
    memory::setup::{InForce, ReaderKind, file_maker},
    options::Options,
    set::SampleSet,
    tuning::Tuning,
};

/// Gives the batches of a set of samples, epoch after epoch.
///
/// A batch counts in the [`state`](Self::state) once it is committed. [`next`](Self::next) commits what it gives; a consumer
/// that takes batches ahead of their use, such as one that copies them to a device, takes them by
/// [`next_uncommitted`](Self::next_uncommitted) and commits each when it was used.
#[derive(Debug)]
pub struct Loader {
    /// First, so that it is dropped before the set: an observer may have threads that look into the schedule.
    observation: Option<Observation>,
    maker: Arc<dyn BatchMaker>,
    /// The same, where samples come from files.
    files: Option<Arc<FileMaker>>,
    /// The samples that epochs have.
    identity: SetIdentity,
    options: Options,
    pace: RunPace,
    counters: Arc<LoaderCounters>,
    cursor: Mutex<EpochCursor>,
}

impl Loader {
    /// A loader of `set`.
    pub fn new(set: Arc<SampleSet>, options: Options) -> Result<Self> {
        Self::over(set, options, Arc::new(PlainBacking::default()))
    }

    /// A loader of `set` whose batches lie in memory of `backing`; decoded units and scratch memory do not.
    pub fn over(set: Arc<SampleSet>, options: Options, backing: Arc<dyn Backing>) -> Result<Self> {
        let files = Arc::new(file_maker(set, &options, ReaderKind::Loader, backing)?);
        let shares = files.shares;
        files.set.check_longest(shares.memory, &options)?;
        let is_far = files.layout.request_bytes > 0;
        let depth = Arc::new(Depth::new(shares.threads, shares.most_threads, is_far));
        let prefetch = options.prefetch as u64;
        let pace =
            RunPace { depth, ahead: shares.ahead, prefetch, run_len: shares.run_len, tuning: files.tuning };
        Self::with(Arc::clone(&files) as _, Some(files), options, pace)
    }

    /// A loader of the samples of `maker`. Of `options` those hold that say which samples come when, how many threads there
    /// are and how far they are ahead, and what is done about errors.
    pub fn of_maker(maker: Arc<dyn BatchMaker>, options: Options) -> Result<Self> {
        let (threads, prefetch) = (options.threads()?, options.prefetch as u64);
        let ahead = if prefetch == 0 { 0 } else { prefetch + threads as u64 };
        let depth = Arc::new(Depth::new(threads, threads, false));
        let pace = RunPace { depth, ahead, prefetch, run_len: 1, tuning: Tuning::from_env() };
        Self::with(maker, None, options, pace)
    }

    fn with(
        maker: Arc<dyn BatchMaker>,
        files: Option<Arc<FileMaker>>,
        options: Options,
        pace: RunPace,
    ) -> Result<Self> {
        let identity = options.sampler.identity(maker.set())?;
        let plan = options.plan(Groups::new(&identity.part_lens, identity.group_len)?)?;
        tell_of_dropped(&plan);
        let (cursor, counters) = (Mutex::new(EpochCursor::at(plan, 0, 0, 0)), Arc::default());
        Ok(Self { observation: None, maker, files, identity, options, pace, counters, cursor })
    }

    /// Reports its epochs to `observer` from now on. A loader whose samples do not come from files has no schedule to report.
    pub fn observe(&mut self, observer: Box<dyn EpochObserver>) -> Result<()> {
        self.files()?;
        self.observation = Some(Observation::new(observer));
        Ok(())
    }

    /// The observer, if it has one that is a `T`.
    pub fn observer<T: EpochObserver>(&self) -> Option<&T> {
        let observer: &dyn Any = self.observation.as_ref()?.observer();
        observer.downcast_ref()
    }

    /// Has its batches made by what `decorate` makes of its maker: one of the same samples.
    pub fn decorate(
        &mut self,
        decorate: impl FnOnce(Arc<dyn BatchMaker>) -> Result<Arc<dyn BatchMaker>>,
    ) -> Result<()> {
        self.maker = decorate(Arc::clone(&self.maker))?;
        Ok(())
    }

    /// The epoch that is begun next, and the position of its order where it begins.
    pub fn upcoming(&self) -> (u64, u64) {
        self.cursor().upcoming()
    }

    /// The same where that is by [`start_next`](Self::start_next) after `before`.
    pub fn upcoming_after(&self, before: &Run) -> (u64, u64) {
        self.cursor().upcoming_after(before.number())
    }

    /// Begins an epoch: the one that was set or loaded, or else the one after the last that was begun.
    pub fn start(&self) -> Result<Run> {
        self.start_steps(u64::MAX)
    }

    /// The same, of which at most `steps` batches are made.
    pub fn start_steps(&self, steps: u64) -> Result<Run> {
        self.begin_observation(self.upcoming())?;
        self.start_observed(steps)
    }

    fn start_observed(&self, steps: u64) -> Result<Run> {
        let mut cursor = self.cursor();
        let token = cursor.begin();
        let epoch = cursor.plan.epoch(cursor.epoch, cursor.position)?.in_run(cursor.runs).first_steps(steps);
        drop(cursor);
        self.start_run(epoch, RunTurn::Current, token)
    }

    /// Begins the epoch after that of `before`, all of whose batches were handed out: they can still be committed. Where they were
    /// not all handed out, or another epoch was set, it is as [`start`](Self::start).
    pub fn start_next(&self, before: &Run) -> Result<Run> {
        self.begin_observation(self.upcoming_after(before))?;
        let mut cursor = self.cursor();
        let after = cursor.after(before.number());
        let Some((number, epoch, token)) = after.filter(|(number, ..)| cursor.follow(*number)) else {
            drop(cursor);
            return self.start_observed(u64::MAX);
        };
        let epoch = cursor.plan.epoch(epoch, 0)?.in_run(number);
        drop(cursor);
        self.start_run(epoch, RunTurn::Current, token)
    }

    /// Begins to make the epoch after that of `run`, while the last batches of that wait for the consumer; nothing where it is
    /// too early for that, or where another epoch was set, and never where an observer has one epoch at a time.
    /// [`follow`](Self::follow) makes it the consumer's.
    pub fn start_after(&self, run: &Run) -> Result<Option<Run>> {
        if self.observation.is_some() || !run.is_nearly_over() {
            return Ok(None);
        }
        let mut cursor = self.cursor();
        let Some((number, epoch, token)) = cursor.after(run.number()) else { return Ok(None) };
        let epoch = cursor.plan.epoch(epoch, 0)?.in_run(number);
        drop(cursor);
        self.start_run(epoch, RunTurn::Ahead, token).map(Some)
    }

    /// Goes on with `run`, which [`start_after`](Self::start_after) gave; false where another epoch was set since, and `run` is
    /// of no use.
    pub fn follow(&self, run: &Run) -> bool {
        let follows = self.cursor().follow(run.number());
        if follows {
            run.take_turn();
        }
        follows
    }

    fn start_run(&self, epoch: Epoch, turn: RunTurn, token: RunToken) -> Result<Run> {
        let (maker, counters) = (Arc::clone(&self.maker), Arc::clone(&self.counters));
        let spec = RunSpec { maker, on_error: self.options.on_error, counters };
        Run::start(spec, epoch, self.pace.clone(), turn, token)
    }

    /// Begins an epoch, as [`start`](Self::start) does, and gives its batches.
    pub fn batches(&self) -> Result<Batches<'_>> {
        Ok(Batches { loader: self, run: self.start()? })
    }

    /// The next batch of `run`, committed.
    pub fn next(&self, run: &mut Run, patience: Duration) -> Result<Next> {
        let next = self.next_uncommitted(run, patience)?;
        if let Next::Batch(batch) = &next {
            self.commit(batch.receipt());
        }
        Ok(next)
    }

    /// The next batch of `run`, which counts in the state once it is [committed](Self::commit).
    pub fn next_uncommitted(&self, run: &mut Run, patience: Duration) -> Result<Next> {
        let next = run.next(patience)?;
        match &next {
            Next::Batch(batch) => self.cursor().hand_out(batch.receipt()),
            Next::End if run.is_finished() => self.cursor().finish(run.number()),
            Next::End | Next::Waiting => {}
        }
        match (&next, &self.observation) {
            (Next::Batch(batch), Some(observation)) => {
                observation.observer().deliver(batch.epoch, batch.step)
            }
            (Next::End, Some(observation)) => observation.end(),
            _ => {}
        }
        Ok(next)
    }

    /// Counts a batch as used.
    ///
    /// # Contract
    ///
    /// - A state that is taken now goes on with the batch after it, also where later ones were handed out.
    /// - Batches before it count as used too, those of epochs before it among them. One that is committed again, or after a later
    ///   one, changes nothing.
    /// - A batch of an epoch that was left for another [`start`](Self::start), or for [`load_state`](Self::load_state), or that was
    ///   closed before [`set_epoch`](Self::set_epoch), changes nothing. One whose epoch was handed out as a whole and
    ///   [followed](Self::follow) by the next counts.
    pub fn commit(&self, receipt: Receipt) {
        self.cursor().commit(receipt);
    }

    /// Where the consumer is: after the last batch that it committed.
    pub fn state(&self) -> LoaderState {
        self.state_of(&self.cursor())
    }

    fn state_of(&self, cursor: &EpochCursor) -> LoaderState {
        let (PlanSpec { shuffle, seed, .. }, set) = (*cursor.plan.spec(), &self.identity);
        LoaderState {
            version: STATE_VERSION,
            order_version: ORDER_VERSION,
            fingerprint: set.content.clone(),
            files: set.version.clone(),
            samples: set.sample_count(),
            shuffle,
            group_len: cursor.plan.group_len(),
            parts: set.parts_digest(),
            seed,
            epoch: cursor.epoch,
            position: cursor.position,
        }
    }

    /// Goes on from `state`: the next epoch that is begun continues there, in the state's own order.
    pub fn load_state(&self, state: &LoaderState, check: StateCheck) -> Result<Resumed> {
        let set = &self.identity;
        state.check(set, check)?;
        let options = Options { shuffle: state.shuffle, seed: state.seed, ..self.options.clone() };
        let plan = options.plan(Groups::new(&set.part_lens, state.group_len)?)?;
        plan.epoch(state.epoch, state.position)?;
        let mut cursor = self.cursor();
        let is_other_order = (plan.spec(), plan.group_len()) != (cursor.plan.spec(), cursor.plan.group_len());
        *cursor = EpochCursor::at(plan, state.epoch, state.position, cursor.runs);
        drop(cursor);
        if let Some(observation) = self.observation.as_ref().filter(|_| is_other_order) {
            observation.forget();
        }
        Ok(if state.files == set.version { Resumed::SameFiles } else { Resumed::OtherFiles })
    }

    /// Makes `epoch` the next one that is begun, from its start. A run that is under way goes on, and its batches still count: the
    /// [`state`](Self::state) is at `epoch` once all of them are committed.
    pub fn set_epoch(&self, epoch: u64) {
        self.cursor().set_epoch(epoch);
    }

    /// Batches of a whole epoch, wherever the consumer is in it.
    pub fn step_count(&self) -> Result<u64> {
        self.cursor().plan.step_count(0)
    }

    /// Batches that the consumer has yet to commit of the epoch it is in, or else of the next.
    pub fn remaining(&self) -> Result<u64> {
        let cursor = self.cursor();
        cursor.plan.step_count(cursor.position)
    }

    /// Where the consumer is, or nothing where that takes a lock that another thread has: in a forked child that thread may not
    /// be there.
    pub fn state_at_once(&self) -> Option<LoaderState> {
        match self.cursor.try_lock() {
            Ok(cursor) => Some(self.state_of(&cursor)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.state_of(&poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Gives memory that no batch lies in back to the system, also that of decoded units.
    pub fn release_memory(&self) {
        self.maker.release_memory();
    }

    /// What makes its batches.
    pub fn maker(&self) -> &Arc<dyn BatchMaker> {
        &self.maker
    }

    /// True when batches may be made on one thread alone, the one that asks for them.
    pub fn makes_on_caller(&self) -> bool {
        self.maker.threads() == MakerThreads::Caller
    }

    /// How it works.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What it did so far.
    pub fn stats(&self) -> LoaderStats {
        self.maker.stats().plus(&self.counters.stats())
    }

    /// What threads, memory and spill are in force; the memory of a maker that does not read files is not known.
    pub fn in_force(&self) -> InForce {
        if let Some(files) = &self.files {
            return files.in_force();
        }
        let threads = self.pace.depth.busy();
        InForce { threads, most_threads: threads, batches_ahead: self.pace.ahead, ..InForce::default() }
    }

    /// What its epochs cost from the start, computed without running them.
    pub fn estimate(&self) -> Result<Estimate> {
        let files = self.files()?;
        let memory = Some(files.shares.memory);
        Estimate::of(&files.set, &Options { memory, ..self.options.clone() })
    }

    /// Which bytes its samples need, and when.
    pub fn schedule(&self) -> Result<Schedule> {
        let FileMaker { set, layout, keeps_units, .. } = &**self.files()?;
        Schedule::of(Arc::clone(set), Arc::clone(layout), *keeps_units, self.plan())
    }

    /// The plan of the epochs.
    pub fn plan(&self) -> Plan {
        self.cursor().plan.clone()
    }

    /// Reports the epoch that starts next. First the observer: it would otherwise fetch again what the loader's threads are at.
    fn begin_observation(&self, upcoming: (u64, u64)) -> Result<()> {
        let Some(observation) = &self.observation else { return Ok(()) };
        observation.begin(upcoming, || self.schedule())
    }

    fn files(&self) -> Result<&Arc<FileMaker>> {
        let none = || Error::new(ErrorKind::Unsupported, "the samples of this loader do not come from files");
        self.files.as_ref().ok_or_else(none)
    }

    fn cursor(&self) -> MutexGuard<'_, EpochCursor> {
        // Set as a whole: a panic elsewhere cannot leave half of it.
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The batches of one epoch.
#[derive(Debug)]
pub struct Batches<'a> {
    loader: &'a Loader,
    run: Run,
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        loop {
            match self.loader.next(&mut self.run, Duration::from_secs(1)) {
                Ok(Next::Batch(batch)) => return Some(Ok(*batch)),
                Ok(Next::Waiting) => {}
                Ok(Next::End) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Tells of samples at the end of each epoch that do not fill a batch on every rank and are left out.
fn tell_of_dropped(plan: &Plan) {
    let dropped = plan.dropped();
    if dropped > 0 {
        let PlanSpec { batch, shard, .. } = plan.spec();
        let text = format!(
            "{dropped} samples are left out of each epoch: they do not fill a batch of {batch} on each of {} ranks",
            shard.world
        );
        Event::new(EventKind::Tail, text).emit();
    }
}
