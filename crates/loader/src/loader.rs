//! A set of samples, an order, and where the consumer is in it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    time::Duration,
};

use forebay_source::Result;

use crate::{
    Estimate, Groups, ORDER_VERSION,
    assemble::Assembler,
    batch::Batch,
    depth::Depth,
    group::group_len,
    options::Options,
    plan::{Plan, PlanSpec},
    run::{Next, Pace, Run},
    schedule::Schedule,
    set::SampleSet,
    setup::{InForce, Reader, assembler},
    shares::Shares,
    state::{STATE_VERSION, State},
    stats::Stats,
    trouble::Crew,
};

/// Gives the batches of a set of samples, epoch after epoch.
#[derive(Debug)]
pub struct Loader {
    assembler: Arc<Assembler>,
    options: Options,
    shares: Shares,
    depth: Arc<Depth>,
    cursor: Mutex<Cursor>,
}

#[derive(Debug)]
struct Cursor {
    plan: Plan,
    epoch: u64,
    position: u64,
    /// True when the next run begins here, not with the epoch after.
    is_set: bool,
    /// Runs begun so far.
    runs: u64,
}

impl Cursor {
    /// Goes to the start of the next epoch.
    fn begin_next(&mut self) {
        (self.epoch, self.position, self.is_set) = (self.epoch + 1, 0, true);
    }
}

impl Loader {
    /// A loader of `set`.
    pub fn new(set: Arc<SampleSet>, options: Options) -> Result<Self> {
        let (assembler, shares) = assembler(set, &options, Reader::Loader)?;
        assembler.set.check_longest(assembler.memory, options.on_error)?;
        let plan = plan(&options, groups(&assembler.set)?)?;
        let cursor = Mutex::new(Cursor { plan, epoch: 0, position: 0, is_set: true, runs: 0 });
        let is_far = assembler.layout.request_bytes > 0;
        let depth = Arc::new(Depth::new(shares.threads, shares.most_threads, is_far));
        Ok(Self { assembler: Arc::new(assembler), options, shares, depth, cursor })
    }

    /// The epoch that is begun next, and the position of its order where it begins.
    pub fn upcoming(&self) -> (u64, u64) {
        let cursor = self.cursor();
        if cursor.is_set || cursor.position == 0 {
            return (cursor.epoch, if cursor.is_set { cursor.position } else { 0 });
        }
        (cursor.epoch + 1, 0)
    }

    /// Begins an epoch: the one that was set or loaded, or else the one after the last that was begun.
    pub fn start(&self) -> Result<Run> {
        let mut cursor = self.cursor();
        if !cursor.is_set && cursor.position > 0 {
            cursor.epoch += 1;
            cursor.position = 0;
        }
        cursor.is_set = false;
        cursor.runs += 1;
        let epoch = cursor.plan.epoch(cursor.epoch, cursor.position)?.in_run(cursor.runs);
        let seed = cursor.plan.spec().seed;
        drop(cursor);
        let crew = Crew { assembler: Arc::clone(&self.assembler), on_error: self.options.on_error, seed };
        let pace = Pace {
            depth: Arc::clone(&self.depth),
            ahead: self.shares.ahead,
            prefetch: self.options.prefetch as u64,
        };
        Run::start(crew, epoch, pace)
    }

    /// Begins an epoch, as [`start`](Self::start) does, and gives its batches.
    pub fn batches(&self) -> Result<Batches<'_>> {
        Ok(Batches { loader: self, run: self.start()? })
    }

    /// The next batch of `run`, counted as received.
    pub fn next(&self, run: &mut Run, patience: Duration) -> Result<Next> {
        let next = run.next(patience)?;
        let mut cursor = self.cursor();
        // A run that was overtaken by a later one no longer says where the consumer is.
        if run.number() == cursor.runs && !cursor.is_set {
            match &next {
                // After the last batch nothing is left of the epoch: what goes on from here begins the next.
                Next::Batch(batch) if batch.step + 1 >= run.step_count() => cursor.begin_next(),
                Next::Batch(batch) => cursor.position = batch.consumed,
                Next::End if run.is_finished() => cursor.begin_next(),
                Next::End | Next::Waiting => {}
            }
        }
        Ok(next)
    }

    /// Where the consumer is.
    pub fn state(&self) -> State {
        self.state_of(&self.cursor())
    }

    fn state_of(&self, cursor: &Cursor) -> State {
        let PlanSpec { shuffle, seed, .. } = *cursor.plan.spec();
        State {
            version: STATE_VERSION,
            order_version: ORDER_VERSION,
            fingerprint: self.set().content_fingerprint().to_owned(),
            files: self.set().fingerprint().to_owned(),
            samples: self.set().len(),
            shuffle,
            group_len: cursor.plan.group_len(),
            parts: self.set().parts_fingerprint(),
            seed,
            epoch: cursor.epoch,
            position: cursor.position,
        }
    }

    /// Goes on from `state`: the next epoch that is begun continues there, in the state's own order.
    pub fn load_state(&self, state: &State, check: Check) -> Result<Resumed> {
        state.check(self.set(), check)?;
        let options = Options { shuffle: state.shuffle, seed: state.seed, ..self.options.clone() };
        let groups = Groups::new(&self.set().part_lens(), state.group_len)?;
        let plan = plan(&options, groups)?;
        plan.epoch(state.epoch, state.position)?;
        let mut cursor = self.cursor();
        let runs = cursor.runs;
        *cursor = Cursor { plan, epoch: state.epoch, position: state.position, is_set: true, runs };
        let is_same = state.files == self.set().fingerprint();
        Ok(if is_same { Resumed::SameFiles } else { Resumed::OtherFiles })
    }

    /// Makes `epoch` the next one that is begun, from its start.
    pub fn set_epoch(&self, epoch: u64) {
        let mut cursor = self.cursor();
        // Setting the epoch a loaded state is in must not lose its place.
        if cursor.is_set && cursor.epoch == epoch {
            return;
        }
        (cursor.epoch, cursor.position, cursor.is_set) = (epoch, 0, true);
    }

    /// Batches of a whole epoch, wherever the consumer is in it.
    pub fn step_count(&self) -> Result<u64> {
        self.cursor().plan.step_count(0)
    }

    /// Batches that the consumer has yet to receive of the epoch it is in, or else of the next.
    pub fn remaining(&self) -> Result<u64> {
        let cursor = self.cursor();
        cursor.plan.step_count(cursor.position)
    }

    /// Where the consumer is, or nothing where that cannot be told without waiting: in a forked child, a thread that is
    /// not there may hold it for ever.
    pub fn state_at_once(&self) -> Option<State> {
        match self.cursor.try_lock() {
            Ok(cursor) => Some(self.state_of(&cursor)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.state_of(&poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The samples.
    pub fn set(&self) -> &Arc<SampleSet> {
        &self.assembler.set
    }

    /// How it works.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What it did so far.
    pub fn stats(&self) -> Stats {
        self.assembler.counters.stats()
    }

    /// What threads, memory and spill are in force.
    pub fn in_force(&self) -> InForce {
        self.assembler.in_force(&self.shares)
    }

    /// What its epochs cost from the start, reckoned and not run.
    pub fn estimate(&self) -> Result<Estimate> {
        let memory = Some(self.shares.memory);
        Estimate::of(self.set(), &Options { memory, ..self.options.clone() })
    }

    /// Which bytes its samples need, and when.
    pub fn schedule(&self) -> Result<Schedule> {
        let Assembler { set, layout, keeps_units, .. } = &*self.assembler;
        Schedule::of(Arc::clone(set), Arc::clone(layout), *keeps_units, self.plan())
    }

    /// The plan of the epochs.
    pub fn plan(&self) -> Plan {
        self.cursor().plan.clone()
    }

    fn cursor(&self) -> MutexGuard<'_, Cursor> {
        // Set as a whole: a panic elsewhere cannot leave half of it.
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a loaded state must agree with the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The same files, or copies of them: names, lengths, counts and types agree.
    Strict,
    /// As many samples; under a block shuffle, as many in each file.
    CountOnly,
}

/// What a state that was loaded had been taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Resumed {
    /// The very files that are read now.
    SameFiles,
    /// Files with other times of modification or ETags: copies of these, if nobody wrote to them.
    OtherFiles,
}

/// The groups of all samples of `set`.
pub(crate) fn groups(set: &SampleSet) -> Result<Groups> {
    Groups::new(&set.part_lens(), group_len(set))
}

/// The plan of epochs over `groups`, which are those of a set or the first of them.
pub(crate) fn plan(options: &Options, groups: Groups) -> Result<Plan> {
    let spec = PlanSpec {
        shuffle: options.shuffle,
        seed: options.seed,
        batch: options.batch_size,
        shard: options.shard,
        tail: options.tail,
    };
    Plan::new(spec, Arc::new(groups))
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
