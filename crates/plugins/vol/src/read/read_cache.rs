//! The cache of this process: a tier, the thread that fills it, and whether it is in use.

#![expect(unsafe_code, reason = "registers a function with the C library")]

use std::{
    sync::{
        Arc, Mutex, Once, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{
    read::prestage_queue::PrestageQueue,
    settings::{self, VolSettings},
    units::{cache_stats::CacheCounters, unit_grid::block_len, unit_writer::UnitWriter},
};
use forebay_config::{TierConfig, open_disk_tier};
use forebay_process::{Error, PerProcess, Result, WarnOnce, guard, ledger};
use forebay_source::SourceId;
use forebay_tier::{Copies, MemoryTier, Policy, Ranking, Tier};

/// A tier, and the thread that fills it.
#[derive(Debug)]
pub(crate) struct ReadCache {
    tier: Arc<dyn Tier>,
    pub(crate) writer: Arc<UnitWriter>,
    pub(crate) prestage: PrestageQueue,
    is_paused: AtomicBool,
    may_replace: bool,
}

/// The cache of each process: a forked child makes its own, and one that was closed is made anew.
static CACHE: PerProcess<Mutex<CacheSlot>> = PerProcess::empty();
static LEFT_OUT: WarnOnce = WarnOnce::new();

/// How long the end of a process waits for a unit that is just being put.
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct CacheSlot {
    cache: Option<Arc<ReadCache>>,
    /// It could not be opened, and is not tried again.
    is_left_out: bool,
}

impl ReadCache {
    /// The cache of this process, where one is configured and can be opened.
    pub(crate) fn of_process() -> Option<Arc<Self>> {
        let place = settings::current().place.as_ref()?;
        CACHE.with(Mutex::default, |slot| {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(cache) = &slot.cache {
                return Some(Arc::clone(cache));
            }
            if slot.is_left_out {
                return None;
            }
            match Self::open(place, settings::current()) {
                Ok(cache) => {
                    let cache = Arc::new(cache);
                    slot.cache = Some(Arc::clone(&cache));
                    close_at_exit();
                    Some(cache)
                }
                Err(error) => {
                    slot.is_left_out = true;
                    LEFT_OUT.say(format_args!("{error}; HDF5 files are read without a cache"));
                    None
                }
            }
        })
    }

    /// The cache of this process, if it was used.
    pub(crate) fn in_use() -> Option<Arc<Self>> {
        let slot = CACHE.peek()?;
        let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.cache.clone()
    }

    /// Waits for a while until what was read is in the tier.
    pub(crate) fn await_writes() {
        if let Some(cache) = Self::in_use() {
            cache.writer.wait(CLOSE_PATIENCE);
        }
    }

    /// Ends the cache of this process; the next read makes another.
    pub(crate) fn close_of_process() {
        let Some(slot) = CACHE.peek() else { return };
        let cache = slot.lock().unwrap_or_else(PoisonError::into_inner).cache.take();
        if let Some(cache) = cache {
            cache.prestage.stop();
            cache.writer.wait(CLOSE_PATIENCE);
            cache.writer.stop();
            cache.tier.close(Instant::now() + CLOSE_PATIENCE);
        }
    }

    /// Opens what `place` names.
    fn open(place: &TierConfig, settings: &VolSettings) -> Result<Self> {
        let ranking = Ranking::new(settings.policy);
        let may_replace = !settings.policy.never_evicts();
        let tier: Arc<dyn Tier> = match place {
            TierConfig::Memory { quota } => {
                let grant = ledger().take("HDF5 cache", quota.of(ledger().share()));
                Arc::new(MemoryTier::within(grant, ranking))
            }
            TierConfig::Disk(disk) => Arc::new(open_disk_tier(disk, block_len(settings.unit), ranking)?),
            TierConfig::Peers { .. } => {
                let what = "values of HDF5 files cannot be cached in the memory of other ranks";
                return Err(Error::unsupported(what).at("FOREBAY_HDF5_CACHE").hint("use memory or a folder"));
            }
        };
        let writer = Arc::<UnitWriter>::default();
        Ok(Self {
            tier,
            prestage: PrestageQueue::new(Arc::clone(&writer)),
            writer,
            is_paused: AtomicBool::new(false),
            may_replace,
        })
    }

    /// What is kept of the data set `id`.
    pub(crate) fn copies(&self, id: &SourceId) -> Option<Arc<dyn Copies>> {
        self.tier.copies(id)
    }

    /// Whether copies leave for newcomers.
    pub(crate) fn may_replace(&self) -> bool {
        self.may_replace
    }

    /// Reads pass through until [`start`](Self::start).
    pub(crate) fn pause(&self) {
        self.is_paused.store(true, Relaxed);
        self.writer.pause();
    }

    /// Reads are cached again.
    pub(crate) fn start(&self) {
        self.is_paused.store(false, Relaxed);
        self.writer.resume();
    }

    /// True while reads pass through.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }

    /// Waits until what was read or is being prestaged is in the tier, at most `patience`; false when that was not enough.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        self.prestage.wait(until) && self.writer.wait(until.saturating_duration_since(Instant::now()))
    }

    /// What was counted, with how full the tier is.
    pub(crate) fn counters(&self) -> CacheCounters {
        let usage = self.tier.usage();
        CacheCounters { used_bytes: usage.used, quota_bytes: usage.quota, ..self.writer.stats().counters() }
    }
}

/// Has the cache closed when the process exits: nobody drops what is static. A forked child closes its own, if it has one.
fn close_at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: a function of a library that is never unloaded.
        unsafe { libc::atexit(at_exit) };
    });
}

extern "C" fn at_exit() {
    guard((), ReadCache::close_of_process);
}
