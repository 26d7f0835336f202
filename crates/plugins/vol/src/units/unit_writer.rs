//! Units on their way into the tier: one thread puts them there, and readers find them before they are.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};

use crate::units::{
    cache_stats::CacheStats,
    unit_target::{BlockClaim, UnitTarget},
};

/// The most bytes that wait to be put into a tier, with the buffers that are kept for the next ones: 64 units of 1 MiB. A unit that
/// is longer waits alone.
pub(crate) const WAITING_BYTES: u64 = 64 << 20;

/// How often it is looked whether what units are read from has changed: a look for each unit of 1 MiB was a second request to the
/// file system for every one that reads. Who opens a file that has changed finds another version of it, whatever was kept by then.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What units are read from.
pub(crate) trait UnitOrigin: Send + Sync + fmt::Debug {
    /// True while it is what was opened, by a look at it that began at `since` or later.
    fn is_current_since(&self, since: Instant) -> bool;

    /// It is not: nothing more is kept of it.
    fn note_changed(&self);
}

/// A unit that was read, and where it goes.
#[derive(Debug)]
pub(crate) struct WaitingUnit {
    /// Where it goes.
    pub(crate) target: UnitTarget,
    /// Which unit.
    pub(crate) unit: u64,
    /// What it was read from: nothing is kept once that has changed.
    pub(crate) origin: Arc<dyn UnitOrigin>,
    /// When it had been read.
    pub(crate) read_at: Instant,
    /// Its bytes, of which those at the end may be left out that mean nothing.
    pub(crate) bytes: Bytes,
    /// The claim on one of its blocks, where one is held already.
    pub(crate) claim: Option<BlockClaim>,
}

/// A data set of this process by its number, and a unit of it.
pub(crate) type UnitKey = (u64, u64);

/// How long a unit may wait for room in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueuePatience {
    /// As long as it takes.
    Forever,
    /// Until then.
    Until(Instant),
}

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
    /// Bytes of units that wait.
    bytes: u64,
    /// Buffers of units that are in the tier: fresh memory costs twice as much as the copy into it (250 us for 1 MiB).
    spare: Vec<BytesMut>,
    spare_bytes: u64,
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

    /// An empty buffer with room for `len` bytes.
    pub(crate) fn buffer(&self, len: usize) -> BytesMut {
        let spare = self.shared.lock().take_spare();
        spare.filter(|buffer| buffer.capacity() >= len).unwrap_or_else(|| BytesMut::with_capacity(len))
    }

    /// Hands over a unit. While [`WAITING_BYTES`] are on their way it waits, and drops the unit once `patience` is at its end or
    /// the writer is paused.
    pub(crate) fn push(&self, unit: WaitingUnit, patience: QueuePatience) {
        let (key, len) = ((unit.target.number, unit.unit), unit.bytes.len() as u64);
        let mut queue = self.shared.lock();
        while !queue.makes_room(len) && !queue.stop && queue.has_thread {
            let left = match patience {
                QueuePatience::Forever => Duration::MAX,
                QueuePatience::Until(end) => end.saturating_duration_since(Instant::now()),
            };
            if queue.is_paused || left.is_zero() {
                drop(queue);
                return self.shared.stats.refused(unit.bytes.len());
            }
            queue = self.shared.change.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if queue.stop || queue.by_key.contains_key(&key) {
            return;
        }
        if !queue.has_thread {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new().name("forebay-hdf5".to_owned());
            if builder.spawn(move || shared.work()).is_err() {
                drop(queue);
                put(unit, &self.shared.stats);
                return;
            }
            queue.has_thread = true;
        }
        queue.bytes += len;
        queue.by_key.insert(key, unit.bytes.clone());
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
            let (key, len) = ((unit.target.number, unit.unit), unit.bytes.len() as u64);
            let bytes = put(unit, &self.stats);
            queue = self.lock();
            queue.by_key.remove(&key);
            queue.bytes -= len;
            if let Ok(buffer) = bytes.try_into_mut() {
                queue.keep_spare(buffer);
            }
            self.change.notify_all();
        }
    }
}

impl WriterQueue {
    /// True when `len` bytes more may wait: all that wait, with the buffers that are kept, stay within [`WAITING_BYTES`]; a unit
    /// that is longer waits alone.
    fn makes_room(&mut self, len: u64) -> bool {
        if self.bytes > 0 && self.bytes.saturating_add(len) > WAITING_BYTES {
            return false;
        }
        while self.bytes.saturating_add(len).saturating_add(self.spare_bytes) > WAITING_BYTES
            && self.take_spare().is_some()
        {}
        true
    }

    fn take_spare(&mut self) -> Option<BytesMut> {
        let buffer = self.spare.pop()?;
        self.spare_bytes -= buffer.capacity() as u64;
        Some(buffer)
    }

    fn keep_spare(&mut self, mut buffer: BytesMut) {
        buffer.clear();
        let len = buffer.capacity() as u64;
        if self.bytes.saturating_add(self.spare_bytes).saturating_add(len) <= WAITING_BYTES {
            self.spare_bytes += len;
            self.spare.push(buffer);
        }
    }
}

/// Puts a unit into the tier, and gives its bytes back.
fn put(unit: WaitingUnit, stats: &CacheStats) -> Bytes {
    let WaitingUnit { target, unit, origin, read_at, bytes, claim } = unit;
    if origin.is_current_since(read_at.checked_sub(LOOK_EVERY).unwrap_or(read_at)) {
        target.put(unit, &bytes, claim, stats);
    } else {
        origin.note_changed();
        stats.refused(bytes.len());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, SourceId, Version};
    use forebay_tier::{BuiltinPolicy, MemoryTier, Ranking, Tier};

    use super::*;

    #[derive(Debug)]
    struct Unchanging;

    impl UnitOrigin for Unchanging {
        fn is_current_since(&self, _: Instant) -> bool {
            true
        }

        fn note_changed(&self) {}
    }

    #[test]
    fn what_waits_and_what_is_kept_for_reuse_never_takes_more_than_its_bound() {
        let tier = MemoryTier::new(1 << 30, Ranking::new(BuiltinPolicy::Lru));
        let id = SourceId { locator: Locator::new("a"), len: 1 << 30, version: Version::named("v") };
        let copies = tier.copies(&id).unwrap();
        let target =
            UnitTarget { copies, number: 0, blocks_per_unit: 8, block_len: 1 << 17, may_replace: true };
        let writer = UnitWriter::default();
        let push = |unit: u64, len: usize| {
            let mut bytes = writer.buffer(len);
            bytes.resize(len, 1);
            let (bytes, origin, target) = (bytes.freeze(), Arc::new(Unchanging), target.clone());
            let unit = WaitingUnit { target, unit, origin, read_at: Instant::now(), bytes, claim: None };
            writer.push(unit, QueuePatience::Forever);
        };
        let taken = || {
            let queue = writer.shared.lock();
            queue.bytes + queue.spare_bytes
        };
        push(0, 1 << 20);
        assert!(writer.wait(Duration::from_secs(300)));
        writer.pause();
        for unit in 1..100 {
            push(unit, 1 << 20);
            assert!(taken() <= WAITING_BYTES, "{unit}");
        }
        assert_eq!(
            writer.stats().counters().refused_bytes,
            35 << 20,
            "64 wait, and nobody waits for a pause"
        );
        writer.resume();
        assert!(writer.wait(Duration::from_secs(300)));
        assert!(taken() <= WAITING_BYTES);
        assert_eq!(writer.stats().counters().kept_bytes, 65 << 20);
        // One that is longer than the bound waits alone.
        push(200, usize::try_from(WAITING_BYTES).unwrap() + 1);
        assert!(writer.wait(Duration::from_secs(300)));
        let mut last = vec![0; 10];
        let mut pieces =
            [forebay_tier::BlockPiece { block: 64 * 8 + 7, from: 5, into: &mut last, is_filled: false }];
        target.copies.read_many(&mut pieces, None);
        assert!(pieces[0].is_filled && last == [1; 10]);
    }
}
