//! An origin over an origin: the same bytes, from nearer places where they are.
//!
//! | file | idea |
//! |---|---|
//! | `tiered_shared`, `tiered_source` | what all sources share, and a source over its tiers |
//! | `source_state`, `process_tiers` | what a process knows of one source, and what its sources share |
//! | `read`, `origin_read`, `background_tasks` | how a read is served, and what it leaves to the background |
//! | `claim`, `demote`, `fetch` | room for a block, evicted blocks on their way down, blocks from the origin to a tier |
//! | `placement_threads` | the threads that place copies, readers' requests first |
//! | `promise` | which sources will be near for good |
//! | `prefetch` | upcoming reads, fetched before they are asked for |
//! | `read_ahead` | the buffer of prefetched bytes that no tier keeps |

pub(crate) mod background_tasks;
pub(crate) mod claim;
pub(crate) mod demote;
pub(crate) mod fetch;
pub(crate) mod origin_read;
pub(crate) mod placement_threads;
pub(crate) mod prefetch;
pub(crate) mod process_tiers;
pub(crate) mod promise;
pub(crate) mod read;
pub(crate) mod read_ahead;
pub(crate) mod source_state;
pub(crate) mod tiered_shared;
pub(crate) mod tiered_source;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::Result;
use forebay_source::{Locator, Origin, Source, SourceId};

use crate::{
    block::SourceKey,
    placement::Placement,
    policy::ForesightHandle,
    stats::Stats,
    tier::{Tier, WholeCopy},
    tiered::{
        background_tasks::PlaceRest, prefetch::PrefetchTask, process_tiers::ProcessTiers,
        read_ahead::UpcomingReads, source_state::SourceState, tiered_shared::TieredShared,
        tiered_source::TieredSource,
    },
};

/// An origin whose bytes are copied to tiers as they are read.
///
/// A source that changed within the clock's grain, and one that lies on the device of every tier, is handed through.
///
/// It ends by [`close`](Self::close), or when it and all its sources are dropped.
#[derive(Debug)]
pub struct Tiered {
    shared: Arc<TieredShared>,
}

impl Tiered {
    /// `origin`, copied to the tiers that `make` makes, the fastest first.
    pub fn new(
        origin: Arc<dyn Origin>,
        make: impl Fn() -> Result<Vec<Arc<dyn Tier>>> + Send + Sync + 'static,
        placement: Placement,
    ) -> Result<Self> {
        Ok(Self { shared: Arc::new(TieredShared::new(origin, Box::new(make), placement)?) })
    }

    /// Ends prefetch, placement and the tiers of this process: each thread ends after what it is at, and is waited for no
    /// longer than half a second, as is each tier. Copies in memory are dropped; the folder of a job is removed by the last
    /// process that uses it.
    ///
    /// Sources that are open read on, from the origin, as do those that are opened later: a read gives the same bytes, and
    /// one that is under way meanwhile does too. May be called more than once, by any thread.
    pub fn close(&self) {
        self.shared.close();
    }

    /// True once it was closed.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// What was read from where, by this process.
    pub fn stats(&self) -> Stats {
        self.shared.process().stats()
    }

    /// What the user should know of tiers that were left out, have no room, or copy none of what was opened so far; a
    /// sentence each, without its full stop.
    pub fn warnings(&self) -> Vec<String> {
        self.shared.process().warnings()
    }

    /// Prefetches what `upcoming` names from now on; nothing any more without it.
    pub fn look_ahead(&self, upcoming: Option<Box<dyn UpcomingReads>>) {
        if self.is_closed() {
            return;
        }
        let process = self.shared.process();
        let has_some = upcoming.is_some();
        let generation = process.read_ahead.set(upcoming);
        if has_some {
            let task = PrefetchTask { process: Arc::downgrade(&process), generation };
            process.threads.background(Arc::new(task));
        }
    }

    /// Waits until no thread is inside [`UpcomingReads::next`], so that the caller alone drops what answers it.
    pub fn finish_looking(&self) {
        self.shared.process().read_ahead.finish_looking();
    }

    /// Whether what is known of the future is fetched before it is asked for.
    pub fn looks_ahead(&self) -> bool {
        self.shared.placement.looks_ahead
    }

    /// What is known of the future, by the policies of its tiers.
    pub fn foresight(&self) -> &ForesightHandle {
        &self.shared.placement.foresight
    }

    /// Bytes of a block.
    pub fn block_len(&self) -> u64 {
        self.shared.placement.block_len
    }

    /// The tiers of this process, from the top.
    pub fn tiers(&self) -> Vec<Arc<dyn Tier>> {
        self.shared.process().tiers.clone()
    }

    /// What this process knows of the source at `at`; nothing where no tier keeps any of it.
    pub(crate) fn state(&self, at: &Locator) -> Result<(Arc<ProcessTiers>, Option<Arc<SourceState>>)> {
        let (inner, process) = (self.shared.origin.open(at)?, self.shared.process());
        let state = if self.is_closed() { None } else { process.settled_state(&inner) };
        Ok((process, state))
    }

    /// `inner`, a source of the origin that the caller has opened already, read through the tiers; nothing where no tier keeps any
    /// of it.
    pub fn over(&self, inner: Arc<dyn Source>) -> Option<Arc<dyn Source>> {
        if self.is_closed() {
            return None;
        }
        let process = self.shared.process();
        let state = process.settled_state(&inner)?;
        if state.serves_others() {
            PlaceRest::queue(&process, &state);
        }
        Some(Arc::new(TieredSource::new(Arc::clone(&self.shared), inner, process, state)))
    }

    /// Places all of the source called `key`, which is open, in the background, as if a part of it had been read.
    pub fn place(&self, key: SourceKey) {
        let process = self.shared.process();
        if let Some(state) = process.known(key).filter(|_| !self.is_closed()) {
            PlaceRest::queue(&process, &state);
        }
    }

    /// The copy of all of the source called `key`, which is open, if a tier of this process has it.
    pub fn whole_copy(&self, key: SourceKey) -> Option<Arc<dyn WholeCopy>> {
        let state = self.shared.process().known(key)?;
        state.find_whole();
        let whole = state.whole.load();
        whole.as_ref().map(|whole| Arc::clone(&whole.copy)).filter(|copy| !copy.is_gone())
    }

    /// True when a tier of this process has all of the source called `key`, which is open.
    pub fn has_whole(&self, key: SourceKey) -> bool {
        self.shared.process().known(key).is_some_and(|state| state.whole.load().is_some())
    }

    /// Waits until all that is to be placed is, at most `patience`; false when that was not enough.
    pub fn wait(&self, patience: Duration) -> bool {
        let (process, until) = (self.shared.process(), Instant::now() + patience);
        process.threads.wait(patience) && process.tiers.iter().all(|tier| tier.wait(until))
    }
}

impl Origin for Tiered {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let inner = self.shared.origin.open(at)?;
        Ok(self.over(Arc::clone(&inner)).unwrap_or(inner))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.shared.origin.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.shared.origin.survey(under)
    }
}
