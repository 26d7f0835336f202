//! The observer that passes a loader's schedule on to the tiers it reads through, and counts what was read from where.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_loader::{EpochObserver, Loader, Schedule};
use forebay_process::{ProcessIdentity, Result, current_process};
use forebay_tier::{Stats, Tiered};
use serde::Serialize;

use crate::foresight::{LoaderForesight, foresee};

/// Observer of a loader that reads through tiers.
#[derive(Debug)]
pub struct TierObserver {
    tiers: Arc<Tiered>,
    epochs: Mutex<Epochs>,
    /// Held here: the tiers hold a weak reference.
    foresight: Mutex<Option<Arc<LoaderForesight>>>,
    /// The process whose tiers these are.
    process: ProcessIdentity,
}

/// What was read from where, run by run.
#[derive(Debug, Default)]
struct Epochs {
    done: Vec<EpochTiers>,
    /// The epoch under way, and what was read before it.
    current: Option<(u64, Stats)>,
}

/// What one epoch read from where.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochTiers {
    /// Which epoch.
    pub epoch: u64,
    /// The part of all bytes read that came from tiers.
    pub hit_ratio: Option<f64>,
    /// Reads that the tiers spared the origin.
    pub saved: u64,
    /// The rest.
    #[serde(flatten)]
    pub stats: Stats,
}

/// What was read from where, in all and epoch by epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierReport {
    /// In all, opening included.
    #[serde(flatten)]
    pub total: Stats,
    /// Reads that the tiers spared the origin.
    pub saved: u64,
    /// Epoch by epoch, the one under way last.
    pub epochs: Vec<EpochTiers>,
}

/// More epochs than this are not remembered one by one.
const MOST_EPOCHS: usize = 1000;

impl EpochTiers {
    fn new(epoch: u64, stats: Stats) -> Self {
        Self { epoch, hit_ratio: stats.hit_ratio(), saved: stats.saved(), stats }
    }
}

impl TierReport {
    /// What `loader` read from where; nothing without tiers.
    pub fn from_loader(loader: &Loader) -> Option<Self> {
        loader.observer().map(TierObserver::report)
    }
}

impl TierObserver {
    /// The observer of a loader of a set that was opened through `tiers`.
    pub fn new(tiers: Arc<Tiered>) -> Self {
        Self { tiers, epochs: Mutex::default(), foresight: Mutex::default(), process: current_process() }
    }

    /// What was read from where.
    pub fn report(&self) -> TierReport {
        let epochs = self.lock();
        let total = self.tiers.stats();
        let mut reports = epochs.done.clone();
        if let Some((epoch, before)) = &epochs.current {
            reports.push(EpochTiers::new(*epoch, total.since(before)));
        }
        TierReport { saved: total.saved(), total, epochs: reports }
    }

    fn lock_foresight(&self) -> MutexGuard<'_, Option<Arc<LoaderForesight>>> {
        self.foresight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Epochs> {
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EpochObserver for TierObserver {
    fn begin(&self, schedule: &Arc<Schedule>, epoch: u64, position: u64) -> Result<()> {
        self.lock().current = Some((epoch, self.tiers.stats()));
        let mut known = self.lock_foresight();
        match &*known {
            Some(foresight) => foresight.begin(&self.tiers, epoch, position),
            None => {
                *known = Some(foresee(&self.tiers, Arc::clone(schedule), epoch, position)?);
                Ok(())
            }
        }
    }

    fn deliver(&self, epoch: u64, step: u64) {
        if let Some(foresight) = &*self.lock_foresight() {
            foresight.reach(epoch, step);
        }
    }

    fn end(&self) {
        let mut epochs = self.lock();
        let now = self.tiers.stats();
        if let Some((epoch, before)) = epochs.current.take()
            && epochs.done.len() < MOST_EPOCHS
        {
            epochs.done.push(EpochTiers::new(epoch, now.since(&before)));
        }
    }

    fn forget(&self) {
        drop(self.lock_foresight().take());
    }
}

impl Drop for TierObserver {
    fn drop(&mut self) {
        // A thread of the tiers that is just asking what comes next would otherwise be the last to hold the set, and leave
        // the tiers some time after they were closed.
        let foresight = self.foresight.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.process != current_process() {
            // A forked child has neither those threads nor these tiers, and a thread of the parent may have held a lock in them.
            return std::mem::forget(foresight);
        }
        drop(foresight);
        self.tiers.finish_looking();
    }
}
