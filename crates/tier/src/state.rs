//! What a process knows of a source, and how it finds each byte of it.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use forebay_source::{ByteRange, Error, ErrorKind, Fill, Result, Source, SourceExt, SourceId};

use crate::{
    Blocks, Copies, Landed, Room, SourceKey,
    ahead::Taken,
    aside::{Follow, Recheck},
    missing::Piece,
    stats::nanos,
    tiered::Running,
};

/// What a process knows of a source.
#[derive(Debug)]
pub(crate) struct State {
    running: Weak<Running>,
    pub(crate) inner: Arc<dyn Source>,
    pub(crate) key: SourceKey,
    pub(crate) blocks: Blocks,
    /// The copies of each tier that keeps any, from the top, with the tier's number.
    pub(crate) copies: Vec<(usize, Arc<dyn Copies>)>,
    /// Whether all of it will be near for good.
    pub(crate) is_near: bool,
    pub(crate) whole: ArcSwapOption<WholeCopy>,
    pub(crate) follow_next: AtomicU64,
    is_followed: AtomicBool,
    changed: AtomicBool,
    /// The origin is about to be asked whether it has changed.
    is_asking: AtomicBool,
    /// When the origin was last asked whether it has changed, by the coarse clock.
    asked_ms: AtomicU64,
    reads: AtomicU64,
}

/// All of a source, on one tier.
#[derive(Debug)]
pub(crate) struct WholeCopy {
    pub(crate) tier: usize,
    pub(crate) source: Arc<dyn Source>,
    copies: Arc<dyn Copies>,
}

/// No origin takes so long without an error of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A tier that ranks by use is told of one use in so many that it does not see.
const READS_PER_TOUCH: u64 = 256;
const READS_PER_TIMING: u64 = 16;

impl State {
    pub(crate) fn new(
        running: Weak<Running>,
        inner: Arc<dyn Source>,
        copies: Vec<(usize, Arc<dyn Copies>)>,
        block_len: u64,
        is_near: bool,
    ) -> Self {
        let (key, blocks) = (SourceKey::of(inner.id()), Blocks::new(inner.id().len, block_len));
        let state = Self {
            running,
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
            let source = copies.whole()?;
            Some(WholeCopy { tier: *tier, source, copies: Arc::clone(copies) })
        });
        if let Some(found) = found {
            self.whole.store(Some(Arc::new(found)));
        }
    }

    /// Asks for the first bytes of `range`, where all of it is on a tier.
    pub(crate) fn will_read(&self, range: ByteRange) {
        if let Some(whole) = &*self.whole.load() {
            whole.source.will_read(range);
        }
    }

    pub(crate) fn fetch(
        self: &Arc<Self>,
        running: &Arc<Running>,
        ranges: &[ByteRange],
    ) -> Result<Vec<Bytes>> {
        self.recheck(running)?;
        let len = ranges.iter().map(|range| range.len()).sum();
        if let Some(found) = self.read_whole(running, ranges.len(), len, |whole| whole.fetch(ranges)) {
            return Ok(found);
        }
        let mut memory = ranges
            .iter()
            .map(|range| {
                let full = || Error::new(ErrorKind::Full, format!("no memory for {} bytes", range.len()));
                let len = usize::try_from(range.len()).map_err(|_| full())?;
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(len).map_err(|error| full().because(error).at(&self.id().locator))?;
                bytes.resize(len, 0);
                Ok(bytes)
            })
            .collect::<Result<Vec<Vec<u8>>>>()?;
        let mut fills: Vec<_> =
            memory.iter_mut().zip(ranges).map(|(into, range)| Fill { range: *range, into }).collect();
        self.fill(running, &mut fills)?;
        Ok(memory.into_iter().map(Bytes::from).collect())
    }

    pub(crate) fn fetch_into(self: &Arc<Self>, running: &Arc<Running>, fills: &mut [Fill<'_>]) -> Result<()> {
        self.recheck(running)?;
        let (count, len) = (fills.len(), fills.iter().map(|fill| fill.range.len()).sum());
        if self.read_whole(running, count, len, |whole| whole.fetch_into(fills)).is_some() {
            return Ok(());
        }
        self.fill(running, fills)
    }

    /// Reads `count` ranges of `len` bytes in all from the copy of all of it, if there is one and it can be read.
    fn read_whole<T>(
        &self,
        running: &Running,
        count: usize,
        len: u64,
        read: impl FnOnce(&dyn Source) -> Result<T>,
    ) -> Option<T> {
        let whole = self.whole.load();
        let whole = whole.as_ref()?;
        if whole.copies.has_left() {
            // It made room for others: its space comes back when nobody holds it open.
            self.whole.store(None);
            return None;
        }
        let number = self.reads.fetch_add(1, Relaxed);
        // The clock is as dear as a small copy: it times one read in so many, for all of them.
        let began = number.is_multiple_of(READS_PER_TIMING).then(Instant::now);
        match read(&*whole.source) {
            Ok(found) => {
                let ns = began.map_or(0, nanos).saturating_mul(READS_PER_TIMING);
                running.counters.tiers[whole.tier].count(count as u64, len, ns);
                if number.is_multiple_of(READS_PER_TOUCH) {
                    whole.copies.touch();
                }
                Some(found)
            }
            Err(_) => {
                // Removed, cut, or its disk is gone: the origin still has it.
                whole.copies.distrust();
                self.whole.store(None);
                None
            }
        }
    }

    /// Refuses to go on when the origin's bytes are no longer those of the copies; asks now and then.
    fn recheck(self: &Arc<Self>, running: &Arc<Running>) -> Result<()> {
        if self.changed.load(Relaxed) {
            let error = Error::new(ErrorKind::Unavailable, "changed while it was read");
            return Err(error.hint("open it again once nobody writes to it").at(&self.id().locator));
        }
        let (now_ms, asked_ms) = (coarse_ms(), self.asked_ms.load(Relaxed));
        if Duration::from_millis(now_ms.saturating_sub(asked_ms)) < running.placement.recheck {
            return Ok(());
        }
        let is_ours = self.asked_ms.compare_exchange(asked_ms, now_ms, Relaxed, Relaxed).is_ok();
        if is_ours && !self.is_asking.swap(true, Relaxed) {
            running.pool.soon(Arc::new(Recheck(Arc::clone(self))));
        }
        Ok(())
    }

    /// Fills `fills` from what was fetched ahead, from tiers, and last from the origin.
    fn fill(self: &Arc<Self>, running: &Arc<Running>, fills: &mut [Fill<'_>]) -> Result<()> {
        // Whoever placed the last block made it whole meanwhile, be it another process.
        self.find_whole();
        let mut missing = Vec::new();
        for fill in fills {
            let (start, end) = (fill.range.start, fill.range.end);
            if running.ahead.is_looking() {
                if self.blocks.covering(fill.range).all(|block| self.has(block)) {
                    running.ahead.discard(self.key, fill.range);
                } else if self.read_ahead(running, fill) {
                    continue;
                }
            }
            let mut rest = &mut *fill.into;
            for block in self.blocks.covering(fill.range) {
                let of_block = self.blocks.range(block);
                let (from, to) = (start.max(of_block.start), end.min(of_block.end));
                let (into, after) = rest.split_at_mut(usize::try_from(to - from).unwrap_or(0));
                rest = after;
                let mut piece = Piece { block, from: from - of_block.start, into };
                if !self.read_tiers(running, &mut piece) {
                    missing.push(piece);
                }
            }
        }
        if running.placement.whole_file
            && !running.ahead.is_looking()
            && !self.is_followed.swap(true, Relaxed)
        {
            running.pool.background(Arc::new(Follow(Arc::clone(self))));
        }
        if missing.is_empty() { Ok(()) } else { self.read_origin(running, missing) }
    }

    /// Fills from what was fetched ahead, or is just being.
    fn read_ahead(&self, running: &Running, fill: &mut Fill<'_>) -> bool {
        let began = Instant::now();
        loop {
            match running.ahead.take(&running.flights, self.key, fill.range) {
                Taken::Bytes(bytes) => {
                    fill.into.copy_from_slice(&bytes);
                    running.counters.ahead.fetch_add(1, Relaxed);
                    return true;
                }
                // Whether it came or not, it is looked for again; once it has a place in a tier, that is where it is.
                Taken::InFlight(flight) if began.elapsed() < PATIENCE => {
                    let landed = flight.wait(PATIENCE);
                    running.counters.wait_ns.fetch_add(nanos(began), Relaxed);
                    if !matches!(landed, Some(Landed::Bytes(_))) {
                        running.ahead.overtake(self.key, fill.range);
                        return false;
                    }
                }
                Taken::InFlight(_) | Taken::Not => return false,
            }
        }
    }

    pub(crate) fn read_tiers(&self, running: &Running, piece: &mut Piece<'_>) -> bool {
        let began = Instant::now();
        let found = self.copies.iter().find(|(_, copies)| copies.read(piece.block, piece.from, piece.into));
        if let Some((tier, copies)) = found {
            running.counters.tiers[*tier].add(1, piece.into.len() as u64, began);
            if self.reads.fetch_add(1, Relaxed).is_multiple_of(READS_PER_TOUCH) {
                copies.touch();
            }
        }
        found.is_some()
    }

    /// What works for this process, while it does.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        self.running.upgrade()
    }

    /// The origin was asked: if it has changed, it cannot be read from now on.
    pub(crate) fn asked(&self, has_changed: bool) {
        if has_changed {
            self.changed.store(true, Relaxed);
        }
        self.is_asking.store(false, Relaxed);
    }

    /// True when `asked` bytes are nearly all of `block`: where what is kept is to last, nothing leaves for bytes that
    /// nobody asked for. A small file is mostly its data, and its header comes along.
    pub(crate) fn is_most(&self, block: u64, asked: u64) -> bool {
        let len = self.blocks.range(block).len();
        len.saturating_sub(asked) <= len / 8
    }

    /// True when a tier would keep `block`; others leave for it only if they may be replaced.
    pub(crate) fn has_room(&self, block: u64, may_replace: bool) -> bool {
        let len = self.blocks.range(block).len();
        self.copies.iter().any(|(_, copies)| match copies.room(block, len) {
            Room::Free => true,
            Room::ByLeaving => may_replace,
            Room::Full => false,
        })
    }

    /// True when a tier has `block`.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.whole.load().is_some() || self.copies.iter().any(|(_, copies)| copies.has(block))
    }

    /// Fetches `range`, which no tier keeps.
    pub(crate) fn fetch_exact(&self, running: &Running, range: ByteRange) -> Result<Bytes> {
        let began = Instant::now();
        let bytes = self.inner.fetch_one(range)?;
        running.counters.origin.add(1, range.len(), began);
        Ok(bytes)
    }
}

/// Milliseconds of a clock that is a few of them late and costs next to nothing.
fn coarse_ms() -> u64 {
    #[cfg(target_os = "linux")]
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    #[cfg(not(target_os = "linux"))]
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}
