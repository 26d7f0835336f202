//! What a process knows of one source: its copies on each tier, its whole copy, and when it was last checked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use forebay_process::Result;
use forebay_source::{ByteRange, Source, SourceExt, SourceId};

use crate::{
    block::{SourceBlocks, SourceKey},
    stats::{TierCounters, nanos},
    tier::{BlockPiece, Copies, Room, WholeCopy},
};

/// What a process knows of one source.
#[derive(Debug)]
pub(crate) struct SourceState {
    pub(crate) inner: Arc<dyn Source>,
    pub(crate) key: SourceKey,
    pub(crate) blocks: SourceBlocks,
    /// The copies of each tier that keeps any, from the top, with the tier's number.
    pub(crate) copies: Vec<(usize, Arc<dyn Copies>)>,
    /// Whether all of it will be near for good.
    pub(crate) is_near: bool,
    pub(crate) whole: ArcSwapOption<WholeOnTier>,
    /// The next block that is placed in the background.
    pub(crate) follow_next: AtomicU64,
    /// The rest of the source is being placed in the background.
    pub(crate) is_followed: AtomicBool,
    pub(crate) changed: AtomicBool,
    /// A task that asks the origin whether it has changed is queued.
    pub(crate) is_asking: AtomicBool,
    /// When the origin was last asked whether it has changed, by the coarse clock.
    pub(crate) asked_ms: AtomicU64,
    reads: AtomicU64,
}

/// All of a source, and the tier that has it.
#[derive(Debug)]
pub(crate) struct WholeOnTier {
    pub(crate) tier: usize,
    pub(crate) copy: Arc<dyn WholeCopy>,
    /// What the copy is read by.
    source: Arc<dyn Source>,
}

/// No origin takes so long without an error of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// One read of a whole copy in this many is reported to its tier, which does not see them.
const READS_PER_TOUCH: u64 = 256;
const READS_PER_TIMING: u64 = 16;

impl SourceState {
    pub(crate) fn new(
        inner: Arc<dyn Source>,
        copies: Vec<(usize, Arc<dyn Copies>)>,
        block_len: u64,
        is_near: bool,
    ) -> Self {
        let (key, blocks) = (SourceKey::of(inner.id()), SourceBlocks::new(inner.id().len, block_len));
        let state = Self {
            inner,
            key,
            blocks,
            copies,
            is_near,
            whole: ArcSwapOption::empty(),
            follow_next: AtomicU64::new(0),
            is_followed: AtomicBool::new(false),
            changed: AtomicBool::new(false),
            is_asking: AtomicBool::new(false),
            asked_ms: AtomicU64::new(coarse_ms()),
            reads: AtomicU64::new(0),
        };
        state.find_whole();
        state
    }

    pub(crate) fn id(&self) -> &SourceId {
        self.inner.id()
    }

    /// Looks whether a tier has all of it by now.
    pub(crate) fn find_whole(&self) {
        if self.whole.load().is_some() {
            return;
        }
        let found = self.copies.iter().find_map(|(tier, copies)| {
            let copy = copies.whole()?;
            Some(WholeOnTier { tier: *tier, source: Arc::clone(copy.source()), copy })
        });
        if let Some(found) = found {
            self.whole.store(Some(Arc::new(found)));
        }
    }

    /// Seals what is complete, so that it can be read as one file.
    pub(crate) fn settle(&self) {
        for (_, copies) in &self.copies {
            copies.settle();
        }
        self.find_whole();
    }

    /// Asks for the first bytes of `range`, where all of it is on a tier.
    pub(crate) fn will_read(&self, range: ByteRange) {
        if let Some(whole) = &*self.whole.load() {
            whole.source.will_read(range);
        }
    }

    /// Reads `count` ranges of `len` bytes in all from the whole copy, if there is one and it can be read.
    pub(crate) fn read_whole<T>(
        &self,
        counters: &TierCounters,
        count: usize,
        len: u64,
        read: impl FnOnce(&dyn Source) -> Result<T>,
    ) -> Option<T> {
        let whole = self.whole.load();
        let whole = whole.as_ref()?;
        if whole.copy.is_gone() {
            // It was evicted: its space comes back when no process holds it open.
            self.whole.store(None);
            return None;
        }
        let number = self.reads.fetch_add(1, Relaxed);
        // The clock costs as much as a small copy: one read in [`READS_PER_TIMING`] is timed, for all of them.
        let began = number.is_multiple_of(READS_PER_TIMING).then(Instant::now);
        match read(&*whole.source) {
            Ok(found) => {
                let ns = began.map_or(0, nanos).saturating_mul(READS_PER_TIMING);
                counters.tiers[whole.tier].count(count as u64, len, ns);
                if number.is_multiple_of(READS_PER_TOUCH) {
                    whole.copy.touch();
                }
                Some(found)
            }
            Err(_) => {
                // Removed, cut, or its disk is gone: the origin still has it.
                whole.copy.distrust();
                self.whole.store(None);
                None
            }
        }
    }

    /// Fills those of `pieces` that tiers have, each from the highest that has it.
    pub(crate) fn read_tiers(&self, counters: &TierCounters, pieces: &mut [BlockPiece<'_>]) {
        let mut began = Instant::now();
        let deadline = began + PATIENCE;
        let mut missing = pieces.iter().filter(|piece| !piece.is_filled).count();
        for (tier, copies) in &self.copies {
            if missing == 0 {
                return;
            }
            let len_of = |pieces: &[BlockPiece<'_>]| -> (usize, u64) {
                let filled = pieces.iter().filter(|piece| piece.is_filled);
                filled.fold((0, 0), |(count, len), piece| (count + 1, len + piece.into.len() as u64))
            };
            let before = len_of(pieces);
            copies.read_many(pieces, Some(deadline));
            let after = len_of(pieces);
            let found = after.0 - before.0;
            if found > 0 {
                counters.tiers[*tier].add(found as u64, after.1 - before.1, began);
                missing -= found;
            }
            if missing > 0 {
                began = Instant::now();
            }
        }
    }

    /// Records what the origin answered: a source that has changed cannot be read from now on.
    pub(crate) fn asked(&self, has_changed: bool) {
        if has_changed {
            self.changed.store(true, Relaxed);
        }
        self.is_asking.store(false, Relaxed);
    }

    /// True when `asked` bytes are nearly all of `block`: where copies are meant to stay, nothing is evicted for bytes that
    /// nobody asked for. A small file is mostly its data, and its header comes along.
    pub(crate) fn is_most(&self, block: u64, asked: u64) -> bool {
        let len = self.blocks.range(block).len();
        len.saturating_sub(asked) <= len / 8
    }

    /// True when a tier would keep `block`; others are evicted for it only if `may_replace`.
    pub(crate) fn has_room(&self, block: u64, may_replace: bool) -> bool {
        self.rooms(block).any(|room| match room {
            Room::Free => true,
            Room::ByEvicting => may_replace,
            Room::NoSlot | Room::Full => false,
        })
    }

    /// True when a process elsewhere places `block`.
    pub(crate) fn is_elsewhere(&self, block: u64) -> bool {
        self.copies.iter().any(|(_, copies)| copies.is_elsewhere(block))
    }

    /// True when no tier has a slot for `block`, and one may have for other blocks.
    pub(crate) fn has_no_slot(&self, block: u64) -> bool {
        self.rooms(block).any(|room| room == Room::NoSlot)
    }

    fn rooms(&self, block: u64) -> impl Iterator<Item = Room> {
        let len = self.blocks.range(block).len();
        self.copies.iter().map(move |(_, copies)| copies.room(block, len))
    }

    /// Asks where the blocks of `range` are that processes elsewhere place: [`has`](Self::has) knows it afterwards.
    pub(crate) fn look_elsewhere(&self, range: ByteRange) {
        let wanted = |block: &u64| !self.has(*block) && self.is_elsewhere(*block);
        // Pieces of no bytes: to find a block is enough.
        let piece = |block| BlockPiece { block, ..BlockPiece::default() };
        let mut pieces: Vec<_> = self.blocks.covering(range).filter(wanted).map(piece).collect();
        if pieces.is_empty() {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        self.copies.iter().for_each(|(_, copies)| copies.read_many(&mut pieces, Some(deadline)));
    }

    /// True when other processes read what this one places.
    pub(crate) fn serves_others(&self) -> bool {
        self.copies.iter().any(|(_, copies)| copies.serves_others())
    }

    /// True when a tier has `block`.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.whole.load().is_some() || self.copies.iter().any(|(_, copies)| copies.has(block))
    }

    /// Fetches `range`, which no tier keeps.
    pub(crate) fn fetch_exact(&self, counters: &TierCounters, range: ByteRange) -> Result<Bytes> {
        let began = Instant::now();
        let bytes = self.inner.fetch_one(range)?;
        counters.origin.add(1, range.len(), began);
        Ok(bytes)
    }
}

/// Milliseconds of the coarse monotonic clock: a few of them late, and nearly free to read.
pub(crate) fn coarse_ms() -> u64 {
    #[cfg(target_os = "linux")]
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    #[cfg(not(target_os = "linux"))]
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}
