//! The threads that make the batches of a run, and the queue they put them in.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use forebay_batch::{BatchTurn, Depth, LoaderCounters, MakerThreads, MemoryTurn, ThreadClock, nanos};
use forebay_plan::Epoch;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    epoch::{
        batch::Batch,
        make_batch::{BatchTask, RunSpec},
    },
    tuning::{Tuning, Waiting},
};

/// What the consumer and the threads of a run share.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) queue: Mutex<BatchQueue>,
    /// The batch the consumer waits for is there.
    pub(super) ready: Condvar,
    /// There is room for another batch.
    pub(super) room: Condvar,
    /// There are to be more threads, or none.
    pub(super) needed: Condvar,
    pub(super) stop: AtomicBool,
    pub(super) waiting: Waiting,
    /// True when the consumer makes the batches itself.
    pub(super) is_on_caller: bool,
    pub(super) epoch: Epoch,
    pub(super) spec: RunSpec,
    pub(super) pace: RunPace,
}

/// How far ahead of the consumer batches are made, and by how many threads.
#[derive(Clone, Debug)]
pub(crate) struct RunPace {
    /// How many threads.
    pub(crate) depth: Arc<Depth>,
    /// Batches that memory has room for ahead of the consumer; 0 where each is made when it is asked for.
    pub(crate) ahead: u64,
    /// Batches that are to be made ahead besides one of each thread.
    pub(crate) prefetch: u64,
    /// Batches that a thread claims at a time.
    pub(crate) run_len: u64,
    pub(crate) tuning: Tuning,
}

impl RunPace {
    /// Batches that may be made ahead now.
    fn ahead(&self) -> u64 {
        let runs = self.prefetch.saturating_add(self.depth.now() as u64);
        self.ahead.min(runs.saturating_mul(self.run_len))
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RunTurn {
    /// The run is the one that the consumer takes batches of.
    #[default]
    Current,
    /// The batches of another come before all of it.
    Ahead,
}

/// Batches on their way, in order.
#[derive(Debug, Default)]
pub(super) struct BatchQueue {
    pub(super) turn: RunTurn,
    /// The next batch no thread works on yet.
    pub(super) next: u64,
    /// The next batch the consumer gets.
    pub(super) deliver: u64,
    pub(super) done: BTreeMap<u64, Result<Batch>>,
    /// Batches that threads work on.
    pub(super) in_work: Vec<u64>,
    pub(super) over: bool,
    pub(super) threads: Vec<JoinHandle<()>>,
    /// The consumer was given an error.
    pub(super) failed: bool,
    pub(super) working: usize,
    /// The consumer sleeps until its batch is there: waking it takes a system call, which is saved where it does not.
    pub(super) has_sleeper: bool,
    /// Threads that sleep until there is room.
    pub(super) idle: usize,
}

impl BatchQueue {
    pub(super) fn delivered_all(&self, step_count: u64) -> bool {
        !self.failed && self.deliver >= step_count
    }
}

impl Pipeline {
    pub(super) fn new(spec: RunSpec, epoch: Epoch, pace: RunPace, turn: RunTurn) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            queue: Mutex::new(BatchQueue { turn, ..BatchQueue::default() }),
            ready: Condvar::new(),
            room: Condvar::new(),
            needed: Condvar::new(),
            stop: AtomicBool::new(false),
            waiting: Waiting::new(pace.tuning, pace.depth.now() < processors),
            is_on_caller: spec.maker.threads() == MakerThreads::Caller,
            epoch,
            spec,
            pace,
        }
    }

    /// Starts the threads that are wanted now and not there.
    pub(super) fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let mut queue = self.lock();
        while !self.is_on_caller && !queue.over && queue.threads.len() < self.pace.depth.now() {
            let (shared, number) = (Arc::clone(self), queue.threads.len());
            let name = format!("forebay-{number}");
            let thread = thread::Builder::new().name(name).spawn(move || shared.work(number))?;
            queue.threads.push(thread);
            queue.working += 1;
        }
        Ok(())
    }

    fn work(self: &Arc<Self>, number: usize) {
        let mut clock = (!self.pace.depth.is_fixed()).then(ThreadClock::start);
        let mut claimed = 0..0;
        while let Some((step, oldest)) = self.claim(number, &mut claimed) {
            if let Some(clock) = &mut clock {
                clock.lap();
            }
            let turn = StepTurn::new(self, step);
            let batch = self.make(&turn, oldest, || self.waiting.may_verify(step));
            let effort = clock.as_mut().map(|clock| clock.since_lap().without_wait(turn.waited()));
            let mut queue = self.lock();
            queue.in_work.retain(|other| *other != step);
            let is_front = step == queue.deliver;
            let wakes = queue.has_sleeper && is_front;
            let is_awaited = queue.has_sleeper || self.waiting.is_waiting();
            let failed = batch.is_err();
            if !queue.over {
                queue.done.insert(step, batch);
            }
            if is_front {
                self.waiting.finish(step);
            }
            drop(queue);
            if wakes {
                self.ready.notify_one();
            }
            if failed {
                break;
            }
            if effort.is_some_and(|effort| self.pace.depth.note_batch(effort, is_awaited, Instant::now())) {
                // Where no more can be started, the present ones go on.
                let _ = self.start_threads();
                self.needed.notify_all();
            }
        }
        let mut queue = self.lock();
        queue.working -= 1;
        drop(queue);
        self.ready.notify_all();
    }

    /// The batch whose `turn` it is, where threads still work on `oldest`; a panic of the maker is an error.
    pub(super) fn make(
        &self,
        turn: &StepTurn<'_>,
        oldest: u64,
        leaves_unverified: impl Fn() -> bool,
    ) -> Result<Batch> {
        let task = BatchTask { step: turn.step, oldest, turn };
        let made = || self.spec.make_batch(&self.epoch, task, leaves_unverified);
        let panicked = |_| Err(Error::new(ErrorKind::Bug, "a thread of the loader panicked"));
        catch_unwind(AssertUnwindSafe(made)).unwrap_or_else(panicked)
    }

    /// True when the next run of batches may be made ahead of the consumer.
    pub(super) fn has_room(&self, queue: &BatchQueue) -> bool {
        let end = queue.next.saturating_add(self.pace.run_len).min(self.epoch.step_count());
        let most = match queue.turn {
            RunTurn::Current => self.pace.ahead(),
            // The other half are the last batches of the run before.
            RunTurn::Ahead => (self.pace.ahead() / 2).max(self.pace.run_len),
        };
        end <= queue.deliver + most
    }

    /// The next batch for thread `number` to work on: of those it has claimed, or of a run that it claims once there is room for
    /// it and need of the thread; with it, the first that some thread still works on. `None` when there is no more to do.
    fn claim(&self, number: usize, claimed: &mut Range<u64>) -> Option<(u64, u64)> {
        let mut queue = self.lock();
        let mut began = None;
        loop {
            let is_end = claimed.is_empty() && queue.next >= self.epoch.step_count();
            if self.stop.load(Relaxed) || queue.over || is_end {
                self.count_full(began);
                // Those that are not needed now have nothing to come back for either.
                self.needed.notify_all();
                return None;
            }
            let is_wanted = self.pace.ahead == 0 && queue.has_sleeper && queue.next == queue.deliver;
            if claimed.is_empty() && number >= self.pace.depth.now() {
                // Another thread does what this one was woken for.
                self.room.notify_one();
                queue = self.needed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if claimed.is_empty() && (is_wanted || self.has_room(&queue)) {
                *claimed = queue.next..self.epoch.step_count().min(queue.next + self.pace.run_len);
                queue.next = claimed.end;
                queue.in_work.extend(claimed.clone());
            }
            if let Some(step) = claimed.next() {
                let oldest = queue.in_work.iter().copied().min().unwrap_or(step);
                drop(queue);
                self.count_full(began);
                return Some((step, oldest));
            }
            began.get_or_insert_with(Instant::now);
            queue.idle += 1;
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// The batch, verified; where a source changed meanwhile, it is made anew.
    pub(super) fn verified(&self, mut batch: Batch) -> Result<Batch> {
        let unverified = batch.unverified.take();
        if unverified.is_none_or(|unverified| unverified.verify().is_ok()) {
            return Ok(batch);
        }
        let step = batch.step;
        drop(batch);
        self.make(&StepTurn::new(self, step), step, || false)
    }

    /// Counts the time since `began`, if a thread began to wait.
    fn count_full(&self, began: Option<Instant>) {
        if let Some(began) = began {
            LoaderCounters::lap(&self.spec.counters.full_ns, began);
        }
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
        // Under the lock, so that no thread is between looking at the flag and going to sleep.
        let queue = self.lock();
        self.room.notify_all();
        self.needed.notify_all();
        drop(queue);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BatchQueue> {
        // Batches are put in and taken out whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of one step: batches made ahead of it wait for memory, it does not.
///
/// The batch that the consumer waits for is always the next one of the run whose turn it is, so that it never waits for memory
/// that only the consumer can give back. A run that was begun ahead becomes that run once the one before is taken as a whole; what
/// was taken of it before, and is made once more on the consumer's thread, does not wait either.
#[derive(Debug)]
pub(super) struct StepTurn<'a> {
    pipeline: &'a Pipeline,
    step: u64,
    /// Nanoseconds in which it waited for memory.
    waited: AtomicU64,
}

impl<'a> StepTurn<'a> {
    pub(super) fn new(pipeline: &'a Pipeline, step: u64) -> Self {
        Self { pipeline, step, waited: AtomicU64::new(0) }
    }

    fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Relaxed))
    }
}

impl BatchTurn for StepTurn<'_> {
    fn turn(&self) -> MemoryTurn {
        let queue = self.pipeline.lock();
        let is_awaited = queue.turn == RunTurn::Current || queue.has_sleeper;
        match self.pipeline.stop.load(Relaxed) || queue.over {
            true => MemoryTurn::Never,
            false if self.step < queue.deliver || self.step == queue.deliver && is_awaited => MemoryTurn::Now,
            false => MemoryTurn::Later,
        }
    }

    fn note_wait(&self, time: Duration) {
        self.waited.fetch_add(nanos(time), Relaxed);
        LoaderCounters::add(&self.pipeline.spec.counters.memory_ns, nanos(time));
    }
}
