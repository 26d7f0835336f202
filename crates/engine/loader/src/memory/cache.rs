//! Decoded units in memory: what is used soonest stays, the rest goes to the spill.

use std::{
    collections::HashMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use forebay_batch::{Arena, Buffer, LoaderCounters, PlainBacking};
use forebay_process::{Error, ErrorKind, Resize, Result};

use crate::memory::{
    horizon::Moment,
    ledger::{Decoding, Now, SamplesOf, UnitLedger, Uses},
    shares::{Needs, Shares},
    spill::{Spill, SpillAdmission, UnitPlace},
};

/// A unit that is asked for.
pub(crate) struct UnitRequest<'a> {
    pub(crate) place: UnitPlace,
    pub(crate) len: usize,
    pub(crate) samples: SamplesOf<'a>,
}

/// A unit that was found.
#[derive(Debug)]
pub(crate) enum FoundUnit {
    /// In memory.
    Memory(Arc<Buffer>),
    /// In the spill.
    Spill,
    /// Another thread reads and decodes it.
    Busy,
}

/// What to do about a unit that another thread decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IfBusy {
    /// Do something else first.
    Skip,
    /// Wait for it.
    Wait,
}

/// Decoded units in memory, within a budget.
#[derive(Debug)]
pub(crate) struct UnitCache {
    state: Mutex<CacheState>,
    loaded: Condvar,
    budget: AtomicU64,
    needs: Needs,
    /// Bytes of the reader's memory that are not the cache's.
    fixed: u64,
    threads: usize,
    /// Memory of units; consumers never have any of it.
    arena: Arc<Arena>,
    spill: Option<Arc<dyn Spill>>,
    counters: Arc<LoaderCounters>,
}

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<u64, UnitEntry>,
    /// The residents among them.
    ledger: UnitLedger,
}

#[derive(Debug)]
enum UnitEntry {
    /// A thread reads and decodes it.
    Loading,
    Resident(Resident),
    /// On its way to the spill; until it is there it can be had here.
    Leaving(Arc<Buffer>),
}

#[derive(Debug)]
struct Resident {
    buffer: Arc<Buffer>,
    place: UnitPlace,
}

impl UnitCache {
    /// A cache of the bytes that `shares` give it, for the units of `needs`.
    pub(crate) fn new(
        shares: &Shares,
        needs: Needs,
        spill: Option<Arc<dyn Spill>>,
        counters: Arc<LoaderCounters>,
    ) -> Self {
        let (state, loaded) = (Mutex::default(), Condvar::new());
        let (budget, fixed, threads) = (AtomicU64::new(shares.cache), shares.fixed(), shares.most_threads);
        let limit = shares.cache.saturating_add(needs.decoding_bytes(threads));
        let arena = Arena::over(limit, Arc::new(PlainBacking::wiped_on_fork()));
        Self { state, loaded, budget, needs, fixed, threads, arena, spill, counters }
    }

    /// Memory for a unit of `len` bytes.
    pub(crate) fn unit(&self, len: usize) -> Result<Buffer> {
        self.arena.take(len)
    }

    /// Bytes that units may take.
    pub(crate) fn budget(&self) -> u64 {
        self.budget.load(Relaxed)
    }

    /// True when there is room for all units there are: then it does not matter which is used when.
    fn has_room_for_all(&self) -> bool {
        self.needs.all_units <= self.budget()
    }

    /// Those of `units` that are in memory, found under one lock; none where memory is short, since a unit that is referenced
    /// stays in it.
    ///
    /// A lock for each unit would wait until the bytes that were copied before are written: epochs over 256 MiB of decoded
    /// rows of 16 KiB take 5 % longer that way.
    pub(crate) fn in_memory(&self, units: impl Iterator<Item = u64>) -> Vec<Option<Arc<Buffer>>> {
        if !self.has_room_for_all() {
            return Vec::new();
        }
        let state = self.lock();
        let in_memory = |unit: u64| match state.entries.get(&unit) {
            Some(UnitEntry::Resident(resident)) => Some(Arc::clone(&resident.buffer)),
            _ => None,
        };
        units.map(in_memory).collect()
    }

    /// The unit `wanted`: from memory, from the spill, or by `load`, which at most one thread runs at a time.
    pub(crate) fn get(
        &self,
        wanted: &UnitRequest<'_>,
        now: Now<'_>,
        if_busy: IfBusy,
        load: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<FoundUnit> {
        let unit = wanted.place.unit;
        let mut state = self.lock();
        loop {
            match state.entries.get(&unit) {
                None => break,
                Some(UnitEntry::Leaving(buffer)) => return Ok(FoundUnit::Memory(Arc::clone(buffer))),
                Some(UnitEntry::Resident(resident)) => {
                    let buffer = Arc::clone(&resident.buffer);
                    if !self.has_room_for_all() {
                        state.ledger.touch(unit, now);
                    }
                    return Ok(FoundUnit::Memory(buffer));
                }
                Some(UnitEntry::Loading) if if_busy == IfBusy::Skip => return Ok(FoundUnit::Busy),
                Some(UnitEntry::Loading) => {
                    state = self.loaded.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        state.entries.insert(unit, UnitEntry::Loading);
        drop(state);
        // Whatever happens now, threads that wait for the unit must be woken.
        let mut claim = LoadClaim { cache: self, unit, is_open: true };
        if self.spill.as_ref().is_some_and(|spill| spill.has(wanted.place)) {
            return Ok(FoundUnit::Spill);
        }
        let mut buffer = self.arena.take(wanted.len)?;
        load(&mut buffer)?;
        let buffer = Arc::new(buffer);
        self.admit(wanted, now, Arc::clone(&buffer));
        // The claim went when the unit was taken in: by now it may be another thread's.
        claim.is_open = false;
        drop(claim);
        Ok(FoundUnit::Memory(buffer))
    }

    /// Adds a unit that was just decoded, and evicts those that are used last.
    fn admit(&self, wanted: &UnitRequest<'_>, now: Now<'_>, buffer: Arc<Buffer>) {
        let shared = self.spill.as_ref().filter(|spill| spill.is_shared());
        if let Some(spill) = shared {
            // Others on this node need not decode it again.
            self.put(&**spill, wanted.place, &buffer);
        }
        let (unit, room) = (wanted.place.unit, buffer.capacity() as u64);
        let now = if self.has_room_for_all() { Now { horizon: None, ..now } } else { now };
        let uses = Uses::new(wanted.samples, now);
        let mut state = self.lock();
        if state.ledger.admit(unit, room, uses) == Decoding::Again {
            LoaderCounters::add(&self.counters.decoded_again, 1);
        }
        state.entries.insert(unit, UnitEntry::Resident(Resident { buffer, place: wanted.place }));
        drop(state);
        self.evict(now);
    }

    /// Evicts the units that are used last, until the rest fits the budget.
    fn evict(&self, now: Now<'_>) {
        let budget = self.budget();
        let mut leaving = Vec::new();
        {
            let mut state = self.lock();
            while let Some(evicted) = state.ledger.evict(budget, now) {
                let Some(UnitEntry::Resident(resident)) = state.entries.remove(&evicted.unit) else {
                    continue;
                };
                let is_spilled = self.spill.as_ref().is_none_or(|spill| spill.has(resident.place));
                if !is_spilled && evicted.is_used_again {
                    state.entries.insert(evicted.unit, UnitEntry::Leaving(Arc::clone(&resident.buffer)));
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

    /// Forgets all units that are in memory, and gives that back to the system.
    pub(crate) fn clear(&self) {
        let start = Moment::new(0, 0);
        let now = Now { moment: start, oldest: start, horizon: None };
        let mut gone = Vec::new();
        let mut state = self.lock();
        while let Some(evicted) = state.ledger.evict(0, now) {
            gone.extend(state.entries.remove(&evicted.unit));
        }
        drop(state);
        drop(gone);
        self.arena.release();
    }

    fn put(&self, spill: &dyn Spill, place: UnitPlace, bytes: &[u8]) {
        if !spill.has(place) && spill.put(place, bytes) == SpillAdmission::Kept {
            LoaderCounters::add(&self.counters.spilled_bytes, bytes.len() as u64);
        }
    }

    /// Reads bytes of a unit that [`get`](Self::get) found in the spill.
    pub(crate) fn read_spilled(&self, place: UnitPlace, from: usize, into: &mut [u8]) -> Result<()> {
        LoaderCounters::add(&self.counters.unspilled_bytes, into.len() as u64);
        let read = self.spill.as_ref().is_some_and(|spill| spill.read(place, from as u64, into));
        let lost = || Error::new(ErrorKind::Unavailable, "the spill file lost what was written to it");
        if read { Ok(()) } else { Err(lost()) }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        // Entries are put in and taken out whole: a panic elsewhere cannot leave half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Resize for UnitCache {
    fn resize(&self, bytes: u64) {
        let least = self.needs.unit.saturating_mul(2);
        self.budget.store(bytes.saturating_sub(self.fixed).max(least), Relaxed);
        let start = Moment::new(0, 0);
        self.evict(Now { moment: start, oldest: start, horizon: None });
        self.arena.set_limit(self.budget().saturating_add(self.needs.decoding_bytes(self.threads)));
    }
}

/// Marks a unit as no longer being loaded, whether that went well or not.
struct LoadClaim<'a> {
    cache: &'a UnitCache,
    unit: u64,
    is_open: bool,
}

impl Drop for LoadClaim<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.lock();
        if self.is_open {
            state.entries.remove(&self.unit);
        }
        drop(state);
        self.cache.loaded.notify_all();
    }
}
