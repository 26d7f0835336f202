//! What a process knows of a source, and how it finds each byte of it.

use std::{
    collections::HashSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use forebay_source::{ByteRange, Error, ErrorKind, Fill, Result, Source, SourceExt, SourceId};

use crate::{
    Blocks, Copies, Flight, Landed, Part, Room, SourceKey, Turn,
    ahead::Taken,
    fetch::{fetch_block, follow},
    pool::{Background, Step},
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

/// Part of a block that a reader wants.
#[derive(Debug)]
struct Piece<'a> {
    block: u64,
    from: u64,
    into: &'a mut [u8],
}

/// No origin takes so long without an error of its own.
const PATIENCE: Duration = Duration::from_secs(120);

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
            asked_ms: AtomicU64::new(coarse_ms()),
            reads: AtomicU64::new(0),
        };
        state.find_whole();
        state
    }

    fn id(&self) -> &SourceId {
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
    pub(crate) fn expect(&self, range: ByteRange) {
        if let Some(whole) = &*self.whole.load() {
            whole.source.expect(range);
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
        if self.asked_ms.compare_exchange(asked_ms, now_ms, Relaxed, Relaxed).is_ok() {
            running.pool.background(Arc::new(Recheck(Arc::clone(self))));
        }
        Ok(())
    }

    /// Fills `fills` from what was fetched ahead, from tiers, and last from the origin.
    fn fill(self: &Arc<Self>, running: &Arc<Running>, fills: &mut [Fill<'_>]) -> Result<()> {
        let mut missing = Vec::new();
        for fill in fills {
            let (start, end) = (fill.range.start, fill.range.end);
            let is_here = || self.blocks.covering(fill.range).all(|block| self.has(block));
            if running.ahead.is_looking() && !is_here() && self.read_ahead(running, fill) {
                continue;
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
                        return false;
                    }
                }
                Taken::InFlight(_) | Taken::Not => return false,
            }
        }
    }

    fn read_tiers(&self, running: &Running, piece: &mut Piece<'_>) -> bool {
        let began = Instant::now();
        let found = self.copies.iter().find(|(_, copies)| copies.read(piece.block, piece.from, piece.into));
        if let Some((tier, _)) = found {
            running.counters.tiers[*tier].add(1, piece.into.len() as u64, began);
        }
        found.is_some()
    }

    /// Fills `missing`: blocks that a tier will keep are fetched whole, once; of others just what is asked for.
    fn read_origin(self: &Arc<Self>, running: &Arc<Running>, mut missing: Vec<Piece<'_>>) -> Result<()> {
        let began = Instant::now();
        missing.sort_unstable_by_key(|piece| (piece.block, piece.from));
        let mut flights: Vec<(u64, Arc<Flight>)> = Vec::new();
        let mut exact = Vec::new();
        let mut rest = &mut missing[..];
        while let Some(first) = rest.first() {
            let block = first.block;
            let count = rest.iter().position(|piece| piece.block != block).unwrap_or(rest.len());
            let (own, after) = rest.split_at_mut(count);
            rest = after;
            let asked = own.iter().map(|piece| piece.into.len() as u64).sum();
            let may_replace = !running.placement.is_lasting || self.is_most(block, asked);
            if !self.has_room(block, may_replace)
                && running.flights.find(self.key, Part::Block(block)).is_none()
            {
                exact.extend(own.iter_mut());
                continue;
            }
            match running.flights.turn(self.key, Part::Block(block)) {
                Turn::Follow(flight) => flights.push((block, flight)),
                Turn::Lead(lead) => {
                    flights.push((block, lead.flight()));
                    let (state, running_then) = (Arc::clone(self), Arc::clone(running));
                    running.pool.urgent(Box::new(move || {
                        fetch_block(&running_then, &state, block, may_replace, lead);
                    }));
                }
            }
        }
        let mut exactly = if exact.is_empty() { Ok(()) } else { self.exactly(running, exact) };
        if exactly.is_ok() {
            exactly = self.land(&flights, &mut missing).and_then(|unplaced| {
                let left: Vec<_> =
                    missing.iter_mut().filter(|piece| unplaced.contains(&piece.block)).collect();
                if left.is_empty() { Ok(()) } else { self.exactly(running, left) }
            });
        }
        running.counters.wait_ns.fetch_add(nanos(began), Relaxed);
        exactly.map_err(|error| error.at(&self.id().locator))
    }

    /// Copies what `flights` bring; gives the blocks that they do not, for want of room or time.
    fn land(&self, flights: &[(u64, Arc<Flight>)], missing: &mut [Piece<'_>]) -> Result<HashSet<u64>> {
        let mut unplaced = HashSet::new();
        for (block, flight) in flights {
            // Who waits longer than anybody fetches reads for himself.
            let landed = flight.wait(PATIENCE).unwrap_or(Landed::NoRoom);
            let Some(bytes) = landed.into_result()? else {
                unplaced.insert(*block);
                continue;
            };
            let first = missing.partition_point(|piece| piece.block < *block);
            for piece in missing[first..].iter_mut().take_while(|piece| piece.block == *block) {
                let from = usize::try_from(piece.from).unwrap_or(usize::MAX);
                let part = bytes.get(from..from.saturating_add(piece.into.len()));
                let short = || Error::new(ErrorKind::Bug, "a block is shorter than its range");
                piece.into.copy_from_slice(part.ok_or_else(short)?);
            }
        }
        Ok(unplaced)
    }

    /// Fetches `pieces` and no byte more.
    fn exactly(self: &Arc<Self>, running: &Arc<Running>, pieces: Vec<&mut Piece<'_>>) -> Result<()> {
        let range_of = |piece: &Piece<'_>| {
            ByteRange::at(self.blocks.range(piece.block).start + piece.from, piece.into.len() as u64)
        };
        let ranges: Vec<_> = pieces.iter().map(|piece| range_of(piece)).collect();
        // Pieces of one read that a border of blocks cut apart are one request again.
        let runs = forebay_source::coalesce(&ranges, 0);
        let bytes = ranges.iter().map(|range| range.len()).sum();
        if self.inner.request_bytes() == 0 || runs.len() == 1 {
            let began = Instant::now();
            let mut fills: Vec<_> = pieces
                .into_iter()
                .zip(&ranges)
                .map(|(piece, range)| Fill { range: *range, into: piece.into })
                .collect();
            self.inner.fetch_into(&mut fills)?;
            running.counters.origin.add(runs.len() as u64, bytes, began);
            return Ok(());
        }
        // Behind a network requests wait side by side.
        let together = runs.len().div_ceil(running.pool.threads());
        let (tell, told) = mpsc::channel();
        for runs in runs.chunks(together) {
            let (state, running_then, runs, tell) =
                (Arc::clone(self), Arc::clone(running), runs.to_vec(), tell.clone());
            running.pool.urgent(Box::new(move || {
                let began = Instant::now();
                let fetched = state.inner.fetch(&runs);
                let bytes = runs.iter().map(|run| run.len()).sum();
                running_then.counters.origin.add(runs.len() as u64, bytes, began);
                // Who no longer listens has had an error.
                let _ = tell.send(fetched.map(|fetched| runs.into_iter().zip(fetched).collect::<Vec<_>>()));
            }));
        }
        drop(tell);
        let mut fetched = Vec::with_capacity(runs.len());
        for part in told {
            fetched.extend(part?);
        }
        fetched.sort_unstable_by_key(|(run, _)| run.start);
        let lost = || Error::new(ErrorKind::Unavailable, "a thread that read it was stopped");
        if fetched.len() != runs.len() {
            return Err(lost());
        }
        for (piece, range) in pieces.into_iter().zip(&ranges) {
            if range.is_empty() {
                continue;
            }
            let index = fetched.partition_point(|(run, _)| run.start <= range.start).checked_sub(1);
            let (run, bytes) = index.and_then(|index| fetched.get(index)).ok_or_else(lost)?;
            piece.into.copy_from_slice(&range.cut(bytes, run.start));
        }
        Ok(())
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

/// The rest of a source, after a part of it was read.
#[derive(Debug)]
struct Follow(Arc<State>);

impl Background for Follow {
    fn step(&self) -> Step {
        self.0.running.upgrade().map_or(Step::Over, |running| follow(&running, &self.0))
    }
}

/// Asks the origin whether a source is still what it was.
#[derive(Debug)]
struct Recheck(Arc<State>);

impl Background for Recheck {
    fn step(&self) -> Step {
        let Some(running) = self.0.running.upgrade() else { return Step::Over };
        let id = self.0.id();
        let has_changed = match running.origin.open(&id.locator) {
            Ok(source) => source.id() != id,
            // One that cannot be asked now may be as it was: whoever reads it from there will know.
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if has_changed {
            self.0.changed.store(true, Relaxed);
        }
        Step::Over
    }
}
