//! What a loader knows of the future, as tiers want to know it.
//!
//! ```text
//! Schedule ─► BlockIndex (block ─► samples) ─► next use of a block ─► what leaves a full tier
//!        └──► Ahead (batch after batch) ──────► what is fetched before it is asked for
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `index` | which samples need which block |
//! | `course` | the epochs that can be seen, and where in them the consumer is |
//! | `ahead` | what will be asked for, in that order |
//! | `forecast` | what each policy would read, reckoned and not run |

mod ahead;
mod course;
mod forecast;
mod index;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak},
    thread,
};

use forebay_loader::Schedule;
use forebay_source::Result;
use forebay_tier::{Blocks, Foresight, SourceKey, Tiered};

pub use self::forecast::{PolicyForecast, TierForecast, TierPlan};
use self::{
    ahead::{Ahead, Named},
    course::Course,
    index::BlockIndex,
};

/// What a loader knows of the future.
///
/// Tiers hold it loosely: whoever runs the loader keeps it, and when it is dropped they know nothing any more.
#[derive(Debug)]
pub struct LoaderForesight {
    schedule: Arc<Schedule>,
    places: Arc<Places>,
    /// Made by a thread of its own; empty where it would be too large.
    index: Arc<OnceLock<Option<BlockIndex>>>,
    course: RwLock<Arc<Course>>,
    named: Mutex<Named>,
}

/// The blocks of all sources, under one number.
#[derive(Debug)]
struct Places {
    keys: Vec<SourceKey>,
    by_key: HashMap<SourceKey, usize>,
    blocks: Vec<Blocks>,
    /// The first block of each source, and one past the last of all.
    firsts: Vec<u64>,
}

impl Places {
    fn new(schedule: &Schedule, block_len: u64) -> Self {
        let keys: Vec<_> = schedule.sources().iter().map(SourceKey::of).collect();
        let by_key = keys.iter().enumerate().map(|(source, key)| (*key, source)).collect();
        let blocks: Vec<_> = schedule.sources().iter().map(|id| Blocks::new(id.len, block_len)).collect();
        let mut firsts = vec![0];
        let mut total = 0u64;
        for blocks in &blocks {
            total = total.saturating_add(blocks.count());
            firsts.push(total);
        }
        Self { keys, by_key, blocks, firsts }
    }

    /// How many blocks all sources have.
    fn count(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }
}

/// Lets `tiered` know what a loader of `schedule` will read from `position` of `epoch` on.
///
/// Keep what it gives as long as the loader runs, tell it of every batch by [`reach`](LoaderForesight::reach), and of
/// every later epoch by [`begin`](LoaderForesight::begin).
pub fn foresee(
    tiered: &Tiered,
    schedule: Arc<Schedule>,
    epoch: u64,
    position: u64,
) -> Result<Arc<LoaderForesight>> {
    let foresight = Arc::new(LoaderForesight::new(schedule, tiered.block_len(), epoch, position)?);
    foresight.tell(tiered);
    Ok(foresight)
}

impl LoaderForesight {
    /// What is known of blocks of `block_len` from `position` of `epoch` on.
    pub fn new(schedule: Arc<Schedule>, block_len: u64, epoch: u64, position: u64) -> Result<Self> {
        let course = Course::new(&schedule, epoch, position)?;
        let places = Arc::new(Places::new(&schedule, block_len));
        let index = Arc::new(OnceLock::new());
        build_aside(&schedule, &places, &index);
        let named = Mutex::new(Named::new(schedule.unit_count()));
        Ok(Self { schedule, places, index, course: RwLock::new(Arc::new(course)), named })
    }

    /// Goes on with what follows `position` of `epoch`.
    pub fn begin(self: &Arc<Self>, tiered: &Tiered, epoch: u64, position: u64) -> Result<()> {
        let course = Course::new(&self.schedule, epoch, position)?;
        *self.course.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(course);
        if !self.schedule.keeps_units() {
            self.lock_named().clear();
        }
        self.tell(tiered);
        Ok(())
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

    fn tell(self: &Arc<Self>, tiered: &Tiered) {
        tiered.outlook().set(Some(Arc::new(Loosely(Arc::downgrade(self)))));
        let is_all_near = self.places.keys.iter().all(|key| tiered.has_whole(*key));
        let ahead = (tiered.looks_ahead() && !is_all_near).then(|| Ahead::new(self, self.course()));
        tiered.look_ahead(ahead.map(|ahead| Box::new(ahead) as _));
    }

    fn course(&self) -> Arc<Course> {
        Arc::clone(&self.course.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock_named(&self) -> std::sync::MutexGuard<'_, Named> {
        // Bits that are set one by one: none can be left half-set.
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Foresight for LoaderForesight {
    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64> {
        let index = self.index.get()?.as_ref()?;
        let source = *self.places.by_key.get(&source)?;
        let samples = match block {
            None => index.of_source(source),
            Some(block) if block < self.places.blocks[source].count() => {
                index.of_block(self.places.firsts[source] + block)
            }
            Some(_) => return None,
        };
        self.course().next_use(&self.schedule, samples)
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.places.by_key.contains_key(&source)
    }
}

/// What is known as long as its owner keeps it: a tier that held it would hold the sources it itself is under.
#[derive(Debug)]
struct Loosely(Weak<LoaderForesight>);

impl Foresight for Loosely {
    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64> {
        self.0.upgrade()?.next_use(source, block)
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.0.upgrade().is_some_and(|foresight| foresight.knows(source))
    }
}

/// Makes the index of `schedule` while the loader already runs.
fn build_aside(schedule: &Arc<Schedule>, places: &Arc<Places>, index: &Arc<OnceLock<Option<BlockIndex>>>) {
    let (schedule, places, index) = (Arc::clone(schedule), Arc::clone(places), Arc::clone(index));
    let build = move || {
        // Nobody else has it: nobody waits for it.
        let is_wanted = || Arc::strong_count(&index) > 1;
        let _ = index.set(BlockIndex::new(&schedule, &places, is_wanted));
    };
    // Without a thread nothing is known, and a clairvoyant policy lets nothing leave.
    let _ = thread::Builder::new().name("forebay-foresee".to_owned()).spawn(build);
}
