//! The read-ahead buffer: prefetched bytes that no tier keeps, and the queue of what is prefetched next.
//!
//! A reader that comes before the prefetch takes the range over, so that no byte is fetched twice.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use forebay_process::Grant;
use forebay_source::ByteRange;

use crate::{
    block::SourceKey,
    flight::{Flight, FlightPart, Flights, Lead, Turn},
};

/// A read that will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpcomingRead {
    /// Of which source.
    pub source: SourceKey,
    /// Which bytes, as they will be asked for.
    pub range: ByteRange,
}

/// The reads that will come, in their order.
///
/// # Contract
///
/// `next` computes and never reads through tiers: it is called by the threads that fetch, with the queue of prefetches locked. One
/// that waited for a block would wait for itself.
pub trait UpcomingReads: Send + fmt::Debug {
    /// The next read.
    fn next(&mut self) -> Option<UpcomingRead>;
}

/// Prefetched bytes within a budget, and what is to be prefetched.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    budget: u64,
    /// Held as long as anything may be prefetched.
    _grant: Grant,
    is_active: AtomicBool,
    /// Counts the lists of upcoming reads: a prefetch task of an older list ends.
    generation: AtomicU64,
    bytes: AtomicU64,
    queue: Mutex<ReadAheadQueue>,
}

#[derive(Debug, Default)]
struct ReadAheadQueue {
    upcoming: Option<Box<dyn UpcomingReads>>,
    /// Reads that come next and that the budget has no room for yet.
    postponed: VecDeque<UpcomingRead>,
    /// Prefetched bytes, and the generation they were fetched in.
    held: HashMap<(SourceKey, u64), (Bytes, u64)>,
    /// Ranges that a reader asked for before they were prefetched.
    overtaken: HashSet<(SourceKey, u64)>,
}

impl ReadAhead {
    pub(crate) fn new(grant: Grant) -> Self {
        Self {
            budget: grant.bytes(),
            _grant: grant,
            is_active: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            queue: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadAheadQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `upcoming` the list that is prefetched, and gives the number of its generation.
    pub(crate) fn set(&self, upcoming: Option<Box<dyn UpcomingReads>>) -> u64 {
        let mut queue = self.lock();
        let generation = self.generation.fetch_add(1, Relaxed) + 1;
        // Bytes that no reader took during the whole of the last list will not be asked for.
        let mut dropped_bytes = 0;
        queue.held.retain(|_, (bytes, fetched)| {
            let is_recent = *fetched + 1 >= generation;
            dropped_bytes += if is_recent { 0 } else { bytes.len() as u64 };
            is_recent
        });
        self.bytes.fetch_sub(dropped_bytes, Relaxed);
        self.is_active.store(upcoming.is_some() || !queue.held.is_empty(), Relaxed);
        queue.upcoming = upcoming;
        queue.postponed.clear();
        queue.overtaken.clear();
        generation
    }

    /// Drops what was prefetched, and ends the list: nothing is prefetched any more.
    pub(crate) fn close(&self) {
        self.set(None);
        let held = std::mem::take(&mut self.lock().held);
        self.release(held.values().map(|(bytes, _)| bytes.len() as u64).sum());
        self.is_active.store(false, Relaxed);
    }

    /// True while `generation` is the latest.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation.load(Relaxed) == generation
    }

    /// Waits until no thread is inside [`UpcomingReads::next`].
    pub(crate) fn finish_looking(&self) {
        drop(self.lock());
    }

    /// True when anything may have been prefetched.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Relaxed)
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Hands the prefetched bytes of `range` to the reader. A range in flight is to be waited for; one that is neither held
    /// nor in flight is the reader's to fetch, and is not prefetched any more.
    pub(crate) fn take(&self, flights: &Flights, source: SourceKey, range: ByteRange) -> Taken {
        let mut queue = self.lock();
        let key = (source, range.start);
        if queue.held.get(&key).is_some_and(|(bytes, _)| bytes.len() as u64 == range.len()) {
            let Some((bytes, _)) = queue.held.remove(&key) else { return Taken::Not };
            self.bytes.fetch_sub(bytes.len() as u64, Relaxed);
            return Taken::Bytes(bytes);
        }
        if let Some(flight) = flights.find(source, FlightPart::From(range.start)) {
            return Taken::InFlight(flight);
        }
        if queue.upcoming.is_some() {
            queue.overtaken.insert(key);
        }
        Taken::Not
    }

    /// Records that a reader fetches `range` itself.
    pub(crate) fn overtake(&self, source: SourceKey, range: ByteRange) {
        let mut queue = self.lock();
        if queue.upcoming.is_some() || !queue.postponed.is_empty() {
            queue.overtaken.insert((source, range.start));
        }
    }

    /// Drops what was prefetched of `range`: a tier has it by now.
    pub(crate) fn discard(&self, source: SourceKey, range: ByteRange) {
        if self.bytes.load(Relaxed) == 0 {
            return;
        }
        let left = self.lock().held.remove(&(source, range.start));
        if let Some((bytes, _)) = left {
            self.bytes.fetch_sub(bytes.len() as u64, Relaxed);
        }
    }

    /// What is prefetched next, and the lead of its flight; skips what was read or is held already.
    pub(crate) fn next(&self, flights: &Arc<Flights>) -> NextPrefetch {
        let mut queue = self.lock();
        loop {
            let upcoming = match queue.postponed.front() {
                // Reads behind it come later still, so that nothing overtakes it.
                Some(first) if !self.has_room(first.range.len()) => {
                    let key = (first.source, first.range.start);
                    if !queue.overtaken.contains(&key) {
                        return NextPrefetch::NoRoom;
                    }
                    queue.postponed.pop_front()
                }
                Some(_) => queue.postponed.pop_front(),
                None => {
                    let upcoming = queue.upcoming.as_mut().and_then(|upcoming| upcoming.next());
                    if upcoming.is_none() {
                        queue.upcoming = None;
                    }
                    upcoming
                }
            };
            let Some(upcoming) = upcoming else { return NextPrefetch::Nothing };
            let key = (upcoming.source, upcoming.range.start);
            if upcoming.range.is_empty() || queue.overtaken.remove(&key) || queue.held.contains_key(&key) {
                continue;
            }
            // Under the lock: no reader comes between the choice and the flight.
            if let Turn::Lead(lead) = flights.turn(upcoming.source, FlightPart::From(upcoming.range.start)) {
                return NextPrefetch::Fetch(upcoming, lead);
            }
        }
    }

    fn has_room(&self, len: u64) -> bool {
        self.bytes.load(Relaxed).saturating_add(len) <= self.budget
    }

    /// Takes `len` bytes of the budget.
    pub(crate) fn reserve(&self, len: u64) -> ReadAheadRoom {
        let more = |bytes: u64| bytes.checked_add(len).filter(|bytes| *bytes <= self.budget);
        if self.bytes.fetch_update(Relaxed, Relaxed, more).is_ok() {
            ReadAheadRoom::Taken
        } else if len <= self.budget {
            ReadAheadRoom::Later
        } else {
            ReadAheadRoom::Never
        }
    }

    /// Gives `len` bytes of the budget back.
    pub(crate) fn release(&self, len: u64) {
        self.bytes.fetch_sub(len, Relaxed);
    }

    /// Makes `upcoming` the next read that is prefetched again.
    pub(crate) fn postpone(&self, upcoming: UpcomingRead) {
        self.lock().postponed.push_front(upcoming);
    }

    /// Holds the bytes of `upcoming`, for which the budget was taken, until a reader comes for them.
    pub(crate) fn hold(&self, upcoming: UpcomingRead, bytes: Bytes) {
        let generation = self.generation.load(Relaxed);
        let before = self.lock().held.insert((upcoming.source, upcoming.range.start), (bytes, generation));
        if let Some((bytes, _)) = before {
            self.release(bytes.len() as u64);
        }
    }
}

/// Whether the budget has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAheadRoom {
    /// It had, and the bytes are taken.
    Taken,
    /// It has once readers have taken some.
    Later,
    /// The whole of it is too small.
    Never,
}

/// What to prefetch next.
#[derive(Debug)]
pub(crate) enum NextPrefetch {
    /// This read.
    Fetch(UpcomingRead, Lead),
    /// Nothing before readers have taken some of what is held.
    NoRoom,
    /// Nothing any more: the list is at its end.
    Nothing,
}

/// What a reader gets of what was prefetched.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The bytes.
    Bytes(Bytes),
    /// They are on their way.
    InFlight(Arc<Flight>),
    /// Nothing.
    Not,
}
