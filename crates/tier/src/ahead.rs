//! What will be used soon, fetched before it is asked for.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use forebay_source::{ByteRange, Grant};

use crate::{
    Flight, Flights, Landed, Lead, Part, SourceKey, Turn,
    fetch::{Fetched, fetch_block},
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
    /// Held as long as anything may be fetched.
    _grant: Grant,
    is_looking: AtomicBool,
    /// Which look it is: one that was overtaken by another ends.
    turn: AtomicU64,
    bytes: AtomicU64,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    upcoming: Option<Box<dyn Upcoming>>,
    /// What comes next and there is no room for yet.
    postponed: VecDeque<Coming>,
    /// What was fetched, and in which look.
    held: HashMap<(SourceKey, u64), (Bytes, u64)>,
    /// What was read before it could be fetched ahead.
    overtaken: HashSet<(SourceKey, u64)>,
}

impl Ahead {
    pub(crate) fn new(grant: Grant) -> Self {
        Self {
            budget: grant.bytes(),
            _grant: grant,
            is_looking: AtomicBool::new(false),
            turn: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            inside: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at `upcoming` from now on; gives the work that does so.
    pub(crate) fn set(
        self: &Arc<Self>,
        running: &Arc<Running>,
        upcoming: Option<Box<dyn Upcoming>>,
    ) -> Looking {
        let mut inside = self.lock();
        let turn = self.turn.fetch_add(1, Relaxed) + 1;
        // What nobody came for in the whole of the last look will not be asked for.
        let mut dropped_bytes = 0;
        inside.held.retain(|_, (bytes, fetched)| {
            let is_young = *fetched + 1 >= turn;
            dropped_bytes += if is_young { 0 } else { bytes.len() as u64 };
            is_young
        });
        self.bytes.fetch_sub(dropped_bytes, Relaxed);
        self.is_looking.store(upcoming.is_some() || !inside.held.is_empty(), Relaxed);
        inside.upcoming = upcoming;
        inside.postponed.clear();
        inside.overtaken.clear();
        Looking { ahead: Arc::clone(self), running: Arc::downgrade(running), turn }
    }

    /// Waits until no thread is asking for more.
    pub(crate) fn finish_looking(&self) {
        drop(self.lock());
    }

    /// True when anything may have been fetched ahead.
    #[inline]
    pub(crate) fn is_looking(&self) -> bool {
        self.is_looking.load(Relaxed)
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The bytes of `range`, if they were fetched ahead; they are the reader's from then on. What is just being fetched is
    /// to be waited for; what is neither is the reader's to fetch, and nobody fetches it ahead any more.
    pub(crate) fn take(&self, flights: &Flights, source: SourceKey, range: ByteRange) -> Taken {
        let mut inside = self.lock();
        let key = (source, range.start);
        if inside.held.get(&key).is_some_and(|(bytes, _)| bytes.len() as u64 == range.len()) {
            let Some((bytes, _)) = inside.held.remove(&key) else { return Taken::Not };
            self.bytes.fetch_sub(bytes.len() as u64, Relaxed);
            return Taken::Bytes(bytes);
        }
        if let Some(flight) = flights.find(source, Part::From(range.start)) {
            return Taken::InFlight(flight);
        }
        if inside.upcoming.is_some() {
            inside.overtaken.insert(key);
        }
        Taken::Not
    }

    /// Notes that a reader fetches `range` himself.
    pub(crate) fn overtake(&self, source: SourceKey, range: ByteRange) {
        let mut inside = self.lock();
        if inside.upcoming.is_some() || !inside.postponed.is_empty() {
            inside.overtaken.insert((source, range.start));
        }
    }

    /// Drops what was fetched of `range`: a tier has it by now.
    pub(crate) fn discard(&self, source: SourceKey, range: ByteRange) {
        if self.bytes.load(Relaxed) == 0 {
            return;
        }
        let left = self.lock().held.remove(&(source, range.start));
        if let Some((bytes, _)) = left {
            self.bytes.fetch_sub(bytes.len() as u64, Relaxed);
        }
    }

    /// What is fetched next, and the duty to do so: skips what was read or is here already.
    fn next(&self, flights: &Arc<Flights>) -> Next {
        let mut inside = self.lock();
        loop {
            let coming = match inside.postponed.front() {
                // What comes after it is used later still.
                Some(first) if !self.has_room(first.range.len()) => {
                    let key = (first.source, first.range.start);
                    if !inside.overtaken.contains(&key) {
                        return Next::NoRoom;
                    }
                    inside.postponed.pop_front()
                }
                Some(_) => inside.postponed.pop_front(),
                None => {
                    let coming = inside.upcoming.as_mut().and_then(|upcoming| upcoming.next());
                    if coming.is_none() {
                        inside.upcoming = None;
                    }
                    coming
                }
            };
            let Some(coming) = coming else { return Next::Nothing };
            let key = (coming.source, coming.range.start);
            if coming.range.is_empty() || inside.overtaken.remove(&key) || inside.held.contains_key(&key) {
                continue;
            }
            // Under the lock: no reader comes between the choice and the duty.
            if let Turn::Lead(lead) = flights.turn(coming.source, Part::From(coming.range.start)) {
                return Next::Fetch(coming, lead);
            }
        }
    }

    fn has_room(&self, len: u64) -> bool {
        self.bytes.load(Relaxed).saturating_add(len) <= self.budget
    }

    fn postpone(&self, coming: Coming) {
        self.lock().postponed.push_front(coming);
    }

    /// Fetches `coming`: whole blocks where a tier keeps them, else just its bytes, while there is room.
    fn fetch(&self, running: &Arc<Running>, state: &Arc<State>, coming: Coming, lead: Lead) -> Step {
        let (mut kept, mut is_partly_here) = (true, false);
        for block in state.blocks.covering(coming.range) {
            if state.has(block) {
                is_partly_here = true;
                continue;
            }
            let range = state.blocks.range(block);
            let asked = coming.range.end.min(range.end) - coming.range.start.max(range.start);
            let is_all = state.is_most(block, asked);
            if !state.has_room(block, is_all) {
                kept = false;
                continue;
            }
            if let Turn::Lead(lead) = running.flights.turn(state.key, Part::Block(block)) {
                is_partly_here |= fetch_block(running, state, block, is_all, lead) == Fetched::Kept;
            }
        }
        // Of what is here in part, the reader fetches just the rest.
        if kept || is_partly_here {
            lead.land(Landed::NoRoom);
            return Step::Worked;
        }
        let len = coming.range.len();
        let more = |bytes: u64| bytes.checked_add(len).filter(|bytes| *bytes <= self.budget);
        if self.bytes.fetch_update(Relaxed, Relaxed, more).is_err() {
            lead.land(Landed::NoRoom);
            if len <= self.budget {
                self.postpone(coming);
                return Step::Idle;
            }
            return Step::Worked;
        }
        let give_back = || self.bytes.fetch_sub(len, Relaxed);
        match state.fetch_exact(running, coming.range) {
            Ok(bytes) => {
                let turn = self.turn.load(Relaxed);
                let before =
                    self.lock().held.insert((coming.source, coming.range.start), (bytes.clone(), turn));
                if before.is_some() {
                    give_back();
                }
                lead.land(Landed::Bytes(bytes));
            }
            Err(error) => {
                // The reader will meet it, and tell.
                give_back();
                lead.land(Landed::Failed(error));
            }
        }
        Step::Worked
    }
}

/// What to do next.
enum Next {
    /// To fetch this.
    Fetch(Coming, Lead),
    /// To wait until readers have taken some.
    NoRoom,
    /// All was named.
    Nothing,
}

/// What a reader gets of what was fetched ahead.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The bytes.
    Bytes(Bytes),
    /// They are on their way.
    InFlight(Arc<Flight>),
    /// Nothing.
    Not,
}

/// The work of looking ahead.
#[derive(Debug)]
pub(crate) struct Looking {
    ahead: Arc<Ahead>,
    running: Weak<Running>,
    turn: u64,
}

impl Background for Looking {
    fn step(&self) -> Step {
        let Some(running) = self.running.upgrade() else { return Step::Over };
        if self.ahead.turn.load(Relaxed) != self.turn {
            return Step::Over;
        }
        let (coming, lead) = match self.ahead.next(&running.flights) {
            Next::Fetch(coming, lead) => (coming, lead),
            Next::NoRoom => return Step::Idle,
            Next::Nothing => return Step::Over,
        };
        match running.known(coming.source) {
            Some(state) => self.ahead.fetch(&running, &state, coming, lead),
            None => {
                lead.land(Landed::NoRoom);
                Step::Worked
            }
        }
    }
}
