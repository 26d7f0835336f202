//! What a loader knows of the future: the schedule, where its blocks lie, and where in it the consumer is.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak},
    thread,
};

use forebay_loader::Schedule;
use forebay_process::Result;
use forebay_tier::{Foresight, SourceKey};

use super::{block_numbers::BlockNumbers, course::EpochCourse, index::BlockIndex, named_units::NamedUnits};

/// What a loader knows of the future.
///
/// Tiers hold it weakly: the owner of the loader keeps it, and when it is dropped they know nothing any more.
#[derive(Debug)]
pub struct LoaderForesight {
    pub(super) schedule: Arc<Schedule>,
    pub(super) numbers: Arc<BlockNumbers>,
    /// Made by a thread of its own; empty where it would be too large.
    pub(super) index: Arc<OnceLock<Option<BlockIndex>>>,
    pub(super) course: RwLock<Arc<EpochCourse>>,
    pub(super) named: Mutex<NamedUnits>,
}

impl LoaderForesight {
    /// What is known of blocks of `block_len` from `position` of `epoch` on.
    pub fn new(schedule: Arc<Schedule>, block_len: u64, epoch: u64, position: u64) -> Result<Self> {
        let course = EpochCourse::new(&schedule, epoch, position)?;
        let numbers = Arc::new(BlockNumbers::new(&schedule, block_len));
        let index = Arc::new(OnceLock::new());
        build_in_background(&schedule, &numbers, &index);
        let named = Mutex::new(NamedUnits::new(schedule.unit_count()));
        Ok(Self { schedule, numbers, index, course: RwLock::new(Arc::new(course)), named })
    }

    /// Tells that batch `step` of `epoch` was delivered; of an epoch that was not begun here nothing is noted.
    pub fn reach(&self, epoch: u64, step: u64) {
        self.course().reach(epoch, step);
    }

    /// True once the next use of blocks is known: until then, and where it would take too much memory, nothing is said
    /// of them, and a clairvoyant policy lets nothing leave.
    pub fn is_ready(&self) -> bool {
        self.index.get().is_some_and(Option::is_some)
    }

    /// The epochs that can be seen.
    pub(super) fn course(&self) -> Arc<EpochCourse> {
        Arc::clone(&self.course.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Which units were named.
    pub(super) fn lock_named(&self) -> MutexGuard<'_, NamedUnits> {
        // Bits that are set one by one: none can be left half-set.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Foresight for LoaderForesight {
    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64> {
        let index = self.index.get()?.as_ref()?;
        let source = *self.numbers.by_key.get(&source)?;
        let samples = match block {
            None => index.of_source(source),
            Some(block) if block < self.numbers.blocks[source].count() => {
                index.of_block(self.numbers.firsts[source] + block)
            }
            Some(_) => return None,
        };
        self.course().next_use(&self.schedule, samples)
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.numbers.by_key.contains_key(&source)
    }
}

/// What is known as long as its owner keeps it: a tier that held it would hold the sources it itself is under.
#[derive(Debug)]
pub(super) struct WeakForesight(pub(super) Weak<LoaderForesight>);

impl Foresight for WeakForesight {
    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64> {
        self.0.upgrade()?.next_use(source, block)
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.0.upgrade().is_some_and(|foresight| foresight.knows(source))
    }
}

/// Makes the index of `schedule` while the loader already runs.
fn build_in_background(
    schedule: &Arc<Schedule>,
    numbers: &Arc<BlockNumbers>,
    index: &Arc<OnceLock<Option<BlockIndex>>>,
) {
    let (schedule, numbers, index) = (Arc::clone(schedule), Arc::clone(numbers), Arc::clone(index));
    let build = move || {
        // Where no other reference is left, no caller waits for it.
        let is_wanted = || Arc::strong_count(&index) > 1;
        let _ = index.set(BlockIndex::new(&schedule, &numbers, is_wanted));
    };
    // Without a thread nothing is known, and a clairvoyant policy lets nothing leave.
    let _ = thread::Builder::new().name("forebay-foresee".to_owned()).spawn(build);
}
