//! A thread pool with two priorities: what a reader waits for first, background tasks in the time that is left.

use std::{
    cell::Cell,
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// A task that a reader waits for.
pub(crate) type ReaderTask = Box<dyn FnOnce() + Send>;

/// A background task, done step by step, by several threads at once.
pub(crate) trait BackgroundTask: Send + Sync + fmt::Debug {
    /// Does one step.
    fn step(&self) -> StepOutcome;
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// There may be more to do.
    Worked,
    /// There is nothing to do now, and may be later.
    Idle,
    /// There will be nothing more to do.
    Over,
}

/// Threads that fetch and place blocks, and end when this is dropped.
#[derive(Debug)]
pub(crate) struct PlacementThreads {
    shared: Arc<PlacementShared>,
    threads: usize,
}

#[derive(Debug)]
struct PlacementShared {
    queue: Mutex<TaskQueue>,
    change: Condvar,
    quiet: Condvar,
}

#[derive(Default)]
struct TaskQueue {
    urgent: VecDeque<ReaderTask>,
    background: VecDeque<Arc<dyn BackgroundTask>>,
    /// Tasks that were idle, and are asked again a little later.
    idle: Vec<Arc<dyn BackgroundTask>>,
    /// A thread sleeps until they are asked again.
    is_watched: bool,
    /// Threads there are.
    started: usize,
    /// Threads that step a background task.
    in_background: usize,
    /// Threads at work.
    busy: usize,
    stop: bool,
}

impl fmt::Debug for TaskQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} urgent, {} in the background, {} busy",
            self.urgent.len(),
            self.background.len(),
            self.busy
        )
    }
}

/// How often work that was idle is asked again.
const IDLE_STEP: Duration = Duration::from_millis(2);

/// How long a pool that is dropped waits for its threads: one that is stuck in a read ends when the read does.
const PATIENCE: Duration = Duration::from_millis(500);

impl PlacementThreads {
    /// A pool of `threads` threads, which start when there is something to do.
    pub(crate) fn new(threads: usize) -> Self {
        let shared =
            PlacementShared { queue: Mutex::default(), change: Condvar::new(), quiet: Condvar::new() };
        Self { shared: Arc::new(shared), threads: threads.max(1) }
    }

    /// Does `task` before all background tasks; on the caller's thread once the threads were ended.
    pub(crate) fn urgent(&self, task: ReaderTask) {
        let mut queue = self.shared.lock();
        if queue.stop {
            drop(queue);
            return task();
        }
        queue.urgent.push_back(task);
        self.wake(queue);
    }

    /// Does `work` when no reader waits.
    pub(crate) fn background(&self, work: Arc<dyn BackgroundTask>) {
        let mut queue = self.shared.lock();
        if queue.stop {
            return;
        }
        queue.background.push_back(work);
        self.wake(queue);
    }

    /// Does `work` before all other background tasks: it is short, or others wait for it.
    pub(crate) fn background_first(&self, work: Arc<dyn BackgroundTask>) {
        let mut queue = self.shared.lock();
        if queue.stop {
            return;
        }
        queue.background.push_front(work);
        self.wake(queue);
    }

    fn wake(&self, mut queue: MutexGuard<'_, TaskQueue>) {
        let wanted =
            queue.urgent.len() + queue.busy + if queue.background.is_empty() { 0 } else { self.threads };
        while queue.started < wanted.min(self.threads) {
            let shared = Arc::clone(&self.shared);
            let most_in_background = self.threads.saturating_sub(1).max(1);
            let name = "forebay-place".to_owned();
            if thread::Builder::new().name(name).spawn(move || shared.work(most_in_background)).is_err() {
                break;
            }
            queue.started += 1;
        }
        if queue.started == 0 {
            // No thread can be started: the caller does it.
            let task = queue.urgent.pop_back();
            drop(queue);
            if let Some(task) = task {
                task();
            }
            return;
        }
        drop(queue);
        self.shared.change.notify_all();
    }

    /// How much is left to do, what is being done included: readers' requests, and sources of which more is to come.
    pub(crate) fn backlog(&self) -> (usize, usize) {
        let queue = self.shared.lock();
        let is_read_now = queue.busy - queue.in_background;
        // A source leaves the queue with the first thread that finds nothing to do; others may still copy for it.
        (queue.urgent.len() + is_read_now, queue.background.len().max(queue.in_background))
    }

    /// How many threads there may be.
    pub(crate) fn count(&self) -> usize {
        self.threads
    }

    /// Waits until nothing is left to do, at most `patience`; false when that was not enough.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut queue = self.shared.lock();
        while queue.busy > 0 || !queue.urgent.is_empty() || !queue.background.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.quiet.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends the threads, each after its current task, and waits for them a bounded time; may be called more than once.
    pub(crate) fn close(&self) {
        let until = Instant::now() + PATIENCE;
        let mut queue = self.shared.lock();
        queue.stop = true;
        // Dropped without the lock: a task that is dropped wakes the reader that waits for it.
        let left = (
            std::mem::take(&mut queue.urgent),
            std::mem::take(&mut queue.background),
            std::mem::take(&mut queue.idle),
        );
        drop(queue);
        drop(left);
        self.shared.change.notify_all();
        let mut queue = self.shared.lock();
        // The thread that drops the last tier closes it, and may be one of its own threads.
        let own = usize::from(SERVES.get() == ptr::from_ref(&*self.shared).addr());
        while queue.started > own {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            queue = self.shared.quiet.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for PlacementThreads {
    fn drop(&mut self) {
        self.close();
    }
}

thread_local! {
    /// The address of what a thread of a pool works for.
    static SERVES: Cell<usize> = const { Cell::new(0) };
}

enum NextTask {
    Urgent(ReaderTask),
    Background(Arc<dyn BackgroundTask>),
}

impl PlacementShared {
    fn lock(&self) -> MutexGuard<'_, TaskQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, most_in_background: usize) {
        SERVES.set(ptr::from_ref(self).addr());
        let mut queue = self.lock();
        loop {
            let Some(work) = next(&mut queue, most_in_background) else {
                if queue.stop {
                    queue.started -= 1;
                    drop(queue);
                    self.quiet.notify_all();
                    return;
                }
                self.quiet.notify_all();
                queue = self.rest(queue);
                continue;
            };
            queue.busy += 1;
            match work {
                NextTask::Urgent(task) => {
                    drop(queue);
                    // A task that panics drops its lead, which wakes the readers that wait.
                    let _panicked = catch_unwind(AssertUnwindSafe(task));
                    queue = self.lock();
                }
                NextTask::Background(work) => {
                    queue.in_background += 1;
                    drop(queue);
                    let step = catch_unwind(AssertUnwindSafe(|| work.step())).unwrap_or(StepOutcome::Over);
                    queue = self.lock();
                    queue.in_background -= 1;
                    if step != StepOutcome::Worked {
                        let before = queue.background.len();
                        queue.background.retain(|other| !Arc::ptr_eq(other, &work));
                        let was_there = queue.background.len() < before;
                        if step == StepOutcome::Idle && was_there && !queue.stop {
                            queue.idle.push(work);
                        }
                    }
                    // Another thread may have been kept from it by the limit of background threads.
                    self.change.notify_one();
                }
            }
            queue.busy -= 1;
        }
    }

    /// Waits for something to do. One thread asks what was idle again after a while; the others sleep.
    fn rest<'a>(&self, mut queue: MutexGuard<'a, TaskQueue>) -> MutexGuard<'a, TaskQueue> {
        if queue.idle.is_empty() || queue.is_watched {
            return self.change.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.is_watched = true;
        let mut queue = self.change.wait_timeout(queue, IDLE_STEP).unwrap_or_else(PoisonError::into_inner).0;
        queue.is_watched = false;
        let idle = std::mem::take(&mut queue.idle);
        queue.background.extend(idle);
        queue
    }
}

/// The next task: what a reader waits for, or else the first background task.
fn next(queue: &mut TaskQueue, most_in_background: usize) -> Option<NextTask> {
    if queue.stop {
        return None;
    }
    if let Some(task) = queue.urgent.pop_front() {
        return Some(NextTask::Urgent(task));
    }
    if queue.in_background >= most_in_background {
        return None;
    }
    queue.background.front().cloned().map(NextTask::Background)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    };

    use super::*;

    #[derive(Debug)]
    struct Countdown(AtomicUsize);

    impl BackgroundTask for Countdown {
        fn step(&self) -> StepOutcome {
            let left = self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            if left.is_ok() { StepOutcome::Worked } else { StepOutcome::Over }
        }
    }

    #[test]
    fn what_nobody_waits_for_is_done_to_its_end() {
        let pool = PlacementThreads::new(3);
        let works = [5, 100, 1].map(|count| Arc::new(Countdown(AtomicUsize::new(count))));
        for work in &works {
            pool.background(Arc::clone(work) as Arc<dyn BackgroundTask>);
        }
        assert!(pool.wait(Duration::from_secs(120)));
        assert!(works.iter().all(|work| work.0.load(SeqCst) == 0));
        assert_eq!(pool.backlog(), (0, 0));
    }

    #[derive(Debug)]
    struct Endless;

    impl BackgroundTask for Endless {
        fn step(&self) -> StepOutcome {
            thread::sleep(Duration::from_millis(1));
            StepOutcome::Worked
        }
    }

    #[test]
    fn a_reader_finds_a_thread_however_much_is_in_the_background() {
        let pool = PlacementThreads::new(2);
        pool.background(Arc::new(Endless));
        let (done, received) = mpsc::channel();
        for number in 0..10 {
            let done = done.clone();
            pool.urgent(Box::new(move || assert!(done.send(number).is_ok())));
        }
        drop(done);
        assert_eq!(received.iter().count(), 10);
        assert!(!pool.wait(Duration::from_millis(5)));
    }

    #[test]
    fn a_task_that_panics_takes_nothing_with_it() {
        let pool = PlacementThreads::new(1);
        pool.urgent(Box::new(|| std::panic::resume_unwind(Box::new("on purpose"))));
        let (done, received) = mpsc::channel();
        pool.urgent(Box::new(move || assert!(done.send(7).is_ok())));
        assert_eq!(received.recv_timeout(Duration::from_secs(120)), Ok(7));
    }
}
