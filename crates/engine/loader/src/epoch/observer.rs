//! Observers of epochs: what a loader will read, and how far its consumer is, for whoever brings the bytes near ahead of time.

use std::{
    any::Any,
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay_process::{ProcessIdentity, Result, current_process};

use crate::epoch::schedule::Schedule;

/// Observer of the epochs of one loader.
///
/// # Contract
///
/// - It has one epoch at a time: [`begin`](Self::begin), [`deliver`](Self::deliver) for each batch, [`end`](Self::end).
/// - `begin` is called before any thread reads for the epoch. If it fails, the epoch does not start.
/// - `end` is called once for each `begin`, also for one that failed: after the last batch, or else before the next `begin` or when
///   the loader is dropped.
/// - The schedule is the same object in every `begin`, until [`forget`](Self::forget) is called.
/// - In a forked child a loader that is dropped calls nothing: threads of the parent may hold the observer's locks.
pub trait EpochObserver: Any + Debug + Send + Sync {
    /// Takes the schedule of the epoch that starts next, from `position` of its order on.
    fn begin(&self, schedule: &Arc<Schedule>, epoch: u64, position: u64) -> Result<()>;

    /// Notes that the consumer was given batch `step` of `epoch`.
    fn deliver(&self, epoch: u64, step: u64);

    /// Ends the epoch that was begun last.
    fn end(&self);

    /// Discards the schedule: the loader goes on from a state of another order.
    fn forget(&self);
}

/// An observer, and what its loader has given it.
#[derive(Debug)]
pub(crate) struct Observation {
    observer: Box<dyn EpochObserver>,
    given: Mutex<GivenEpoch>,
    /// The process whose epochs these are.
    process: ProcessIdentity,
}

/// What an observer has.
#[derive(Debug, Default)]
struct GivenEpoch {
    /// Made for the first epoch, and for the first of another order.
    schedule: Option<Arc<Schedule>>,
    is_under_way: bool,
}

impl Observation {
    pub(crate) fn new(observer: Box<dyn EpochObserver>) -> Self {
        Self { observer, given: Mutex::default(), process: current_process() }
    }

    pub(crate) fn observer(&self) -> &dyn EpochObserver {
        &*self.observer
    }

    /// Ends the epoch before, and begins one from `position` on; `schedule` makes the schedule if there is none.
    pub(crate) fn begin(
        &self,
        (epoch, position): (u64, u64),
        schedule: impl FnOnce() -> Result<Schedule>,
    ) -> Result<()> {
        let mut given = self.lock();
        given.end(&*self.observer);
        given.is_under_way = true;
        let schedule = match &mut given.schedule {
            Some(schedule) => schedule,
            none => none.insert(Arc::new(schedule()?)),
        };
        self.observer.begin(schedule, epoch, position)
    }

    /// Ends the epoch, if one is under way.
    pub(crate) fn end(&self) {
        self.lock().end(&*self.observer);
    }

    /// Discards the schedule.
    pub(crate) fn forget(&self) {
        self.lock().schedule = None;
        self.observer.forget();
    }

    fn lock(&self) -> MutexGuard<'_, GivenEpoch> {
        // An observer that panics leaves an epoch that is ended once more at the most.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GivenEpoch {
    fn end(&mut self, observer: &dyn EpochObserver) {
        if std::mem::take(&mut self.is_under_way) {
            observer.end();
        }
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        if self.process == current_process() {
            self.given.get_mut().unwrap_or_else(PoisonError::into_inner).end(&*self.observer);
        }
    }
}
