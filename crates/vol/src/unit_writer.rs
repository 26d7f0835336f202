//! Units on their way into the tier: one thread puts them there, and readers find them before they are.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_tier::{Admission, Claim, Claimed, Copies};

use crate::{cache_stats::CacheStats, file_state::VolFile, settings::WAITING_BYTES};

/// A unit that was read, and where it goes.
#[derive(Debug)]
pub(crate) struct WaitingUnit {
    /// Which data set and unit.
    pub(crate) key: UnitKey,
    pub(crate) copies: Arc<dyn Copies>,
    /// The file it was read from: nothing is kept once that has changed.
    pub(crate) file: Arc<VolFile>,
    pub(crate) first_block: u64,
    pub(crate) block_len: u64,
    pub(crate) bytes: Bytes,
    /// The claim on its first block, where one is held already.
    pub(crate) claim: Option<Box<dyn Claimed>>,
    /// Other copies may leave for it.
    pub(crate) may_replace: bool,
}

/// A data set of this process by its number, and a unit of it.
pub(crate) type UnitKey = (u64, u64);

/// The queue and its thread, which starts with the first unit.
#[derive(Debug, Default)]
pub(crate) struct UnitWriter {
    shared: Arc<WriterShared>,
}

#[derive(Debug, Default)]
struct WriterShared {
    queue: Mutex<WriterQueue>,
    change: Condvar,
    stats: CacheStats,
}

#[derive(Debug, Default)]
struct WriterQueue {
    waiting: VecDeque<WaitingUnit>,
    /// All units that wait or are just being put.
    by_key: HashMap<UnitKey, Bytes>,
    bytes: u64,
    has_thread: bool,
    is_paused: bool,
    stop: bool,
}

impl UnitWriter {
    /// What was counted.
    pub(crate) fn stats(&self) -> &CacheStats {
        &self.shared.stats
    }

    /// The bytes of a unit that is on its way.
    pub(crate) fn find(&self, key: UnitKey) -> Option<Bytes> {
        self.shared.lock().by_key.get(&key).cloned()
    }

    /// Hands over a unit; waits while more than [`WAITING_BYTES`] are on their way, and drops it while the writer is paused
    /// and has as many.
    pub(crate) fn push(&self, unit: WaitingUnit) {
        let mut queue = self.shared.lock();
        while queue.bytes >= WAITING_BYTES && !queue.stop && queue.has_thread {
            if queue.is_paused {
                return;
            }
            queue = self.shared.change.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.stop || queue.by_key.contains_key(&unit.key) {
            return;
        }
        if !queue.has_thread {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("forebay-hdf5".to_owned());
            if builder.spawn(move || shared.work()).is_err() {
                drop(queue);
                return put(unit, &self.shared.stats);
            }
            queue.has_thread = true;
        }
        queue.bytes += unit.bytes.len() as u64;
        queue.by_key.insert(unit.key, unit.bytes.clone());
        queue.waiting.push_back(unit);
        drop(queue);
        self.shared.change.notify_all();
    }

    /// Nothing is put into the tier until [`resume`](Self::resume).
    pub(crate) fn pause(&self) {
        self.shared.lock().is_paused = true;
        self.shared.change.notify_all();
    }

    /// Goes on.
    pub(crate) fn resume(&self) {
        self.shared.lock().is_paused = false;
        self.shared.change.notify_all();
    }

    /// Waits until all is in the tier, at most `patience`; false when that was not enough, or when it is paused.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut queue = self.shared.lock();
        while !queue.by_key.is_empty() && !queue.stop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || queue.is_paused {
                return false;
            }
            queue = self.shared.change.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Drops what waits and takes no more.
    pub(crate) fn stop(&self) {
        let mut queue = self.shared.lock();
        queue.stop = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        self.shared.change.notify_all();
        drop(waiting);
    }
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, WriterQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut queue = self.lock();
        while !queue.stop {
            let next = if queue.is_paused { None } else { queue.waiting.pop_front() };
            let Some(unit) = next else {
                queue = self.change.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let (key, len) = (unit.key, unit.bytes.len() as u64);
            put(unit, &self.stats);
            queue = self.lock();
            queue.by_key.remove(&key);
            queue.bytes -= len;
            self.change.notify_all();
        }
    }
}

/// Puts the blocks of a unit into the tier: all, or the first ones where it fills up.
fn put(unit: WaitingUnit, stats: &CacheStats) {
    if !unit.file.is_current() {
        unit.file.note_all_changed();
        stats.refused(unit.bytes.len());
        return;
    }
    let mut held = unit.claim;
    let step = usize::try_from(unit.block_len).unwrap_or(usize::MAX);
    let (mut block, mut at) = (unit.first_block, 0);
    while at < unit.bytes.len() {
        let bytes = unit.bytes.slice(at..(at + step).min(unit.bytes.len()));
        let claim = match held.take() {
            Some(claim) => Claim::Held(claim),
            None => Arc::clone(&unit.copies).claim(block, bytes.len() as u64, unit.may_replace),
        };
        let is_there = match claim {
            Claim::Held(claim) => claim.put(&bytes) == Admission::Kept,
            // Another process puts the same unit.
            Claim::Here | Claim::Busy => true,
            Claim::Full => false,
        };
        if !is_there {
            stats.refused(unit.bytes.len() - at);
            return;
        }
        stats.kept(bytes.len());
        (block, at) = (block + 1, at + bytes.len());
    }
}
