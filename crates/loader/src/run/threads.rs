//! The threads that make the batches of a run, and the queue that they put them in.

use std::{
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
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

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    batch::Batch,
    depth::Depth,
    effort::ThreadClock,
    plan::Epoch,
    stats::Counters,
    trouble::{Crew, Task},
};

/// What the consumer and the threads of a run share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Mutex<Queue>,
    /// The batch the consumer waits for is there.
    pub(super) ready: Condvar,
    /// There is room for another batch.
    pub(super) room: Condvar,
    /// There are to be more threads, or none.
    pub(super) needed: Condvar,
    pub(super) stop: AtomicBool,
    /// One more than the batch that the consumer waits for at this moment; 0 where it waits for none.
    pub(super) awaited: AtomicU64,
    /// One more than the last batch that was put in when the consumer was to get it next: seen without the lock.
    pub(super) front: AtomicU64,
    /// True when a consumer that waits takes no processor from those it waits for.
    pub(super) is_alert: bool,
    pub(super) epoch: Epoch,
    pub(super) crew: Crew,
    pub(super) pace: Pace,
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

/// Batches on their way, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
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

impl Queue {
    pub(super) fn delivered_all(&self, step_count: u64) -> bool {
        !self.failed && self.deliver >= step_count
    }
}

/// Batches of a megabyte follow each other within 150 us, and to wake a consumer takes the thread that makes them 1.5 us. So
/// one that has a processor to itself stays awake that long: the batch it had goes back the sooner, and is filled again
/// while the processor that fills it still has it in its cache. 8 KiB samples: 0.78 of a mapped copy, and 0.75 without.
const ALERTNESS: Duration = Duration::from_micros(200);

impl Shared {
    pub(super) fn new(crew: Crew, epoch: Epoch, pace: Pace) -> Self {
        Self {
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
        }
    }

    /// Starts what there ought to be of threads now and is not.
    pub(super) fn start_threads(self: &Arc<Self>) -> io::Result<()> {
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
    pub(super) fn look_out_for(&self, step: u64, patience: Duration) {
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
    pub(super) fn make_sure(&self, mut batch: Batch) -> Result<Batch> {
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

    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
        // Under the lock, so that no thread is between looking at the flag and going to sleep.
        let queue = self.lock();
        self.room.notify_all();
        self.needed.notify_all();
        drop(queue);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue> {
        // Batches are put in and taken out whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
