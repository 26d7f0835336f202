//! One epoch on its way to the consumer, batch by batch and in order.

mod pipeline;

use std::{
    process,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use forebay_batch::LoaderCounters;
use forebay_plan::Epoch;
use forebay_process::{Error, ErrorKind, Event, EventKind, Result, ledger};

use self::pipeline::{Pipeline, StepTurn};
pub(crate) use self::pipeline::{RunPace, RunTurn};
use crate::epoch::{batch::Batch, cursor::RunToken, left_out::LeftOutBatches, make_batch::RunSpec};

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
    pipeline: Arc<Pipeline>,
    /// What was left out whole and is to be reported.
    left_out: LeftOutBatches,
    /// The process whose threads these are.
    process: u32,
    /// By which the cursor knows that it is under way.
    token: Option<RunToken>,
}

/// How long a run that is dropped waits for its threads: one that is stuck in a read ends when the read does.
const PATIENCE: Duration = Duration::from_millis(500);

impl Run {
    /// Starts threads that make the batches of `epoch`, ahead of the consumer as `pace` says.
    pub(crate) fn start(
        spec: RunSpec,
        epoch: Epoch,
        pace: RunPace,
        turn: RunTurn,
        token: RunToken,
    ) -> Result<Self> {
        let busy = pace.depth.busy();
        pace.depth.begin(Instant::now());
        let pipeline = Arc::new(Pipeline::new(spec, epoch, pace, turn));
        let run = Self {
            pipeline: Arc::clone(&pipeline),
            left_out: LeftOutBatches::default(),
            process: process::id(),
            token: Some(token),
        };
        let (started, threads) = (pipeline.start_threads(), pipeline.lock().threads.len());
        match started {
            // The run goes on without those that would only wait for data.
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

    /// The next batch, waiting at most `patience` for it; one that is made on this thread takes as long as it takes. One of which
    /// no sample can be read is left out, where that is wanted; an epoch of which none can be read is an error all the same where there is
    /// one rank, and a warning where there are several.
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
            batch.waited = began.elapsed();
            let counters = self.counters();
            LoaderCounters::add(&counters.batches, 1);
            LoaderCounters::add(&counters.samples, batch.sample_count());
            LoaderCounters::add(&counters.delivered_bytes, batch.byte_len());
            return Ok(Next::Batch(batch));
        }
    }

    /// The end of an epoch, or why nothing of it could be read.
    fn end(&mut self) -> Result<Next> {
        match self.left_out.take_reason() {
            // An epoch that was closed early may have had samples that can be read.
            Some(error) if self.pipeline.epoch.is_whole() && self.is_finished() => {
                if self.pipeline.epoch.world() > 1 {
                    // The other ranks go on with as many batches: an error here would leave them waiting.
                    let number = self.epoch();
                    let text =
                        format!("no sample of this rank's part of epoch {number} can be read: {error}");
                    Event::new(EventKind::Sample, text).emit();
                    return Ok(Next::End);
                }
                self.fail();
                Err(error.at("no sample of the epoch can be read"))
            }
            _ => {
                self.left_out.warn_of_rest();
                Ok(Next::End)
            }
        }
    }

    /// The next batch, made by this thread.
    fn make(&mut self) -> Result<Next> {
        let mut queue = self.pipeline.lock();
        let step = queue.deliver;
        if queue.over || step >= self.step_count() {
            return Ok(Next::End);
        }
        queue.deliver += 1;
        drop(queue);
        let began = Instant::now();
        let batch = self
            .pipeline
            .make(&StepTurn::new(&self.pipeline, step), step, || false)
            .inspect_err(|_| self.fail());
        self.count_wait(began);
        Ok(Next::Batch(Box::new(batch?)))
    }

    /// The next batch, whatever is in it. A consumer that waits verifies its batch itself, and stays awake for a while, where
    /// it takes no processor from the threads.
    fn take(&mut self, patience: Duration) -> Result<Next> {
        if self.process != process::id() {
            let error = Error::new(ErrorKind::Invalid, "an epoch does not survive a fork");
            return Err(error.hint("begin a new one in the child"));
        }
        if self.pipeline.is_on_caller {
            return self.make();
        }
        let began = Instant::now();
        let mut is_fresh = true;
        let mut queue = self.pipeline.lock();
        let batch = loop {
            if queue.over || queue.deliver >= self.pipeline.epoch.step_count() {
                return Ok(Next::End);
            }
            let wanted = queue.deliver;
            if let Some(batch) = queue.done.remove(&wanted) {
                break batch;
            }
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                drop(queue);
                self.pipeline.waiting.end();
                self.count_wait(began);
                return Ok(Next::Waiting);
            }
            self.pipeline.waiting.begin(wanted);
            let spins = self.pipeline.waiting.spins() && self.pipeline.pace.ahead > 0 && queue.idle == 0;
            if spins && std::mem::take(&mut is_fresh) {
                drop(queue);
                self.pipeline.waiting.spin(wanted, &self.pipeline.stop, left);
                queue = self.pipeline.lock();
                continue;
            }
            queue.has_sleeper = true;
            if queue.idle > 0 {
                // Where nothing is made ahead, this is what a thread waits for.
                self.pipeline.room.notify_one();
            }
            let waited = self.pipeline.ready.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.has_sleeper = false;
        };
        self.pipeline.waiting.end();
        queue.deliver += 1;
        let has_idle = queue.idle > 0 && self.pipeline.has_room(&queue);
        drop(queue);
        if has_idle {
            self.pipeline.room.notify_one();
        }
        let batch = batch.and_then(|batch| self.pipeline.verified(batch)).inspect_err(|_| self.fail());
        self.count_wait(began);
        Ok(Next::Batch(Box::new(batch?)))
    }

    /// True when all batches were delivered.
    pub fn is_finished(&self) -> bool {
        self.process == process::id() && self.pipeline.lock().delivered_all(self.step_count())
    }

    /// True when all batches are made or being made, and few of them are left to be taken.
    pub(crate) fn is_nearly_over(&self) -> bool {
        if self.process != process::id() || self.pipeline.is_on_caller {
            return false;
        }
        let queue = self.pipeline.lock();
        let left = self.step_count().saturating_sub(queue.deliver);
        !queue.over && queue.next >= self.step_count() && left <= (self.pipeline.pace.ahead / 2).max(1)
    }

    /// Makes a run that was begun ahead the consumer's.
    pub(crate) fn take_turn(&self) {
        self.pipeline.lock().turn = RunTurn::Current;
        self.pipeline.room.notify_all();
    }

    /// Batches of the epoch, from where the run began.
    pub fn step_count(&self) -> u64 {
        self.pipeline.epoch.step_count()
    }

    /// The epoch.
    pub fn epoch(&self) -> u64 {
        self.pipeline.epoch.number()
    }

    /// Which run of its loader it is.
    pub(crate) fn number(&self) -> u64 {
        self.pipeline.epoch.run()
    }

    /// Ends the run: its threads stop after what they are at. May be called more than once.
    pub fn close(&mut self) {
        if self.process != process::id() {
            // A forked child has the handles and not the threads, and a lock may be held for ever.
            std::mem::forget(Arc::clone(&self.pipeline));
            return;
        }
        self.token = None;
        self.pipeline.stop();
        let until = Instant::now() + PATIENCE;
        let mut queue = self.pipeline.lock();
        queue.over = true;
        if queue.threads.is_empty() {
            return;
        }
        queue.done.clear();
        while queue.working > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = self.pipeline.ready.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
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
            self.pipeline.spec.maker.release_idle_memory();
        }
    }

    fn fail(&self) {
        let mut queue = self.pipeline.lock();
        queue.over = true;
        queue.failed = true;
        drop(queue);
        self.pipeline.stop();
    }

    fn counters(&self) -> &LoaderCounters {
        &self.pipeline.spec.counters
    }

    fn count_wait(&self, began: Instant) {
        LoaderCounters::lap(&self.counters().wait_ns, began);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.close();
    }
}
