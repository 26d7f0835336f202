//! The threads that make batches ahead of the consumer, and the queue that hands them over in order.

use std::{
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use forebay_source::{Error, ErrorKind, Result, ledger};

use crate::{
    batch::Batch,
    depth::Depth,
    effort::ThreadClock,
    left_out::LeftOut,
    plan::Epoch,
    stats::Counters,
    trouble::{Crew, Task},
};

/// What asking for a batch gives.
#[derive(Debug)]
pub enum Next {
    /// The next batch.
    Batch(Box<Batch>),
    /// There is none yet: ask again.
    Waiting,
    /// The epoch is over.
    End,
}

/// One epoch on its way to the consumer. Dropping it ends its threads.
#[derive(Debug)]
pub struct Run {
    shared: Arc<Shared>,
    /// What was left out whole and is to be reported.
    left_out: LeftOut,
    /// The process whose threads these are.
    process: u32,
}

#[derive(Debug)]
struct Shared {
    queue: Mutex<Queue>,
    /// The batch the consumer waits for is there.
    ready: Condvar,
    /// There is room for another batch.
    room: Condvar,
    /// There are to be more threads, or none.
    needed: Condvar,
    stop: AtomicBool,
    /// One more than the batch that the consumer waits for at this moment; 0 where it waits for none.
    awaited: AtomicU64,
    /// One more than the last batch that was put in when the consumer was to get it next: seen without the lock.
    front: AtomicU64,
    /// True when a consumer that waits takes no processor from those it waits for.
    is_alert: bool,
    epoch: Epoch,
    crew: Crew,
    pace: Pace,
}

/// How far a run is ahead of its consumer, and how many threads see to that.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    /// How many threads.
    pub(crate) depth: Arc<Depth>,
    /// Batches that memory has room for ahead of the consumer; 0 where each is made when it is asked for.
    pub(crate) ahead: u64,
    /// Batches that are to be made ahead besides one of each thread.
    pub(crate) prefetch: u64,
}

impl Pace {
    /// Batches that may be made ahead now.
    fn ahead(&self) -> u64 {
        self.ahead.min(self.prefetch.saturating_add(self.depth.now() as u64))
    }
}

#[derive(Debug, Default)]
struct Queue {
    /// The next batch no thread works on yet.
    next: u64,
    /// The next batch the consumer gets.
    deliver: u64,
    done: BTreeMap<u64, Result<Batch>>,
    /// Batches that threads work on.
    in_work: Vec<u64>,
    over: bool,
    threads: Vec<JoinHandle<()>>,
    /// The consumer was given an error.
    failed: bool,
    working: usize,
    /// The consumer sleeps until its batch is there: waking it takes a system call, which is saved where it does not.
    has_sleeper: bool,
    /// Threads that sleep until there is room.
    idle: usize,
}

impl Queue {
    fn delivered_all(&self, step_count: u64) -> bool {
        !self.failed && self.deliver >= step_count
    }
}

/// Batches of a megabyte follow each other within 150 us, and to wake a consumer takes the thread that makes them 1.5 us. So
/// one that has a processor to itself stays awake that long: the batch it had goes back the sooner, and is filled again
/// while the processor that fills it still has it in its cache. 8 KiB samples: 0.78 of a mapped copy, and 0.75 without.
const ALERTNESS: Duration = Duration::from_micros(200);

/// How long a run that is dropped waits for its threads: one that is stuck in a read ends when the read does.
const PATIENCE: Duration = Duration::from_millis(500);

impl Run {
    /// Starts threads that make the batches of `epoch`, ahead of the consumer as `pace` says.
    pub(crate) fn start(crew: Crew, epoch: Epoch, pace: Pace) -> Result<Self> {
        let busy = pace.depth.busy();
        pace.depth.begin(Instant::now());
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            ready: Condvar::new(),
            room: Condvar::new(),
            needed: Condvar::new(),
            stop: AtomicBool::new(false),
            awaited: AtomicU64::new(0),
            front: AtomicU64::new(0),
            is_alert: pace.depth.now() < thread::available_parallelism().map_or(1, usize::from),
            epoch,
            crew,
            pace,
        });
        let run = Self { shared: Arc::clone(&shared), left_out: LeftOut::default(), process: process::id() };
        let (started, threads) = (shared.start_threads(), shared.lock().threads.len());
        match started {
            // Those that would only wait for data can be done without.
            Err(error) if threads < busy => {
                let what = format!("thread {} of {busy} could not be started", threads + 1);
                let error = Error::new(ErrorKind::Full, what).because(error);
                Err(error.hint(
                    "give fewer read_threads, or allow more threads or address space (ulimit -u, ulimit -v)",
                ))
            }
            _ => Ok(run),
        }
    }

    /// The next batch, waiting at most `patience` for it. One of which no sample can be read is left out, where that is wanted;
    /// an epoch of which none can be read is an error all the same.
    pub fn next(&mut self, patience: Duration) -> Result<Next> {
        let began = Instant::now();
        loop {
            let mut batch = match self.take(patience.saturating_sub(began.elapsed()))? {
                Next::Batch(batch) => batch,
                Next::End => return self.end(),
                Next::Waiting => return Ok(Next::Waiting),
            };
            if !self.left_out.note(&mut batch) {
                continue;
            }
            let counters = self.counters();
            Counters::add(&counters.batches, 1);
            Counters::add(&counters.samples, batch.sample_count());
            Counters::add(&counters.delivered_bytes, batch.byte_len());
            return Ok(Next::Batch(batch));
        }
    }

    /// The end of an epoch, or why nothing of it could be read.
    fn end(&mut self) -> Result<Next> {
        match self.left_out.take_reason() {
            // One that was closed early has said nothing of what would have come.
            Some(error) if self.shared.epoch.is_whole() && self.is_finished() => {
                self.fail();
                Err(error.at("no sample of the epoch can be read"))
            }
            _ => {
                self.left_out.warn_of_rest();
                Ok(Next::End)
            }
        }
    }

    /// The next batch, whatever is in it. A consumer that waits here helps the threads it waits for, where it takes no
    /// processor from them.
    fn take(&mut self, patience: Duration) -> Result<Next> {
        if self.process != process::id() {
            let error = Error::new(ErrorKind::Invalid, "an epoch does not survive a fork");
            return Err(error.hint("begin a new one in the child"));
        }
        let began = Instant::now();
        let mut is_fresh = true;
        let mut queue = self.shared.lock();
        let batch = loop {
            if queue.over || queue.deliver >= self.shared.epoch.step_count() {
                return Ok(Next::End);
            }
            let wanted = queue.deliver;
            if let Some(batch) = queue.done.remove(&wanted) {
                break batch;
            }
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                drop(queue);
                self.shared.awaited.store(0, Relaxed);
                self.count_wait(began);
                return Ok(Next::Waiting);
            }
            self.shared.awaited.store(wanted + 1, Relaxed);
            let is_alert = self.shared.is_alert && self.shared.pace.ahead > 0 && queue.idle == 0;
            if is_alert && std::mem::take(&mut is_fresh) {
                drop(queue);
                self.shared.look_out_for(wanted, left);
                queue = self.shared.lock();
                continue;
            }
            queue.has_sleeper = true;
            if queue.idle > 0 {
                // Where nothing is made ahead, this is what a thread waits for.
                self.shared.room.notify_one();
            }
            let waited = self.shared.ready.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.has_sleeper = false;
        };
        self.shared.awaited.store(0, Relaxed);
        queue.deliver += 1;
        let has_idle = queue.idle > 0;
        drop(queue);
        if has_idle {
            self.shared.room.notify_one();
        }
        let batch = batch.and_then(|batch| self.shared.make_sure(batch)).inspect_err(|_| self.fail());
        self.count_wait(began);
        Ok(Next::Batch(Box::new(batch?)))
    }

    /// True when all batches were delivered.
    pub fn is_finished(&self) -> bool {
        self.process == process::id() && self.shared.lock().delivered_all(self.step_count())
    }

    /// Batches of the epoch, from where the run began.
    pub fn step_count(&self) -> u64 {
        self.shared.epoch.step_count()
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.shared.epoch.number()
    }

    /// Which run of its loader it is.
    pub(crate) fn number(&self) -> u64 {
        self.shared.epoch.run()
    }

    /// Ends the run: its threads stop after what they are at. May be called more than once.
    pub fn close(&mut self) {
        if self.process != process::id() {
            // A forked child has the handles and not the threads, and a lock may be held for ever.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.shared.stop();
        let until = Instant::now() + PATIENCE;
        let mut queue = self.shared.lock();
        if queue.threads.is_empty() {
            return;
        }
        queue.over = true;
        queue.done.clear();
        while queue.working > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = self.shared.ready.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let all_done = queue.working == 0;
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        for thread in threads {
            // A thread that is stuck holds all it needs by itself and ends when it can.
            if all_done {
                let _ = thread.join();
            }
        }
        // Workers that are forked between epochs would have a copy of it, and hold it as long as they live.
        if ledger().has_forked() {
            self.shared.crew.assembler().arena.release();
        }
    }

    fn fail(&self) {
        let mut queue = self.shared.lock();
        queue.over = true;
        queue.failed = true;
        drop(queue);
        self.shared.stop();
    }

    fn counters(&self) -> &Counters {
        &self.shared.crew.assembler().counters
    }

    fn count_wait(&self, began: Instant) {
        Counters::lap(&self.counters().wait_ns, began);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Starts what there ought to be of threads now and is not.
    fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let mut queue = self.lock();
        while !queue.over && queue.threads.len() < self.pace.depth.now() {
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
        while let Some(task) = self.claim(number) {
            if let Some(clock) = &mut clock {
                clock.lap();
            }
            let step = task.step;
            // A consumer that waits has the time to make sure of its batch, while the next is begun here.
            let is_awaited = || self.awaited.load(Relaxed) == step + 1;
            let batch = catch_unwind(AssertUnwindSafe(|| self.crew.batch(&self.epoch, task, is_awaited)));
            let panicked = || Error::new(ErrorKind::Bug, "a thread of the loader panicked");
            let batch = batch.unwrap_or_else(|_| Err(panicked()));
            let effort = clock.as_mut().map(ThreadClock::since_lap);
            let mut queue = self.lock();
            queue.in_work.retain(|other| *other != step);
            let is_front = step == queue.deliver;
            let wakes = queue.has_sleeper && is_front;
            let is_awaited = queue.has_sleeper || self.awaited.load(Relaxed) > 0;
            let failed = batch.is_err();
            if !queue.over {
                queue.done.insert(step, batch);
            }
            if is_front {
                self.front.store(step + 1, Release);
            }
            drop(queue);
            if wakes {
                self.ready.notify_one();
            }
            if failed {
                break;
            }
            if effort.is_some_and(|effort| self.pace.depth.hear(effort, is_awaited, Instant::now())) {
                // Those there are go on alone if no more can be had.
                let _ = self.start_threads();
                self.needed.notify_all();
            }
        }
        let mut queue = self.lock();
        queue.working -= 1;
        drop(queue);
        self.ready.notify_all();
    }

    /// The next batch for thread `number` to work on, once there is room for it and need of the thread; `None` when there is
    /// no more to do.
    fn claim(&self, number: usize) -> Option<Task> {
        let mut queue = self.lock();
        let mut began = None;
        loop {
            if self.stop.load(Relaxed) || queue.over || queue.next >= self.epoch.step_count() {
                self.count_full(began);
                return None;
            }
            let is_wanted = self.pace.ahead == 0 && queue.has_sleeper && queue.next == queue.deliver;
            if number >= self.pace.depth.now() {
                // Whatever it was woken for is for another thread to do.
                self.room.notify_one();
                queue = self.needed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if is_wanted || queue.next < queue.deliver + self.pace.ahead() {
                let step = queue.next;
                queue.next += 1;
                queue.in_work.push(step);
                let oldest = queue.in_work.iter().copied().min().unwrap_or(step);
                drop(queue);
                self.count_full(began);
                return Some(Task { step, oldest });
            }
            began.get_or_insert_with(Instant::now);
            queue.idle += 1;
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    /// Stays awake until the batch of `step` is there, but not for long.
    fn look_out_for(&self, step: u64, patience: Duration) {
        let (began, patience) = (Instant::now(), ALERTNESS.min(patience));
        while self.front.load(Acquire) <= step && !self.stop.load(Relaxed) {
            if began.elapsed() >= patience {
                return;
            }
            // A look at the clock costs as much as a few of these.
            (0..8).for_each(|_| std::hint::spin_loop());
        }
    }

    /// The batch, once those it came from have vouched for it; where one does not, it is made anew.
    fn make_sure(&self, mut batch: Batch) -> Result<Batch> {
        let doubts = std::mem::take(&mut batch.doubts);
        if self.crew.assembler().vouch(&doubts).is_ok() {
            return Ok(batch);
        }
        let task = Task { step: batch.step, oldest: batch.step };
        drop(batch);
        self.crew.batch(&self.epoch, task, || false)
    }

    /// Counts the time since `began`, if a thread began to wait.
    fn count_full(&self, began: Option<Instant>) {
        if let Some(began) = began {
            Counters::lap(&self.crew.assembler().counters.full_ns, began);
        }
    }

    fn stop(&self) {
        self.stop.store(true, Relaxed);
        // Under the lock, so that no thread is between looking at the flag and going to sleep.
        let queue = self.lock();
        self.room.notify_all();
        self.needed.notify_all();
        drop(queue);
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Batches are put in and taken out whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
