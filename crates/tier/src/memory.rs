//! A tier in memory.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Instant,
};

use bytes::Bytes;
use forebay_source::{Grant, SourceId};

use crate::{
    Admission, BlockPiece, Claim, Claimed, Copies, Evicted, Facts, Judge, Room, SourceKey, Tier, Usage,
    WholeCopy, Worth,
    pages::{Pages, Stored},
    policy::{Leavers, Ticks},
    sync::{AtomicU64, Mutex, Relaxed, RwLock, lock},
};

/// A tier in the memory of this process.
#[derive(Debug)]
pub struct MemoryTier {
    room: Arc<Hall>,
}

/// What all copies of the tier share.
#[derive(Debug)]
struct Hall {
    quota: u64,
    pages: Arc<Pages>,
    /// Held as long as the tier is there.
    _grant: Option<Grant>,
    used: AtomicU64,
    judge: Judge,
    ticks: Ticks,
    sources: Mutex<HashMap<SourceKey, Arc<Held>>>,
    leavers: Mutex<Leavers<(SourceKey, u64)>>,
    evicted: AtomicU64,
    is_closed: AtomicBool,
}

/// The copies of one source.
#[derive(Debug)]
struct Held {
    id: SourceId,
    key: SourceKey,
    shards: [RwLock<HashMap<u64, Copy>>; SHARDS],
    room: Weak<Hall>,
}

/// Locks per source: threads that read different blocks rarely meet.
const SHARDS: usize = 8;

#[derive(Debug)]
struct Copy {
    stored: Stored,
    placed: u64,
    used: AtomicU64,
    uses: AtomicU64,
}

impl MemoryTier {
    /// A tier of at most `quota` bytes, of which `judge` says who leaves.
    pub fn new(quota: u64, judge: Judge) -> Self {
        Self::of(quota, judge, None)
    }

    /// A tier of the memory that was granted.
    pub fn within(grant: Grant, judge: Judge) -> Self {
        Self::of(grant.bytes(), judge, Some(grant))
    }

    fn of(quota: u64, judge: Judge, grant: Option<Grant>) -> Self {
        let room = Hall {
            quota,
            pages: Arc::new(Pages::new(quota)),
            _grant: grant,
            used: AtomicU64::new(0),
            judge,
            ticks: Ticks::default(),
            sources: Mutex::default(),
            leavers: Mutex::default(),
            evicted: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        };
        Self { room: Arc::new(room) }
    }
}

impl Tier for MemoryTier {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>> {
        let key = SourceKey::of(source);
        let mut sources = lock(&self.room.sources);
        // Those that hold nothing and nobody uses are swept out now and then.
        if sources.len().is_power_of_two() {
            sources.retain(|_, held| Arc::strong_count(held) > 1 || held.holds_any());
        }
        let held = sources.entry(key).or_insert_with(|| {
            let shards = std::array::from_fn(|_| RwLock::default());
            Arc::new(Held { id: source.clone(), key, shards, room: Arc::downgrade(&self.room) })
        });
        Some(Arc::clone(held) as Arc<dyn Copies>)
    }

    fn usage(&self) -> Usage {
        let Hall { quota, used, evicted, .. } = &*self.room;
        Usage { used: used.load(Relaxed), quota: *quota, evicted: evicted.load(Relaxed), faults: 0 }
    }

    fn left_out(&self) -> Option<&str> {
        None
    }

    fn wait(&self, _: Instant) -> bool {
        true
    }

    fn close(&self, _: Instant) {
        self.room.is_closed.store(true, SeqCst);
        let sources: Vec<_> = lock(&self.room.sources).drain().map(|(_, held)| held).collect();
        for shard in sources.iter().flat_map(|held| &held.shards) {
            let blocks = std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            let len = blocks.values().map(|copy| copy.stored.len()).sum();
            self.room.used.fetch_sub(len, Relaxed);
        }
    }
}

impl Hall {
    /// Takes `len` bytes of the quota, if they are free.
    fn reserve(&self, len: u64) -> bool {
        let more = |used: u64| used.checked_add(len).filter(|used| *used <= self.quota);
        self.used.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Takes `len` bytes of the quota for a copy worth `newcomer`, and gives the blocks that left for it; nothing where
    /// there is no room, and then all stay.
    fn reserve_for(&self, len: u64, newcomer: Worth) -> Option<Vec<Evicted>> {
        if self.reserve(len) {
            return Some(Vec::new());
        }
        if len > self.quota || self.judge.never_evicts() {
            return None;
        }
        let newcomer = self.judge.policy.newcomers_compete().then_some(newcomer);
        let mut leavers = lock(&self.leavers);
        let mut left: Vec<(Arc<Held>, u64, Copy)> = Vec::new();
        while !self.reserve(len) {
            let leaver = leavers.next(newcomer, || self.ranked(), |(key, block)| self.worth(*key, *block));
            let Some((key, block)) = leaver else {
                left.into_iter().for_each(|(held, block, copy)| self.put_back(&held, block, copy));
                return None;
            };
            left.extend(self.remove(key, block));
        }
        self.evicted.fetch_add(left.len() as u64, Relaxed);
        let evicted = |(held, block, copy): (Arc<Held>, u64, Copy)| Evicted {
            source: held.id.clone(),
            block,
            stored: copy.stored,
        };
        Some(left.into_iter().map(evicted).collect())
    }

    fn ranked(&self) -> Vec<(Worth, (SourceKey, u64))> {
        let held: Vec<_> = lock(&self.sources).values().cloned().collect();
        held.iter().flat_map(|held| held.ranked(&self.judge)).collect()
    }

    fn worth(&self, key: SourceKey, block: u64) -> Option<Worth> {
        let held = lock(&self.sources).get(&key).cloned()?;
        let shard = held.shard(block).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&block).map(|copy| self.judge.worth(key, held.facts(block, copy)))
    }

    fn remove(&self, key: SourceKey, block: u64) -> Option<(Arc<Held>, u64, Copy)> {
        let held = lock(&self.sources).get(&key).cloned()?;
        let copy = held.shard(block).write().unwrap_or_else(PoisonError::into_inner).remove(&block)?;
        self.used.fetch_sub(copy.stored.len(), Relaxed);
        Some((held, block, copy))
    }

    /// Keeps a copy that was removed, if its room is still free and nobody was faster.
    fn put_back(&self, held: &Held, block: u64, copy: Copy) {
        let len = copy.stored.len();
        let mut shard = held.shard(block).write().unwrap_or_else(PoisonError::into_inner);
        if !shard.contains_key(&block) && self.reserve(len) {
            shard.insert(block, copy);
        }
    }
}

impl Held {
    fn shard(&self, block: u64) -> &RwLock<HashMap<u64, Copy>> {
        &self.shards[usize::try_from(block % SHARDS as u64).unwrap_or(0)]
    }

    fn holds_any(&self) -> bool {
        self.shards.iter().any(|shard| !shard.read().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    fn facts<'a>(&'a self, block: u64, copy: &Copy) -> Facts<'a> {
        Facts {
            source: Some(&self.id),
            block: Some(block),
            len: copy.stored.len(),
            placed: copy.placed,
            used: copy.used.load(Relaxed),
            uses: copy.uses.load(Relaxed),
            next_use: None,
        }
    }

    fn ranked(&self, judge: &Judge) -> Vec<(Worth, (SourceKey, u64))> {
        let of_shard = |shard: &RwLock<HashMap<u64, Copy>>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            let worth = |block: u64, copy: &Copy| judge.worth(self.key, self.facts(block, copy));
            shard.iter().map(|(block, copy)| (worth(*block, copy), (self.key, *block))).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// What the copy `block`, which is there, gives to `read`.
    fn with<T>(&self, block: u64, read: impl FnOnce(&Stored) -> T) -> Option<T> {
        let shard = self.shard(block).read().unwrap_or_else(PoisonError::into_inner);
        let copy = shard.get(&block)?;
        if let Some(room) = self.room.upgrade() {
            copy.used.store(room.ticks.next(), Relaxed);
            copy.uses.fetch_add(1, Relaxed);
        }
        Some(read(&copy.stored))
    }

    /// What a newcomer is worth.
    fn newcomer(&self, room: &Hall, block: u64, len: u64) -> Worth {
        let now = room.ticks.next();
        let facts = Facts {
            source: Some(&self.id),
            block: Some(block),
            len,
            placed: now,
            used: now,
            uses: 1,
            next_use: None,
        };
        room.judge.worth(self.key, facts)
    }
}

impl Copies for Held {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], _: Option<Instant>) {
        // A copy within memory waits for nothing: the deadline needs no look at the clock.
        for piece in pieces.iter_mut().filter(|piece| !piece.is_filled) {
            let read = |stored: &Stored| stored.read(piece.from, piece.into);
            piece.is_filled = self.with(piece.block, read).unwrap_or(false);
        }
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        self.with(block, Stored::bytes)
    }

    fn has(&self, block: u64) -> bool {
        self.shard(block).read().unwrap_or_else(PoisonError::into_inner).contains_key(&block)
    }

    fn held(&self) -> u64 {
        let of_shard = |shard: &RwLock<HashMap<u64, Copy>>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.values().map(|copy| copy.stored.len()).sum::<u64>()
        };
        self.shards.iter().map(of_shard).sum()
    }

    fn room(&self, block: u64, len: u64) -> Room {
        let Some(room) = self.room.upgrade() else { return Room::Full };
        if room.used.load(Relaxed).saturating_add(len) <= room.quota {
            return Room::Free;
        }
        let policy = &room.judge.policy;
        if len > room.quota || room.judge.never_evicts() {
            return Room::Full;
        }
        if !policy.newcomers_compete() {
            return Room::ByLeaving;
        }
        let newcomer = self.newcomer(&room, block, len);
        let mut leavers = lock(&room.leavers);
        let leaver = leavers.next(Some(newcomer), || room.ranked(), |(key, block)| room.worth(*key, *block));
        // Nobody leaves yet.
        let found = leaver.and_then(|(key, block)| Some((room.worth(key, block)?, (key, block))));
        let Some((worth, leaver)) = found else { return Room::Full };
        leavers.put_back(worth, leaver);
        Room::ByLeaving
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, may_replace: bool) -> Claim {
        if self.has(block) {
            return Claim::Here;
        }
        let Some(room) = self.room.upgrade().filter(|room| !room.is_closed.load(SeqCst)) else {
            return Claim::Full;
        };
        let reserved = if may_replace {
            room.reserve_for(len, self.newcomer(&room, block, len))
        } else {
            room.reserve(len).then(Vec::new)
        };
        let Some(evicted) = reserved else { return Claim::Full };
        // No other process sees this memory: there is nobody to ask.
        Claim::Held(Box::new(Reserved { held: self, room, block, len, evicted }))
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        None
    }

    fn settle(&self) {}
}

/// Room for one block.
#[derive(Debug)]
struct Reserved {
    held: Arc<Held>,
    room: Arc<Hall>,
    block: u64,
    /// What is given back: nothing once the block is there.
    len: u64,
    /// What left for it.
    evicted: Vec<Evicted>,
}

impl Claimed for Reserved {
    fn put(mut self: Box<Self>, bytes: &Bytes) -> Admission {
        if bytes.len() as u64 != self.len {
            return Admission::Refused;
        }
        let Some(stored) = self.room.pages.store(bytes) else { return Admission::Refused };
        let now = self.room.ticks.next();
        let copy = Copy { stored, placed: now, used: AtomicU64::new(now), uses: AtomicU64::new(1) };
        let mut shard = self.held.shard(self.block).write().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a tier that is closed from now on removes what is here.
        if self.room.is_closed.load(SeqCst) {
            return Admission::Refused;
        }
        // Another thread may have been as fast: then its room is given back.
        self.len = shard.insert(self.block, copy).map_or(0, |before| before.stored.len());
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<Evicted> {
        std::mem::take(&mut self.evicted)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.len, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, Version};

    use super::*;
    use crate::Standard;

    fn id(name: &str) -> SourceId {
        SourceId { locator: Locator::new(name), len: 1000, version: Version::named("v") }
    }

    fn put(copies: &Arc<dyn Copies>, block: u64, byte: u8) -> Option<Admission> {
        match Arc::clone(copies).claim(block, 100, true) {
            Claim::Held(claimed) => Some(claimed.put(&Bytes::from(vec![byte; 100]))),
            _ => None,
        }
    }

    fn filled(policy: Standard) -> Arc<dyn Copies> {
        let tier = Box::leak(Box::new(MemoryTier::new(300, Judge::new(policy))));
        let copies = tier.copies(&id("a")).unwrap();
        for block in 0..3 {
            assert_eq!(put(&copies, block, block.to_le_bytes()[0]), Some(Admission::Kept));
        }
        copies
    }

    #[test]
    fn what_was_put_is_read_back_in_part_and_no_more_is_taken_than_the_quota() {
        let tier = MemoryTier::new(250, Judge::new(Standard::FirstFit));
        let (one, other) = (tier.copies(&id("a")).unwrap(), tier.copies(&id("b")).unwrap());
        assert_eq!(put(&one, 0, 7), Some(Admission::Kept));
        assert_eq!(put(&other, 0, 9), Some(Admission::Kept));
        assert_eq!((one.room(1, 100), one.room(1, 50)), (Room::Full, Room::Free));
        assert!(matches!(Arc::clone(&one).claim(1, 100, true), Claim::Full));
        assert!(matches!(Arc::clone(&one).claim(0, 100, true), Claim::Here));
        drop(Arc::clone(&one).claim(1, 50, true));
        assert_eq!(tier.usage().used, 200, "room that was not used is given back");
        let (mut part, mut beyond) = ([0; 10], [0; 10]);
        let mut pieces = [(90, &mut part), (95, &mut beyond)].map(|(from, into)| BlockPiece {
            block: 0,
            from,
            into,
            is_filled: false,
        });
        other.read_many(&mut pieces, None);
        assert_eq!(pieces.map(|piece| piece.is_filled), [true, false], "past the end of the block");
        assert_eq!(part, [9; 10]);
        assert!(one.get(1).is_none());
        assert_eq!(tier.usage(), Usage { used: 200, quota: 250, evicted: 0, faults: 0 });
    }

    #[test]
    fn the_right_one_leaves_for_a_newcomer() {
        for (policy, left) in
            [(Standard::Lru, 1), (Standard::Fifo, 0), (Standard::Lifo, 2), (Standard::Lfu, 1)]
        {
            let copies = filled(policy);
            for block in [1, 0, 0, 2, 2, 0] {
                assert!(copies.get(block).is_some());
            }
            assert_eq!(copies.room(3, 100), Room::ByLeaving);
            assert!(matches!(Arc::clone(&copies).claim(3, 100, false), Claim::Full));
            assert_eq!(put(&copies, 3, 3), Some(Admission::Kept));
            let there: Vec<u64> = (0..4).filter(|block| copies.has(*block)).collect();
            let stayed: Vec<u64> = (0..4).filter(|block| *block != left).collect();
            assert_eq!(there, stayed, "{policy:?}");
        }
    }
}
