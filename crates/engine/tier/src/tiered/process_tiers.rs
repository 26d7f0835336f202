//! What the tiered sources of one process share: tiers, threads, flights, the read-ahead buffer, counters.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use forebay_process::ledger;
use forebay_source::{Origin, Source};

use crate::{
    block::SourceKey,
    flight::Flights,
    placement::Placement,
    stats::{OriginStats, ReadCounters, Stats, TierCounters, TierStats},
    tier::Tier,
    tiered::{
        placement_threads::PlacementThreads, promise::Promises, read_ahead::ReadAhead,
        source_state::SourceState,
    },
};

/// What the tiered sources of one process share.
#[derive(Debug)]
pub(crate) struct ProcessTiers {
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) tiers: Vec<Arc<dyn Tier>>,
    pub(crate) placement: Placement,
    pub(crate) flights: Arc<Flights>,
    pub(crate) threads: PlacementThreads,
    pub(crate) counters: TierCounters,
    pub(crate) read_ahead: ReadAhead,
    /// Sources that were opened; of them those too young to be copied, and those that each tier copies.
    opened: AtomicU64,
    young: AtomicU64,
    taken: Vec<AtomicU64>,
    states: Mutex<HashMap<SourceKey, Weak<SourceState>>>,
    promises: Promises,
}

/// How long a tier may take to end what it is at: a sync that takes longer ends after it.
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);

impl ProcessTiers {
    pub(crate) fn new(origin: &Arc<dyn Origin>, tiers: Vec<Arc<dyn Tier>>, placement: &Placement) -> Self {
        let counters = TierCounters {
            tiers: tiers.iter().map(|_| ReadCounters::default()).collect(),
            ..TierCounters::default()
        };
        let ahead = ledger().take("look-ahead", placement.ahead_within(ledger().share()));
        Self {
            origin: Arc::clone(origin),
            opened: AtomicU64::new(0),
            young: AtomicU64::new(0),
            taken: tiers.iter().map(|_| AtomicU64::new(0)).collect(),
            tiers,
            placement: placement.clone(),
            threads: PlacementThreads::new(placement.threads),
            counters,
            read_ahead: ReadAhead::new(ahead),
            flights: Arc::default(),
            states: Mutex::default(),
            promises: Promises::default(),
        }
    }

    /// Ends prefetch, threads and tiers, each after what it is at, in bounded time.
    pub(crate) fn close(&self) {
        self.read_ahead.close();
        self.threads.close();
        for tier in &self.tiers {
            tier.close(Instant::now() + CLOSE_PATIENCE);
        }
    }

    /// The state of `source`, unless a later change could hide behind the same version.
    pub(crate) fn settled_state(&self, source: &Arc<dyn Source>) -> Option<Arc<SourceState>> {
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

    /// The state of `source`; nothing where no tier keeps any of it.
    pub(crate) fn state(&self, source: &Arc<dyn Source>) -> Option<Arc<SourceState>> {
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
        let stays = !self.placement.evicts_for_prefetch && self.placement.whole_file;
        let is_near = stays && self.promises.promise(&self.tiers, &copies, source.id().len, key);
        let state = Arc::new(SourceState::new(Arc::clone(source), copies, self.placement.block_len, is_near));
        let mut states = self.lock_states();
        // Sources that were closed are swept out whenever the number of entries has doubled.
        if states.len().is_power_of_two() {
            states.retain(|_, state| state.strong_count() > 0);
        }
        states.insert(key, Arc::downgrade(&state));
        Some(state)
    }

    /// The source that is open under `key`.
    pub(crate) fn known(&self, key: SourceKey) -> Option<Arc<SourceState>> {
        self.lock_states().get(&key).and_then(Weak::upgrade)
    }

    fn lock_states(&self) -> MutexGuard<'_, HashMap<SourceKey, Weak<SourceState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the user should know of tiers that are of no use.
    pub(crate) fn warnings(&self) -> Vec<String> {
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

    pub(crate) fn stats(&self) -> Stats {
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
        let TierCounters { origin, placed, placed_bytes, refused, demoted, ahead, wait_ns, .. } =
            &self.counters;
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        let (waiting, backlog) = self.threads.backlog();
        Stats {
            tiers: tiers.collect(),
            origin: OriginStats {
                reads: origin.sum(|shard| &shard.reads),
                bytes: origin.sum(|shard| &shard.bytes),
                ns: origin.sum(|shard| &shard.ns),
            },
            placed: load(placed),
            placed_bytes: load(placed_bytes),
            refused: load(refused),
            demoted: load(demoted),
            ahead: load(ahead),
            ahead_bytes: self.read_ahead.held_bytes(),
            wait_ns: load(wait_ns),
            waiting: waiting as u64,
            backlog: backlog as u64,
        }
    }
}
