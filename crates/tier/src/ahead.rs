//! What will be used soon, fetched before it is asked for.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use forebay_source::ByteRange;

use crate::{
    Landed, Part, SourceKey, Turn,
    fetch::fetch_block,
    pool::{Background, Step},
    state::State,
    tiered::Running,
};

/// Bytes that will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coming {
    /// Of which source.
    pub source: SourceKey,
    /// Which bytes, as they will be asked for.
    pub range: ByteRange,
}

/// Names what will be read, in that order.
pub trait Upcoming: Send + fmt::Debug {
    /// What is read next.
    fn next(&mut self) -> Option<Coming>;
}

/// What is looked at ahead, and what was fetched and no tier keeps.
#[derive(Debug)]
pub(crate) struct Ahead {
    budget: u64,
    is_looking: AtomicBool,
    /// The work is in the pool's hands.
    is_queued: AtomicBool,
    bytes: AtomicU64,
    running: Mutex<Weak<Running>>,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    upcoming: Option<Box<dyn Upcoming>>,
    /// What comes next and there is no room for yet.
    postponed: Option<Coming>,
    held: HashMap<(SourceKey, u64), Bytes>,
    /// What was read before it could be fetched ahead.
    overtaken: HashSet<(SourceKey, u64)>,
}

impl Ahead {
    pub(crate) fn new(budget: u64) -> Self {
        Self {
            budget,
            is_looking: AtomicBool::new(false),
            is_queued: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            running: Mutex::default(),
            inside: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at `upcoming` from now on; true when a thread has to be found for it.
    pub(crate) fn set(&self, running: &Arc<Running>, upcoming: Option<Box<dyn Upcoming>>) -> bool {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(running);
        let is_looking = upcoming.is_some();
        let mut inside = self.lock();
        inside.upcoming = upcoming;
        inside.postponed = None;
        inside.overtaken.clear();
        self.is_looking.store(is_looking, Relaxed);
        is_looking && !self.is_queued.swap(true, Relaxed)
    }

    /// True when anything may have been fetched ahead.
    #[inline]
    pub(crate) fn is_looking(&self) -> bool {
        self.is_looking.load(Relaxed)
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The bytes of `range`, if they were fetched ahead; they are the reader's from then on.
    pub(crate) fn take(&self, source: SourceKey, range: ByteRange) -> Option<Bytes> {
        let mut inside = self.lock();
        let key = (source, range.start);
        let is_it = inside.held.get(&key).is_some_and(|bytes| bytes.len() as u64 == range.len());
        if !is_it {
            if inside.upcoming.is_some() {
                inside.overtaken.insert(key);
            }
            return None;
        }
        let bytes = inside.held.remove(&key)?;
        self.bytes.fetch_sub(bytes.len() as u64, Relaxed);
        Some(bytes)
    }

    /// What is fetched next: skips what was read or is here already.
    fn next(&self) -> Next {
        let mut inside = self.lock();
        loop {
            let coming = match inside.postponed.take() {
                Some(coming) => coming,
                None => {
                    let Some(upcoming) = inside.upcoming.as_mut() else { return Next::Nothing };
                    let Some(coming) = upcoming.next() else {
                        inside.upcoming = None;
                        return Next::Nothing;
                    };
                    coming
                }
            };
            let key = (coming.source, coming.range.start);
            if coming.range.is_empty() || inside.overtaken.remove(&key) || inside.held.contains_key(&key) {
                continue;
            }
            return Next::Coming(coming);
        }
    }

    fn postpone(&self, coming: Coming) {
        self.lock().postponed = Some(coming);
    }

    /// Fetches `coming`: whole blocks where a tier keeps them, else just its bytes, while there is room.
    fn fetch(&self, running: &Arc<Running>, state: &Arc<State>, coming: Coming) -> Step {
        let mut kept = true;
        for block in state.blocks.covering(coming.range) {
            if state.has(block) {
                continue;
            }
            let range = state.blocks.range(block);
            let is_all = coming.range.start <= range.start && coming.range.end >= range.end;
            if !state.has_room(block, is_all) {
                kept = false;
                continue;
            }
            if let Turn::Lead(lead) = running.flights.turn(state.key, Part::Block(block)) {
                fetch_block(running, state, block, is_all, lead);
            }
        }
        if kept {
            return Step::Worked;
        }
        let len = coming.range.len();
        let more = |bytes: u64| bytes.checked_add(len).filter(|bytes| *bytes <= self.budget);
        if self.bytes.fetch_update(Relaxed, Relaxed, more).is_err() {
            if len <= self.budget {
                self.postpone(coming);
                return Step::Idle;
            }
            return Step::Worked;
        }
        let give_back = || self.bytes.fetch_sub(len, Relaxed);
        let Turn::Lead(lead) = running.flights.turn(state.key, Part::From(coming.range.start)) else {
            give_back();
            return Step::Worked;
        };
        match state.fetch_exact(running, coming.range) {
            Ok(bytes) => {
                let before = self.lock().held.insert((coming.source, coming.range.start), bytes.clone());
                if before.is_some() {
                    give_back();
                }
                lead.land(Landed::Bytes(bytes));
            }
            Err(error) => {
                // The reader will meet it, and tell.
                give_back();
                lead.land(Landed::Failed(error.kind(), error.to_string()));
            }
        }
        Step::Worked
    }
}

enum Next {
    Coming(Coming),
    Nothing,
}

impl Background for Ahead {
    fn step(&self) -> Step {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let Some(running) = running else { return Step::Over };
        match self.next() {
            Next::Nothing => {
                self.is_queued.store(false, Relaxed);
                Step::Over
            }
            Next::Coming(coming) => match running.known(coming.source) {
                Some(state) => self.fetch(&running, &state, coming),
                None => Step::Worked,
            },
        }
    }
}
