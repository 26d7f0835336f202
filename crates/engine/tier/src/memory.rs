//! A tier in memory.
//!
//! | file | idea |
//! |---|---|
//! | `pages`, `large_pages` | the memory of the tier |

pub(crate) mod large_pages;
pub(crate) mod pages;

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Instant,
};

use bytes::Bytes;
use forebay_process::Grant;
use forebay_source::SourceId;

use crate::{
    block::SourceKey,
    memory::pages::{Pages, StoredBlock},
    policy::{BlockFacts, EvictionQueue, Ranking, Score, UseClock},
    sync::{AtomicU64, Mutex, Relaxed, RwLock, lock},
    tier::{Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, Tier, Usage, WholeCopy},
};

/// A tier in the memory of this process.
#[derive(Debug)]
pub struct MemoryTier {
    shared: Arc<MemoryShared>,
}

/// What all sources of the tier share: quota, pages, ranking.
#[derive(Debug)]
struct MemoryShared {
    quota: u64,
    pages: Arc<Pages>,
    /// Held as long as the tier is there.
    _grant: Option<Grant>,
    used: AtomicU64,
    ranking: Ranking,
    ticks: UseClock,
    sources: Mutex<HashMap<SourceKey, Arc<MemoryCopies>>>,
    queue: Mutex<EvictionQueue<(SourceKey, u64)>>,
    evicted: AtomicU64,
    is_closed: AtomicBool,
}

/// The blocks of one source, in shards of a lock each.
#[derive(Debug)]
struct MemoryCopies {
    id: SourceId,
    key: SourceKey,
    shards: [RwLock<HashMap<u64, CachedBlock>>; SHARDS],
    shared: Weak<MemoryShared>,
}

/// Shards per source: threads that read different blocks rarely meet on one lock.
const SHARDS: usize = 8;

#[derive(Debug)]
struct CachedBlock {
    stored: StoredBlock,
    placed: u64,
    used: AtomicU64,
    uses: AtomicU64,
}

impl MemoryTier {
    /// A tier of at most `quota` bytes; `ranking` says which block is evicted.
    pub fn new(quota: u64, ranking: Ranking) -> Self {
        Self::of(quota, ranking, None)
    }

    /// A tier of the memory that was granted.
    pub fn within(grant: Grant, ranking: Ranking) -> Self {
        Self::of(grant.bytes(), ranking, Some(grant))
    }

    fn of(quota: u64, ranking: Ranking, grant: Option<Grant>) -> Self {
        let shared = MemoryShared {
            quota,
            pages: Arc::new(Pages::new(quota)),
            _grant: grant,
            used: AtomicU64::new(0),
            ranking,
            ticks: UseClock::default(),
            sources: Mutex::default(),
            queue: Mutex::default(),
            evicted: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Tier for MemoryTier {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>> {
        let key = SourceKey::of(source);
        let mut sources = lock(&self.shared.sources);
        // Sources that are out of use and hold nothing are swept out whenever the number has doubled.
        if sources.len().is_power_of_two() {
            sources.retain(|_, held| Arc::strong_count(held) > 1 || held.holds_any());
        }
        let held = sources.entry(key).or_insert_with(|| {
            let shards = std::array::from_fn(|_| RwLock::default());
            Arc::new(MemoryCopies { id: source.clone(), key, shards, shared: Arc::downgrade(&self.shared) })
        });
        Some(Arc::clone(held) as Arc<dyn Copies>)
    }

    fn usage(&self) -> Usage {
        let MemoryShared { quota, used, evicted, .. } = &*self.shared;
        Usage { used: used.load(Relaxed), quota: *quota, evicted: evicted.load(Relaxed), faults: 0 }
    }

    fn left_out(&self) -> Option<&str> {
        None
    }

    fn wait(&self, _: Instant) -> bool {
        true
    }

    fn close(&self, _: Instant) {
        self.shared.is_closed.store(true, SeqCst);
        let sources: Vec<_> = lock(&self.shared.sources).drain().map(|(_, held)| held).collect();
        for shard in sources.iter().flat_map(|held| &held.shards) {
            let blocks = std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            let len = blocks.values().map(|copy| copy.stored.len()).sum();
            self.shared.used.fetch_sub(len, Relaxed);
        }
        self.shared.pages.close();
    }
}

impl MemoryShared {
    /// Takes `len` bytes of the quota, if they are free.
    fn reserve(&self, len: u64) -> bool {
        let more = |used: u64| used.checked_add(len).filter(|used| *used <= self.quota);
        self.used.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Takes `len` bytes of the quota for a block with the score `newcomer`, and gives the blocks that were evicted for it;
    /// nothing where there is no room, and then all stay.
    fn reserve_for(&self, len: u64, newcomer: Score) -> Option<Vec<EvictedBlock>> {
        if self.reserve(len) {
            return Some(Vec::new());
        }
        if len > self.quota || self.ranking.never_evicts() {
            return None;
        }
        let newcomer = self.ranking.policy.newcomers_compete().then_some(newcomer);
        let mut queue = lock(&self.queue);
        let mut left: Vec<(Arc<MemoryCopies>, u64, CachedBlock)> = Vec::new();
        while !self.reserve(len) {
            let victim = queue.next(newcomer, || self.ranked(), |(key, block)| self.score(*key, *block));
            let Some((key, block)) = victim else {
                left.into_iter().for_each(|(held, block, copy)| self.put_back(&held, block, copy));
                return None;
            };
            left.extend(self.remove(key, block));
        }
        self.evicted.fetch_add(left.len() as u64, Relaxed);
        let evicted = |(held, block, copy): (Arc<MemoryCopies>, u64, CachedBlock)| EvictedBlock {
            source: held.id.clone(),
            block,
            stored: copy.stored,
        };
        Some(left.into_iter().map(evicted).collect())
    }

    fn ranked(&self) -> Vec<(Score, (SourceKey, u64))> {
        let held: Vec<_> = lock(&self.sources).values().cloned().collect();
        held.iter().flat_map(|held| held.ranked(&self.ranking)).collect()
    }

    fn score(&self, key: SourceKey, block: u64) -> Option<Score> {
        let held = lock(&self.sources).get(&key).cloned()?;
        let shard = held.shard(block).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&block).map(|copy| self.ranking.score(key, held.facts(block, copy)))
    }

    fn remove(&self, key: SourceKey, block: u64) -> Option<(Arc<MemoryCopies>, u64, CachedBlock)> {
        let held = lock(&self.sources).get(&key).cloned()?;
        let copy = held.shard(block).write().unwrap_or_else(PoisonError::into_inner).remove(&block)?;
        self.used.fetch_sub(copy.stored.len(), Relaxed);
        Some((held, block, copy))
    }

    /// Keeps a block that was removed, if its room is still free and no thread was faster.
    fn put_back(&self, held: &MemoryCopies, block: u64, copy: CachedBlock) {
        let len = copy.stored.len();
        let mut shard = held.shard(block).write().unwrap_or_else(PoisonError::into_inner);
        if !shard.contains_key(&block) && self.reserve(len) {
            shard.insert(block, copy);
        }
    }
}

impl MemoryCopies {
    fn shard(&self, block: u64) -> &RwLock<HashMap<u64, CachedBlock>> {
        &self.shards[usize::try_from(block % SHARDS as u64).unwrap_or(0)]
    }

    fn holds_any(&self) -> bool {
        self.shards.iter().any(|shard| !shard.read().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    fn facts<'a>(&'a self, block: u64, copy: &CachedBlock) -> BlockFacts<'a> {
        BlockFacts {
            source: Some(&self.id),
            block: Some(block),
            len: copy.stored.len(),
            placed: copy.placed,
            used: copy.used.load(Relaxed),
            uses: copy.uses.load(Relaxed),
            next_use: None,
        }
    }

    fn ranked(&self, ranking: &Ranking) -> Vec<(Score, (SourceKey, u64))> {
        let of_shard = |shard: &RwLock<HashMap<u64, CachedBlock>>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            let score = |block: u64, copy: &CachedBlock| ranking.score(self.key, self.facts(block, copy));
            shard.iter().map(|(block, copy)| (score(*block, copy), (self.key, *block))).collect::<Vec<_>>()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// What the copy `block`, which is there, gives to `read`.
    fn with<T>(&self, block: u64, read: impl FnOnce(&StoredBlock) -> T) -> Option<T> {
        let shard = self.shard(block).read().unwrap_or_else(PoisonError::into_inner);
        let copy = shard.get(&block)?;
        if let Some(shared) = self.shared.upgrade() {
            copy.used.store(shared.ticks.next(), Relaxed);
            copy.uses.fetch_add(1, Relaxed);
        }
        Some(read(&copy.stored))
    }

    /// The score of a block that is not here yet.
    fn newcomer(&self, shared: &MemoryShared, block: u64, len: u64) -> Score {
        let now = shared.ticks.next();
        let facts = BlockFacts {
            source: Some(&self.id),
            block: Some(block),
            len,
            placed: now,
            used: now,
            uses: 1,
            next_use: None,
        };
        shared.ranking.score(self.key, facts)
    }
}

impl Copies for MemoryCopies {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], _: Option<Instant>) {
        // A copy within memory waits for nothing: the deadline needs no look at the clock.
        for piece in pieces.iter_mut().filter(|piece| !piece.is_filled) {
            let read = |stored: &StoredBlock| stored.read(piece.from, piece.into);
            piece.is_filled = self.with(piece.block, read).unwrap_or(false);
        }
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        self.with(block, StoredBlock::bytes)
    }

    fn has(&self, block: u64) -> bool {
        self.shard(block).read().unwrap_or_else(PoisonError::into_inner).contains_key(&block)
    }

    fn held(&self) -> u64 {
        let of_shard = |shard: &RwLock<HashMap<u64, CachedBlock>>| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.values().map(|copy| copy.stored.len()).sum::<u64>()
        };
        self.shards.iter().map(of_shard).sum()
    }

    fn room(&self, block: u64, len: u64) -> Room {
        let Some(shared) = self.shared.upgrade() else { return Room::Full };
        if shared.used.load(Relaxed).saturating_add(len) <= shared.quota {
            return Room::Free;
        }
        let policy = &shared.ranking.policy;
        if len > shared.quota || shared.ranking.never_evicts() {
            return Room::Full;
        }
        if !policy.newcomers_compete() {
            return Room::ByEvicting;
        }
        let newcomer = self.newcomer(&shared, block, len);
        let mut queue = lock(&shared.queue);
        let victim =
            queue.next(Some(newcomer), || shared.ranked(), |(key, block)| shared.score(*key, *block));
        // Only asked: it stays in the queue.
        let found = victim.and_then(|(key, block)| Some((shared.score(key, block)?, (key, block))));
        let Some((score, victim)) = found else { return Room::Full };
        queue.put_back(score, victim);
        Room::ByEvicting
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, may_replace: bool) -> Claim {
        if self.has(block) {
            return Claim::Here;
        }
        let Some(shared) = self.shared.upgrade().filter(|shared| !shared.is_closed.load(SeqCst)) else {
            return Claim::Full;
        };
        let reserved = if may_replace {
            shared.reserve_for(len, self.newcomer(&shared, block, len))
        } else {
            shared.reserve(len).then(Vec::new)
        };
        let Some(evicted) = reserved else { return Claim::Full };
        // No other process sees this memory: no lock is needed.
        Claim::Held(Box::new(MemoryClaim { copies: self, shared, block, len, evicted }))
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        None
    }

    fn is_elsewhere(&self, _: u64) -> bool {
        false
    }

    fn serves_others(&self) -> bool {
        false
    }

    fn settle(&self) {}
}

/// Room for one block.
#[derive(Debug)]
struct MemoryClaim {
    copies: Arc<MemoryCopies>,
    shared: Arc<MemoryShared>,
    block: u64,
    /// What is given back: nothing once the block is there.
    len: u64,
    /// The blocks that were evicted for it.
    evicted: Vec<EvictedBlock>,
}

impl Claimed for MemoryClaim {
    fn put(mut self: Box<Self>, bytes: &[u8]) -> Admission {
        if bytes.len() as u64 != self.len {
            return Admission::Refused;
        }
        let Some(stored) = self.shared.pages.store(bytes) else { return Admission::Refused };
        let now = self.shared.ticks.next();
        let copy = CachedBlock { stored, placed: now, used: AtomicU64::new(now), uses: AtomicU64::new(1) };
        let mut shard = self.copies.shard(self.block).write().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a tier that is closed from now on removes what is here.
        if self.shared.is_closed.load(SeqCst) {
            return Admission::Refused;
        }
        // Another thread may have been as fast: then its room is given back.
        self.len = shard.insert(self.block, copy).map_or(0, |before| before.stored.len());
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<EvictedBlock> {
        std::mem::take(&mut self.evicted)
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.shared.used.fetch_sub(self.len, Relaxed);
    }
}

#[cfg(test)]
mod tests;
