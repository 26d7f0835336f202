//! A background thread of a disk tier: mirrors synced and compared, leftovers counted and removed.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use forebay_process::{ProcessIdentity, current_process};

/// Work to do once.
pub(super) type BackgroundJob = Box<dyn FnOnce() + Send>;

/// A queue and its thread, which starts with the first job and ends when the worker is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    shared: Arc<WorkerShared>,
    /// A forked child has neither the thread nor, perhaps, a queue that was whole when it was forked.
    process: ProcessIdentity,
}

impl Default for Worker {
    fn default() -> Self {
        Self { shared: Arc::default(), process: current_process() }
    }
}

#[derive(Debug, Default)]
struct WorkerShared {
    queue: Mutex<JobQueue>,
    change: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<BackgroundJob>,
    has_thread: bool,
    is_busy: bool,
    stop: bool,
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} jobs, busy: {}", self.jobs.len(), self.is_busy)
    }
}

impl Worker {
    /// Does `job` after all that came before.
    pub(super) fn push(&self, job: BackgroundJob) {
        let mut queue = self.shared.lock();
        if queue.stop {
            return;
        }
        if !queue.has_thread {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("forebay-disk".to_owned());
            // Without a thread nothing is synced, and what is not is compared whenever it is read.
            if thread.spawn(move || shared.work()).is_err() {
                return;
            }
            queue.has_thread = true;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.shared.change.notify_all();
    }

    /// How many jobs wait.
    pub(super) fn backlog(&self) -> usize {
        self.shared.lock().jobs.len()
    }

    /// Waits until all is done, not past `until`; false when that was not enough.
    pub(super) fn wait(&self, until: Instant) -> bool {
        let mut queue = self.shared.lock();
        while queue.is_busy || !queue.jobs.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.shared.change.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// True once it takes no more.
    pub(super) fn is_stopped(&self) -> bool {
        self.shared.lock().stop
    }

    /// Drops what waits, takes no more, and waits until what is under way is done, at most `patience`.
    pub(super) fn close(&self, patience: Duration) {
        if self.process == current_process() {
            self.stop();
            self.wait(Instant::now() + patience);
        }
    }

    fn stop(&self) {
        let mut queue = self.shared.lock();
        queue.stop = true;
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        self.shared.change.notify_all();
        drop(jobs);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

impl WorkerShared {
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queue = self.lock();
        while !queue.stop {
            let Some(job) = queue.jobs.pop_front() else {
                queue = self.change.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.is_busy = true;
            drop(queue);
            // A job that panics ends alone.
            let _panicked = catch_unwind(AssertUnwindSafe(job));
            queue = self.lock();
            queue.is_busy = false;
            self.change.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_are_done_in_turn_and_one_that_panics_takes_no_other_with_it() {
        let (worker, (done, received)) = (Worker::default(), mpsc::channel());
        for number in 0..3 {
            let done = done.clone();
            worker.push(Box::new(move || {
                assert!(number != 1, "on purpose");
                assert!(done.send(number).is_ok());
            }));
        }
        assert!(worker.wait(Instant::now() + Duration::from_secs(60)));
        drop(done);
        assert_eq!(received.iter().collect::<Vec<_>>(), [0, 2]);
    }
}
