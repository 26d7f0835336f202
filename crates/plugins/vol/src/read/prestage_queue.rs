//! Prestaging by bytes: a thread reads files itself where data sets lie in them in one piece, and never calls HDF5.

use std::{
    collections::VecDeque,
    fs::File,
    os::unix::fs::FileExt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use crate::{
    file::file_state::VolFile,
    units::{
        unit_target::UnitTarget,
        unit_writer::{QueuePatience, UnitOrigin, UnitWriter, WaitingUnit},
    },
};

/// Units to read: which, where in the file each begins, and how many bytes it has there.
#[derive(Debug)]
pub(crate) struct ByteJob {
    pub(crate) file: Arc<VolFile>,
    pub(crate) units: Vec<(u64, u64, u64)>,
    pub(crate) target: UnitTarget,
}

/// The jobs and their thread, which starts with the first.
#[derive(Debug)]
pub(crate) struct PrestageQueue {
    shared: Arc<QueueShared>,
}

#[derive(Debug)]
struct QueueShared {
    writer: Arc<UnitWriter>,
    jobs: Mutex<JobList>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct JobList {
    waiting: VecDeque<ByteJob>,
    has_thread: bool,
    is_busy: bool,
    stop: bool,
}

impl PrestageQueue {
    /// No jobs; what is read goes to `writer`.
    pub(crate) fn new(writer: Arc<UnitWriter>) -> Self {
        let shared = QueueShared { writer, jobs: Mutex::default(), change: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Does `job` after those before it. Without a thread nothing is prestaged, and reads fill the cache.
    pub(crate) fn push(&self, job: ByteJob) {
        let mut jobs = self.shared.lock();
        if jobs.stop {
            return;
        }
        if !jobs.has_thread {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("forebay-prestage".to_owned());
            if builder.spawn(move || shared.work()).is_err() {
                return;
            }
            jobs.has_thread = true;
        }
        jobs.waiting.push_back(job);
        drop(jobs);
        self.shared.change.notify_all();
    }

    /// Waits until all jobs are done, not past `until`; false when that was not enough.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut jobs = self.shared.lock();
        while jobs.is_busy || !jobs.waiting.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || jobs.stop {
                return false;
            }
            jobs = self.shared.change.wait_timeout(jobs, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends after the unit that is being read.
    pub(crate) fn stop(&self) {
        let mut jobs = self.shared.lock();
        jobs.stop = true;
        let waiting = std::mem::take(&mut jobs.waiting);
        drop(jobs);
        self.shared.change.notify_all();
        drop(waiting);
    }
}

impl QueueShared {
    fn lock(&self) -> MutexGuard<'_, JobList> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut jobs = self.lock();
        while !jobs.stop {
            let Some(job) = jobs.waiting.pop_front() else {
                jobs = self.change.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            jobs.is_busy = true;
            drop(jobs);
            self.read(&job);
            jobs = self.lock();
            jobs.is_busy = false;
            self.change.notify_all();
        }
    }

    /// Reads the units of `job`; what cannot be read is left to the program.
    fn read(&self, job: &ByteJob) {
        let Ok(file) = File::open(job.file.path()) else { return };
        // The name may lead to another file by now.
        if !file.metadata().is_ok_and(|now| job.file.is_version(&now)) {
            return;
        }
        for (unit, at, len) in &job.units {
            if self.lock().stop || !job.file.is_on() {
                return;
            }
            let Ok(count) = usize::try_from(*len) else { return };
            let mut bytes = self.writer.buffer(count);
            bytes.resize(count, 0);
            if file.read_exact_at(&mut bytes, *at).is_err() {
                return;
            }
            self.writer.stats().filled(*len);
            let (target, origin) = (job.target.clone(), Arc::clone(&job.file) as Arc<dyn UnitOrigin>);
            let (read_at, bytes) = (Instant::now(), bytes.freeze());
            let read = WaitingUnit { target, unit: *unit, origin, read_at, bytes, claim: None };
            self.writer.push(read, QueuePatience::Forever);
        }
    }
}
