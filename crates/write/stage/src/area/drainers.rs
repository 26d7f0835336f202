//! The threads that move bytes to their destinations, and what they do next.
//!
//! A task says what can be done now; a thread does one job of the task with the highest priority at a time, so that several
//! threads share one file, and a file of a higher priority goes first. Threads that wait for a task do its jobs themselves.

use std::{
    fmt,
    num::NonZeroU64,
    ptr,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use forebay_process::Error;
use forebay_source::Throttle;

use crate::{
    area::{counters::StageCounters, room::ProcessRoom, settings::AreaSettings, status::ItemState},
    create::{destination::Directories, destination_changes::DestinationChanges},
    on_disk::{item_name::WantedFile, stamp::FileStamp},
    update::segment::SegmentPool,
};

/// Where other processes ask for a pause or for haste, threads notice within this time.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often a process that writes to destinations says that it lives.
const BEAT_EVERY: Duration = Duration::from_millis(250);
/// The most bytes that one write to a destination has: 10,000 writes of 4 KiB become five.
const MOST_RUN_BYTES: u64 = 8 << 20;
/// What a pending piece takes of memory, in its map and in a batch.
const PIECE_BYTES: u64 = 256;
/// However little memory there may be.
const LEAST_PIECES: u64 = 1 << 12;
/// A task that a thread has at the moment is looked at again after this time.
pub(crate) const LOCKED_PAUSE: Duration = Duration::from_millis(2);
/// Blocks of a new file have their checksums by so much.
pub(crate) const SUM_BLOCK: u64 = 1 << 20;

/// What drainers and tasks of an area share.
#[derive(Debug)]
pub(crate) struct DrainShared {
    pub(crate) room: ProcessRoom,
    pub(crate) pool: SegmentPool,
    pub(crate) counters: StageCounters,
    pub(crate) run_bytes: usize,
    /// The most pieces that one file has pending: what is known of them counts as memory too.
    pub(crate) most_pieces: usize,
    throttle: Throttle,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Jobs that write to destinations now.
    writing: AtomicUsize,
    thread_count: usize,
    /// Held while a pointer to the latest file is looked at and moved.
    pointing: Mutex<()>,
    pub(crate) changes: Arc<DestinationChanges>,
    pub(crate) directories: Directories,
    /// Held by each file that is open or not settled.
    pub(crate) files: Arc<()>,
}

#[derive(Debug, Default)]
struct Queue {
    tasks: Vec<Arc<dyn DrainTask>>,
    threads: Vec<JoinHandle<()>>,
    /// How many of them do jobs.
    workers: usize,
    is_paused: bool,
    is_stopped: bool,
    /// Waits that want everything drained, paused or not.
    forced: usize,
    /// Tasks that are drained, paused or not: one entry for each wait.
    awaited: Vec<Arc<dyn DrainTask>>,
}

/// A job: some I/O, with a buffer of the thread that does it.
pub(crate) type Job = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

/// What a task wants next.
pub(crate) enum Polled {
    /// This, now.
    Run(Job),
    /// Nothing before this time.
    At(Instant),
    /// Nothing until one of its jobs ends.
    Busy,
    /// Nothing until it is submitted again.
    Idle,
    /// Nothing any more: all is at its destination.
    Settled,
}

/// Something that is drained.
pub(crate) trait DrainTask: fmt::Debug + Send + Sync {
    /// Says that the file with the stamp `before`, if it is to be replaced by this one, has the stamp `after` now, by us.
    fn expect_also(&self, _before: &FileStamp, _after: FileStamp) {}
    /// Tries again to note what it was told so; returns false if that is still not noted.
    fn note_expected(&self) -> bool {
        true
    }
    /// Whether its bytes go to this file.
    fn is_for(&self, file: &WantedFile) -> bool;
    /// What is said of it.
    fn state(&self) -> ItemState;
    /// When a new file was sealed; 0 for updates.
    fn sealed_ns(&self) -> u64 {
        0
    }
    /// Tasks of a higher priority go first.
    fn priority(&self) -> i32;
    /// What to do next. With `is_paused`, only what writes to no destination.
    fn poll(self: Arc<Self>, now: Instant, is_paused: bool) -> Polled;
    /// Bytes that are not in the destination.
    fn pending_bytes(&self) -> u64;
    /// Whether all of it is in the destination.
    fn is_settled(&self) -> bool;
    /// Why the destination refused it, if it did.
    fn failure(&self) -> Option<Error>;
    /// Tries again what failed, and waits for no more writes to merge.
    fn hurry(&self);
    /// Forgets what is not in the destination, if nothing but the drainers has the item any more: somebody replaces the destination.
    fn give_up(&self);
}

impl DrainShared {
    pub(crate) fn new(room: ProcessRoom, settings: &AreaSettings) -> Self {
        let thread_count = settings.drainers;
        let share = settings.memory / thread_count.max(1) as u64;
        let run_bytes = share.clamp(SUM_BLOCK, MOST_RUN_BYTES) / SUM_BLOCK * SUM_BLOCK;
        Self {
            room,
            pool: SegmentPool::default(),
            counters: StageCounters::default(),
            run_bytes: usize::try_from(run_bytes).unwrap_or(1 << 20),
            most_pieces: usize::try_from((settings.memory / PIECE_BYTES).max(LEAST_PIECES))
                .unwrap_or(usize::MAX),
            throttle: Throttle::new(settings.bandwidth.and_then(NonZeroU64::new)),
            queue: Mutex::new(Queue { is_paused: settings.start_paused, ..Queue::default() }),
            changed: Condvar::new(),
            writing: AtomicUsize::new(0),
            thread_count,
            pointing: Mutex::default(),
            changes: Arc::default(),
            directories: Directories::default(),
            files: Arc::default(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `task` drained, from now on until it is idle. The threads are made when there is something to do.
    pub(crate) fn submit(self: &Arc<Self>, task: Arc<dyn DrainTask>) {
        let mut queue = self.queue();
        if !queue.tasks.iter().any(|there| Arc::ptr_eq(there, &task)) {
            queue.tasks.push(task);
        }
        if queue.threads.is_empty() && !queue.is_stopped {
            self.spawn(&mut queue);
        }
        drop(queue);
        self.changed.notify_all();
    }

    fn spawn(self: &Arc<Self>, queue: &mut Queue) {
        let names = (0..self.thread_count).map(|_| "forebay-drain").chain(["forebay-beat"]);
        for name in names {
            let shared = Arc::clone(self);
            let is_beat = name == "forebay-beat";
            let body = move || if is_beat { shared.beat() } else { shared.work() };
            // Without threads, those that wait do the jobs.
            if let Ok(thread) = thread::Builder::new().name(name.to_owned()).spawn(body) {
                queue.threads.push(thread);
                queue.workers += usize::from(!is_beat);
            }
        }
    }

    /// Does a job of some task, where there are no threads that would; false where there is none to do.
    pub(crate) fn work_alone(&self) -> bool {
        let mut queue = self.queue();
        if queue.workers > 0 || queue.is_stopped {
            return false;
        }
        let is_paused = (queue.is_paused || self.room.is_paused()) && queue.forced == 0;
        let Ok(job) = next_job(&mut queue, is_paused) else { return false };
        drop(queue);
        job(&mut Vec::new());
        self.changed.notify_all();
        true
    }

    /// Keeps other drainers from pointers to the latest files.
    pub(crate) fn point_alone(&self) -> MutexGuard<'_, ()> {
        self.pointing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks again at what can be done.
    pub(crate) fn wake(&self) {
        drop(self.queue());
        self.changed.notify_all();
    }

    pub(crate) fn set_paused(&self, is_paused: bool) {
        self.queue().is_paused = is_paused;
        self.changed.notify_all();
    }

    /// All tasks that are not settled.
    pub(crate) fn tasks(&self) -> Vec<Arc<dyn DrainTask>> {
        let tasks = self.queue().tasks.clone();
        tasks.into_iter().filter(|task| !task.is_settled()).collect()
    }

    /// Tells new files that are to replace a file that an update of this process has changed it: others did not.
    pub(crate) fn changed_by_us(&self, before: &FileStamp, after: FileStamp) {
        let tasks = self.queue().tasks.clone();
        tasks.iter().for_each(|task| task.expect_also(before, after));
    }

    /// Returns true if all new files have noted what updates of this process have made of the files that they replace: the journals of the
    /// updates, from which `recover` knows it as well, may go.
    pub(crate) fn note_expected(&self) -> bool {
        let tasks = self.queue().tasks.clone();
        tasks.iter().filter(|task| !task.note_expected()).count() == 0
    }

    /// Tries again to remove the journals of items that are done.
    pub(crate) fn retry_removals(&self) {
        if self.room.has_unremoved() && self.note_expected() {
            self.room.retry_removals();
        }
    }

    /// Gives up what is closed and not in `file`; false where something of it is still in use.
    pub(crate) fn give_up(&self, file: &WantedFile) -> bool {
        let tasks = self.tasks().into_iter().filter(|task| task.is_for(file));
        let left = tasks.filter(|task| {
            task.give_up();
            !task.is_settled() && task.state() != ItemState::Open
        });
        let is_free = left.count() == 0;
        self.forget_settled();
        is_free
    }

    /// Drains paused or not, until the answer is dropped.
    pub(crate) fn force(self: &Arc<Self>) -> Forced {
        let mut queue = self.queue();
        queue.forced += 1;
        let tasks = queue.tasks.clone();
        drop(queue);
        for task in tasks {
            task.hurry();
        }
        self.changed.notify_all();
        Forced { shared: Arc::clone(self) }
    }

    /// Drains the tasks for `file`, paused or not, until the answer is dropped; `None` where there are none.
    pub(crate) fn await_drains(self: &Arc<Self>, file: &WantedFile) -> Option<AwaitedDrains> {
        let mut tasks = self.tasks();
        tasks.retain(|task| task.is_for(file));
        if tasks.is_empty() {
            return None;
        }
        // What its destination has refused is not tried again by a wait.
        tasks.iter().filter(|task| task.failure().is_none()).for_each(|task| task.hurry());
        self.queue().awaited.extend(tasks.iter().cloned());
        self.changed.notify_all();
        Some(AwaitedDrains { shared: Arc::clone(self), tasks })
    }

    /// Forgets all tasks: what they hold stays in the area.
    pub(crate) fn forget_tasks(&self) {
        let tasks = std::mem::take(&mut self.queue().tasks);
        drop(tasks);
    }

    /// Waits until something changes, or for `limit`.
    pub(crate) fn wait_for_change(&self, limit: Duration) {
        let queue = self.queue();
        drop(self.changed.wait_timeout(queue, limit).unwrap_or_else(PoisonError::into_inner));
    }

    /// Stops the threads after the jobs they do now.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut queue = self.queue();
            queue.is_stopped = true;
            queue.workers = 0;
            std::mem::take(&mut queue.threads)
        };
        self.changed.notify_all();
        let own = thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
            let _ = thread.join();
        }
        self.queue().is_stopped = false;
        self.forget_settled();
    }

    /// Forgets the tasks that are settled. They are asked without the lock of the queue: they take it while they hold their own.
    pub(crate) fn forget_settled(&self) {
        let tasks = self.queue().tasks.clone();
        let settled: Vec<_> = tasks.iter().filter(|task| task.is_settled()).map(Arc::as_ptr).collect();
        self.queue().tasks.retain(|task| !settled.iter().any(|one| ptr::addr_eq(*one, Arc::as_ptr(task))));
    }

    /// Whether files of this process use the area.
    pub(crate) fn has_files(&self) -> bool {
        Arc::strong_count(&self.files) > 1
    }

    fn work(&self) {
        let mut buffer = Vec::new();
        let mut hurry_seen = self.room.hurry_stamp();
        let mut looked = Instant::now();
        let mut is_paused_by_others = self.room.is_paused();
        let mut queue = self.queue();
        while !queue.is_stopped {
            if looked.elapsed() >= LOOK_EVERY {
                is_paused_by_others = self.room.is_paused();
                if self.room.has_unremoved() {
                    drop(queue);
                    self.retry_removals();
                    queue = self.queue();
                }
                looked = Instant::now();
                let stamp = self.room.hurry_stamp();
                if stamp != hurry_seen {
                    hurry_seen = stamp;
                    let tasks = queue.tasks.clone();
                    drop(queue);
                    tasks.iter().for_each(|task| task.hurry());
                    queue = self.queue();
                }
            }
            let is_paused = (queue.is_paused || is_paused_by_others) && queue.forced == 0;
            match next_job(&mut queue, is_paused) {
                Ok(job) => {
                    drop(queue);
                    job(&mut buffer);
                    queue = self.queue();
                    self.changed.notify_all();
                }
                Err(_) if self.pool.is_wanted() => {
                    drop(queue);
                    self.pool.make_ahead(&self.room);
                    queue = self.queue();
                }
                Err(until) => queue = self.wait(queue, until),
            }
        }
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>, until: Option<Instant>) -> MutexGuard<'a, Queue> {
        // With nothing to do, nothing is looked for either.
        if queue.tasks.is_empty() && !self.room.has_unremoved() {
            return self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let left = until.map_or(LOOK_EVERY, |until| until.saturating_duration_since(Instant::now()));
        let waited = self.changed.wait_timeout(queue, left.min(LOOK_EVERY));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn beat(&self) {
        let mut queue = self.queue();
        while !queue.is_stopped {
            if self.writing.load(SeqCst) > 0 {
                self.room.beat();
            }
            queue = if queue.tasks.is_empty() {
                self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed.wait_timeout(queue, BEAT_EVERY).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Runs `write`, which changes a destination: `recover` takes changes up to now for those of this process.
    pub(crate) fn alive_while<T>(&self, write: impl FnOnce() -> T) -> T {
        if self.writing.fetch_add(1, SeqCst) == 0 {
            self.room.beat();
        }
        let done = write();
        self.writing.fetch_sub(1, SeqCst);
        done
    }

    /// Runs `write`, which writes `bytes` to a destination, within the limit of bandwidth.
    pub(crate) fn write_to_destination<T>(&self, bytes: u64, write: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let until = self.throttle.pass(start, bytes);
        let done = self.alive_while(write);
        // After the write: the next one waits for its turn, and a short one waits for nobody.
        thread::sleep(until.saturating_duration_since(Instant::now()));
        done
    }
}

/// The job of the first task that has one, or when to look again. No task is waited for: one whose destination is slow must
/// not hold up the others.
fn next_job(queue: &mut Queue, is_paused: bool) -> Result<Job, Option<Instant>> {
    queue.tasks.sort_by_key(|task| std::cmp::Reverse(task.priority()));
    let now = Instant::now();
    let mut soonest: Option<Instant> = None;
    let mut index = 0;
    while let Some(task) = queue.tasks.get(index) {
        let is_paused = is_paused && !queue.awaited.iter().any(|awaited| Arc::ptr_eq(awaited, task));
        match Arc::clone(task).poll(now, is_paused) {
            Polled::Run(job) => return Ok(job),
            Polled::At(at) => soonest = Some(soonest.map_or(at, |soonest| soonest.min(at))),
            Polled::Busy => {}
            Polled::Settled => {
                queue.tasks.remove(index);
                continue;
            }
            Polled::Idle => {}
        }
        index += 1;
    }
    Err(soonest)
}

/// While it is held, drainers go on though they are paused.
#[derive(Debug)]
pub(crate) struct Forced {
    shared: Arc<DrainShared>,
}

impl Drop for Forced {
    fn drop(&mut self) {
        self.shared.queue().forced -= 1;
        self.shared.changed.notify_all();
    }
}

/// While it is held, drainers go on with the tasks of one file though they are paused.
#[derive(Debug)]
pub struct AwaitedDrains {
    shared: Arc<DrainShared>,
    tasks: Vec<Arc<dyn DrainTask>>,
}

impl AwaitedDrains {
    /// Does a part of the work where there are no drainers that would; false where there is nothing to do.
    pub fn work(&self) -> bool {
        self.shared.work_alone()
    }
}

impl Drop for AwaitedDrains {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        for task in &self.tasks {
            if let Some(index) = queue.awaited.iter().position(|awaited| Arc::ptr_eq(awaited, task)) {
                queue.awaited.swap_remove(index);
            }
        }
    }
}
