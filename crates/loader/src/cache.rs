//! Decoded units in memory: what is used soonest stays, the rest goes to the spill.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use forebay_source::{Error, ErrorKind, Result};

use crate::{
    arena::{Arena, Buffer},
    spill::{Admission, Place, Spill},
    stats::Counters,
};

/// A step of an epoch, in an order that goes on over epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than anything that is planned.
    pub(crate) const NEVER: Self = Self(u64::MAX);
    const STEP_BITS: u32 = 40;

    pub(crate) fn new(epoch: u64, step: u64) -> Self {
        Self(epoch << Self::STEP_BITS | step & ((1 << Self::STEP_BITS) - 1))
    }

    fn epoch(self) -> u64 {
        self.0 >> Self::STEP_BITS
    }
}

/// Who knows when samples are used.
pub(crate) trait Horizon: Sync {
    /// The moments after `now`, within its epoch, at which one of `samples` is used; in any order.
    fn uses(&self, samples: Range<u64>, now: Moment) -> Vec<Moment>;

    /// The first moment in the epoch after `now`'s at which one of `samples` is used.
    fn next_epoch_use(&self, samples: Range<u64>, now: Moment) -> Moment;
}

/// Where a reader is: what it reads for, and who knows what comes after.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) moment: Moment,
    pub(crate) horizon: Option<&'a dyn Horizon>,
}

/// A unit that is asked for.
pub(crate) struct Wanted<'a> {
    pub(crate) place: Place,
    pub(crate) len: usize,
    /// The samples that have elements in it, if they are neighbours.
    pub(crate) samples: &'a dyn Fn() -> Option<Range<u64>>,
}

/// A unit that was found.
#[derive(Debug)]
pub(crate) enum Found {
    /// In memory.
    Memory(Arc<Buffer>),
    /// In the spill.
    Spill,
}

/// Units of more samples than this are in use all the time: reckoning each use would cost more than it tells.
const MOST_USES: u64 = 4096;

/// Decoded units in memory, within a budget.
#[derive(Debug)]
pub(crate) struct UnitCache {
    state: Mutex<State>,
    loaded: Condvar,
    budget: AtomicU64,
    arena: Arc<Arena>,
    spill: Option<Arc<dyn Spill>>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<u64, Entry>,
    /// The units in memory by their next use: the last is the first to go.
    by_next_use: BTreeSet<(Moment, u64)>,
    len: u64,
    /// Units that were decoded once, a bit each.
    seen: Vec<u64>,
}

#[derive(Debug)]
enum Entry {
    /// A thread reads and decodes it.
    Loading,
    Resident(Resident),
    /// On its way to the spill; until it is there it can be had here.
    Leaving(Arc<Buffer>),
}

#[derive(Debug)]
struct Resident {
    buffer: Arc<Buffer>,
    place: Place,
    next: Moment,
    /// Later uses in the epoch of `next`, the soonest last.
    later: Vec<Moment>,
    /// The epoch `later` was reckoned for.
    epoch: u64,
}

impl UnitCache {
    pub(crate) fn new(
        arena: Arc<Arena>,
        budget: u64,
        spill: Option<Arc<dyn Spill>>,
        counters: Arc<Counters>,
    ) -> Self {
        let state = Mutex::default();
        Self { state, loaded: Condvar::new(), budget: AtomicU64::new(budget), arena, spill, counters }
    }

    /// The unit `wanted`: from memory, from the spill, or by `load`, which at most one thread runs at a time.
    pub(crate) fn get(
        &self,
        wanted: &Wanted<'_>,
        now: Now<'_>,
        load: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<Found> {
        let unit = wanted.place.unit;
        let mut state = self.lock();
        loop {
            match state.entries.get_mut(&unit) {
                None => break,
                Some(Entry::Leaving(buffer)) => return Ok(Found::Memory(Arc::clone(buffer))),
                Some(Entry::Resident(_)) => return Ok(Found::Memory(state.touch(wanted, now))),
                Some(Entry::Loading) => {
                    state = self.loaded.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.entries.insert(unit, Entry::Loading);
        drop(state);
        // Whatever happens now, those who wait for the unit must be woken.
        let claim = Claim { cache: self, unit };
        if self.spill.as_ref().is_some_and(|spill| spill.has(wanted.place)) {
            return Ok(Found::Spill);
        }
        let mut buffer = self.arena.take(wanted.len)?;
        load(&mut buffer)?;
        let buffer = Arc::new(buffer);
        self.admit(wanted, now, Arc::clone(&buffer));
        drop(claim);
        Ok(Found::Memory(buffer))
    }

    /// Takes a unit that was just decoded, and lets go what is used last.
    fn admit(&self, wanted: &Wanted<'_>, now: Now<'_>, buffer: Arc<Buffer>) {
        let shared = self.spill.as_ref().filter(|spill| spill.is_shared());
        if let Some(spill) = shared {
            // Others on this node need not decode it again.
            self.put(&**spill, wanted.place, &buffer);
        }
        let resident = Resident::new(wanted, now, buffer);
        let (unit, room) = (wanted.place.unit, resident.buffer.capacity() as u64);
        let budget = self.budget.load(Relaxed);
        let mut leaving = Vec::new();
        {
            let mut state = self.lock();
            if state.was_seen(unit) {
                Counters::add(&self.counters.decoded_again, 1);
            }
            state.len += room;
            state.by_next_use.insert((resident.next, unit));
            state.entries.insert(unit, Entry::Resident(resident));
            while state.len > budget {
                let Some((_, last)) = state.by_next_use.pop_last() else { break };
                let Some(Entry::Resident(resident)) = state.entries.remove(&last) else { continue };
                state.len -= resident.buffer.capacity() as u64;
                let is_spilled = self.spill.as_ref().is_none_or(|spill| spill.has(resident.place));
                if !is_spilled && resident.next != Moment::NEVER {
                    state.entries.insert(last, Entry::Leaving(Arc::clone(&resident.buffer)));
                    leaving.push(resident);
                }
            }
        }
        for resident in leaving {
            if let Some(spill) = &self.spill {
                self.put(&**spill, resident.place, &resident.buffer);
            }
            self.lock().entries.remove(&resident.place.unit);
        }
    }

    fn put(&self, spill: &dyn Spill, place: Place, bytes: &[u8]) {
        if !spill.has(place) && spill.put(place, bytes) == Admission::Kept {
            Counters::add(&self.counters.spilled_bytes, bytes.len() as u64);
        }
    }

    /// Reads bytes of a unit that [`get`](Self::get) found in the spill.
    pub(crate) fn read_spilled(&self, place: Place, from: usize, into: &mut [u8]) -> Result<()> {
        Counters::add(&self.counters.unspilled_bytes, into.len() as u64);
        let read = self.spill.as_ref().is_some_and(|spill| spill.read(place, from as u64, into));
        let lost = || Error::new(ErrorKind::Unavailable, "the spill file lost what was written to it");
        if read { Ok(()) } else { Err(lost()) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Entries are put in and taken out whole: a panic elsewhere cannot leave half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks a unit as no longer being loaded, whether that went well or not.
struct Claim<'a> {
    cache: &'a UnitCache,
    unit: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        if let Some(Entry::Loading) = state.entries.get(&self.unit) {
            state.entries.remove(&self.unit);
        }
        drop(state);
        self.cache.loaded.notify_all();
    }
}

impl State {
    /// Marks `unit` as decoded, and tells whether it was before.
    fn was_seen(&mut self, unit: u64) -> bool {
        let (word, bit) = (usize::try_from(unit / 64).unwrap_or(usize::MAX), 1u64 << (unit % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let was = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        was
    }

    /// Counts a use of a unit in memory and lends it.
    fn touch(&mut self, wanted: &Wanted<'_>, now: Now<'_>) -> Arc<Buffer> {
        let unit = wanted.place.unit;
        let Some(Entry::Resident(resident)) = self.entries.get_mut(&unit) else {
            unreachable!("looked at under the same lock");
        };
        let before = resident.next;
        resident.advance(wanted, now);
        if resident.next != before {
            self.by_next_use.remove(&(before, unit));
            self.by_next_use.insert((resident.next, unit));
        }
        Arc::clone(&resident.buffer)
    }
}

impl Resident {
    fn new(wanted: &Wanted<'_>, now: Now<'_>, buffer: Arc<Buffer>) -> Self {
        let mut resident =
            Self { buffer, place: wanted.place, next: now.moment, later: Vec::new(), epoch: u64::MAX };
        resident.advance(wanted, now);
        resident
    }

    /// Finds the next use after `now`.
    fn advance(&mut self, wanted: &Wanted<'_>, now: Now<'_>) {
        // Without a plan, what was used last is kept longest: the older a unit's last use, the later its next.
        let by_age = Moment(u64::MAX - 1 - now.moment.0);
        let Some(horizon) = now.horizon else { return self.next = by_age };
        if self.epoch == now.moment.epoch() && self.next > now.moment {
            // A thread that is behind: what lies ahead is already known.
            return;
        }
        let Some(samples) = (wanted.samples)() else { return self.next = by_age };
        if samples.end - samples.start > MOST_USES {
            return self.next = Moment(now.moment.0 + 1);
        }
        if self.epoch != now.moment.epoch() {
            self.later = horizon.uses(samples.clone(), now.moment);
            self.later.sort_unstable_by(|one, other| other.cmp(one));
            self.epoch = now.moment.epoch();
        }
        while let Some(use_at) = self.later.pop() {
            if use_at > now.moment {
                return self.next = use_at;
            }
        }
        self.next = horizon.next_epoch_use(samples, now.moment);
    }
}
