//! An origin over an origin: the same bytes, from nearer places where they are.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use forebay_source::{Locator, Origin, PerProcess, Result, Source, SourceId, ledger};

use crate::{
    Flights, Outlook, SourceKey, Stats, Tier, TierStats,
    ahead::{Ahead, Upcoming},
    copied::Copied,
    pool::Pool,
    promise::Promises,
    state::State,
    stats::{Counters, Reads},
};

/// How copies are placed.
#[derive(Clone, Debug)]
pub struct Placement {
    /// Bytes of a block.
    pub block_len: u64,
    /// Threads that fetch and place.
    pub threads: usize,
    /// Whether the whole of a source follows when a part of it was read.
    pub whole_file: bool,
    /// The most bytes that are fetched ahead of their use and that no tier keeps.
    pub ahead: u64,
    /// How long a source may be read from copies before the origin is asked whether it has changed.
    pub recheck: Duration,
    /// Whether what is kept is meant to stay: then nothing leaves for bytes that nobody asked for, and a source that fits
    /// counts as near from the start.
    pub is_lasting: bool,
    /// Whether what will be read is fetched before it is asked for, where it is known; the rest of a file then does not
    /// follow a part of it.
    pub looks_ahead: bool,
    /// What is known of the future, shared with the tiers.
    pub outlook: Outlook,
}

/// Requests of 1 MiB take 5 ms of a file system's 200 MiB/s and 2 ms of latency: larger ones gain less than a third,
/// and small reads then wait longer for them.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// Six requests at a time fill a file system of 200 MiB/s at 2 ms each three times over.
pub const THREADS: usize = 6;

/// A user who overwrites a set during a run is told within seconds, at one question per file that is in use and time.
pub const RECHECK: Duration = Duration::from_secs(10);

/// A second of 200 MiB/s, and some: what a pause of the origin may take without anybody waiting.
pub const AHEAD_BYTES: u64 = 256 << 20;

/// Part of a process's share that is fetched ahead at most, unless the user sets another amount.
const AHEAD_PART: u64 = 8;

/// Bytes that a process whose share is `share` fetches ahead; none where nothing is looked at ahead.
fn ahead_within(placement: &Placement, share: u64) -> u64 {
    match placement {
        Placement { looks_ahead: false, .. } => 0,
        Placement { ahead: AHEAD_BYTES, .. } => AHEAD_BYTES.min(share / AHEAD_PART),
        Placement { ahead, .. } => *ahead,
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self {
            block_len: BLOCK_BYTES,
            threads: THREADS,
            whole_file: true,
            ahead: AHEAD_BYTES,
            recheck: RECHECK,
            is_lasting: true,
            looks_ahead: true,
            outlook: Outlook::default(),
        }
    }
}

/// An origin whose bytes are copied to tiers as they are read.
///
/// What is too young to be told from a later change, and what lies on the device of every tier, is handed through.
#[derive(Debug)]
pub struct Tiered {
    core: Arc<Core>,
}

/// All that the sources of an origin over an origin share.
pub(crate) struct Core {
    origin: Arc<dyn Origin>,
    make: Box<MakeTiers>,
    placement: Placement,
    running: PerProcess<Arc<Running>>,
}

/// Makes the tiers of a process: a forked child needs its own.
type MakeTiers = dyn Fn() -> Result<Vec<Arc<dyn Tier>>> + Send + Sync;

/// What works for the sources of one process.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) tiers: Vec<Arc<dyn Tier>>,
    pub(crate) placement: Placement,
    pub(crate) flights: Arc<Flights>,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
    pub(crate) ahead: Arc<Ahead>,
    /// Sources that were opened; of them those too young to be copied, and those that each tier copies.
    opened: AtomicU64,
    young: AtomicU64,
    taken: Vec<AtomicU64>,
    states: Mutex<HashMap<SourceKey, Weak<State>>>,
    promises: Promises,
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Core");
        shown.field("origin", &self.origin).field("placement", &self.placement).finish_non_exhaustive()
    }
}

impl Core {
    /// What works for this process.
    pub(crate) fn running(&self) -> Arc<Running> {
        let made = self.running.get(|| {
            // A child that cannot have tiers reads the origin.
            let tiers = (self.make)().unwrap_or_default();
            Arc::new(Running::new(&self.origin, tiers, &self.placement))
        });
        Arc::clone(&made)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Its threads end first, so that what they use ends here and not some time later.
        if let Some(running) = self.running.peek() {
            running.pool.close();
        }
    }
}

impl Tiered {
    /// `origin`, copied to the tiers that `make` makes, the fastest first.
    pub fn new(
        origin: Arc<dyn Origin>,
        make: impl Fn() -> Result<Vec<Arc<dyn Tier>>> + Send + Sync + 'static,
        placement: Placement,
    ) -> Result<Self> {
        let running = PerProcess::new(Arc::new(Running::new(&origin, make()?, &placement)));
        Ok(Self { core: Arc::new(Core { origin, make: Box::new(make), placement, running }) })
    }

    /// What was read from where, by this process.
    pub fn stats(&self) -> Stats {
        self.core.running().stats()
    }

    /// What the user should know of tiers that were left out, have no room, or copy none of what was opened so far; a
    /// sentence each, without its full stop.
    pub fn warnings(&self) -> Vec<String> {
        self.core.running().warnings()
    }

    /// Fetches what `upcoming` names before it is asked for, from now on; nothing any more without it.
    pub fn look_ahead(&self, upcoming: Option<Box<dyn Upcoming>>) {
        let running = self.core.running();
        let has_some = upcoming.is_some();
        let looking = running.ahead.set(&running, upcoming);
        if has_some {
            running.pool.background(Arc::new(looking));
        }
    }

    /// Waits until nobody is asking what comes next: whoever answers can be dropped then, by the caller and nobody else.
    pub fn finish_looking(&self) {
        self.core.running().ahead.finish_looking();
    }

    /// Whether what is known of the future is fetched before it is asked for.
    pub fn looks_ahead(&self) -> bool {
        self.core.placement.looks_ahead
    }

    /// What is known of the future, by the policies of its tiers.
    pub fn outlook(&self) -> &Outlook {
        &self.core.placement.outlook
    }

    /// Bytes of a block.
    pub fn block_len(&self) -> u64 {
        self.core.placement.block_len
    }

    /// The tiers of this process, from the top.
    pub fn tiers(&self) -> Vec<Arc<dyn Tier>> {
        self.core.running().tiers.clone()
    }

    /// What this process knows of the source at `at`; nothing where no tier keeps any of it.
    pub(crate) fn state(&self, at: &Locator) -> Result<(Arc<Running>, Option<Arc<State>>)> {
        let (inner, running) = (self.core.origin.open(at)?, self.core.running());
        let state = running.settled_state(&inner);
        Ok((running, state))
    }

    /// True when a tier of this process has all of the source called `key`, which is open.
    pub fn has_whole(&self, key: SourceKey) -> bool {
        self.core.running().known(key).is_some_and(|state| state.whole.load().is_some())
    }

    /// Waits until all that is to be placed is, at most `patience`; false when that was not enough.
    pub fn wait(&self, patience: Duration) -> bool {
        let (running, until) = (self.core.running(), Instant::now() + patience);
        running.pool.wait(patience) && running.tiers.iter().all(|tier| tier.wait(until))
    }
}

impl Origin for Tiered {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let inner = self.core.origin.open(at)?;
        let running = self.core.running();
        let Some(state) = running.settled_state(&inner) else { return Ok(inner) };
        Ok(Arc::new(Copied::new(Arc::clone(&self.core), inner, running, state)))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.core.origin.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.core.origin.survey(under)
    }
}

impl Running {
    fn new(origin: &Arc<dyn Origin>, tiers: Vec<Arc<dyn Tier>>, placement: &Placement) -> Self {
        let counters =
            Counters { tiers: tiers.iter().map(|_| Reads::default()).collect(), ..Counters::default() };
        let flights = Arc::new(Flights::default());
        Self {
            origin: Arc::clone(origin),
            opened: AtomicU64::new(0),
            young: AtomicU64::new(0),
            taken: tiers.iter().map(|_| AtomicU64::new(0)).collect(),
            tiers,
            placement: placement.clone(),
            pool: Pool::new(placement.threads),
            counters,
            ahead: Arc::new(Ahead::new(
                ledger().take("look-ahead", ahead_within(placement, ledger().share())),
            )),
            flights,
            states: Mutex::default(),
            promises: Promises::default(),
        }
    }

    /// What is known of `source`, unless a later change could hide behind the same version.
    fn settled_state(self: &Arc<Self>, source: &Arc<dyn Source>) -> Option<Arc<State>> {
        self.opened.fetch_add(1, Relaxed);
        if !source.id().version.is_settled(SystemTime::now()) {
            self.young.fetch_add(1, Relaxed);
            return None;
        }
        let state = self.state(source)?;
        for (tier, _) in &state.copies {
            self.taken[*tier].fetch_add(1, Relaxed);
        }
        Some(state)
    }

    /// What the user should know of tiers that are of no use.
    fn warnings(&self) -> Vec<String> {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let (opened, young) = (load(&self.opened), load(&self.young));
        let mut warnings = Vec::new();
        for (tier, taken) in self.tiers.iter().zip(&self.taken) {
            let name = tier.name();
            if let Some(why) = tier.left_out() {
                warnings.push(format!("a tier is left out: {why}"));
            } else if tier.usage().quota == 0 {
                warnings.push(format!("the tier {name} has no room; `forebay doctor` says why"));
            } else if opened > young && load(taken) == 0 {
                warnings.push(format!("the tier {name} is of no use: the files lie on its own device"));
            }
        }
        if young > 0 && young == opened && !self.tiers.is_empty() {
            warnings.push(
                "nothing is copied to tiers: the files changed less than 2 s ago, or their times lie in the future"
                    .to_owned(),
            );
        }
        warnings
    }

    /// What is known of `source`; nothing where no tier keeps any of it.
    pub(crate) fn state(self: &Arc<Self>, source: &Arc<dyn Source>) -> Option<Arc<State>> {
        let key = SourceKey::of(source.id());
        if let Some(state) = self.known(key) {
            return Some(state);
        }
        let copies: Vec<_> = self
            .tiers
            .iter()
            .enumerate()
            .filter_map(|(index, tier)| Some((index, tier.copies(source.id())?)))
            .collect();
        if copies.is_empty() {
            return None;
        }
        let lasts = self.placement.is_lasting && self.placement.whole_file;
        let is_near = lasts && self.promises.promise(&self.tiers, &copies, source.id().len, key);
        let state = Arc::new(State::new(
            Arc::downgrade(self),
            Arc::clone(source),
            copies,
            self.placement.block_len,
            is_near,
        ));
        let mut states = self.lock_states();
        // Those that were closed are swept out now and then.
        if states.len().is_power_of_two() {
            states.retain(|_, state| state.strong_count() > 0);
        }
        states.insert(key, Arc::downgrade(&state));
        Some(state)
    }

    /// The source that is open under `key`.
    pub(crate) fn known(&self, key: SourceKey) -> Option<Arc<State>> {
        self.lock_states().get(&key).and_then(Weak::upgrade)
    }

    fn lock_states(&self) -> MutexGuard<'_, HashMap<SourceKey, Weak<State>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stats(&self) -> Stats {
        let tiers = self.tiers.iter().zip(&self.counters.tiers).map(|(tier, reads)| {
            let usage = tier.usage();
            TierStats {
                name: tier.name().to_owned(),
                reads: reads.sum(|shard| &shard.reads),
                bytes: reads.sum(|shard| &shard.bytes),
                ns: reads.sum(|shard| &shard.ns),
                used: usage.used,
                quota: usage.quota,
                evicted: usage.evicted,
                faults: usage.faults,
                left_out: tier.left_out().map(str::to_owned),
            }
        });
        let Counters { origin, placed, placed_bytes, refused, demoted, ahead, wait_ns, .. } = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let (waiting, backlog) = self.pool.backlog();
        Stats {
            tiers: tiers.collect(),
            origin: crate::OriginStats {
                reads: origin.sum(|shard| &shard.reads),
                bytes: origin.sum(|shard| &shard.bytes),
                ns: origin.sum(|shard| &shard.ns),
            },
            placed: load(placed),
            placed_bytes: load(placed_bytes),
            refused: load(refused),
            demoted: load(demoted),
            ahead: load(ahead),
            ahead_bytes: self.ahead.held_bytes(),
            wait_ns: load(wait_ns),
            waiting: waiting as u64,
            backlog: backlog as u64,
        }
    }
}
