//! What a tiered origin and its sources share: how the tiers of a process are made.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use forebay_process::{PerProcess, Result};
use forebay_source::Origin;

use crate::{placement::Placement, tier::Tier, tiered::process_tiers::ProcessTiers};

/// What a tiered origin and its sources share.
pub(crate) struct TieredShared {
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) placement: Placement,
    make: Box<MakeTiers>,
    process: PerProcess<Arc<ProcessTiers>>,
    is_closed: AtomicBool,
}

/// Makes the tiers of a process: a forked child needs its own.
type MakeTiers = dyn Fn() -> Result<Vec<Arc<dyn Tier>>> + Send + Sync;

impl fmt::Debug for TieredShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TieredShared");
        shown.field("origin", &self.origin).field("placement", &self.placement).finish_non_exhaustive()
    }
}

impl TieredShared {
    /// `origin`, and the tiers that `make` makes.
    pub(crate) fn new(origin: Arc<dyn Origin>, make: Box<MakeTiers>, placement: Placement) -> Result<Self> {
        let process = PerProcess::new(Arc::new(ProcessTiers::new(&origin, make()?, &placement)));
        Ok(Self { origin, placement, make, process, is_closed: AtomicBool::new(false) })
    }

    /// The tiers of this process.
    pub(crate) fn process(&self) -> Arc<ProcessTiers> {
        let made = self.process.get(|| {
            // A child that cannot have tiers reads the origin, as does one of a process that closed them.
            let tiers = if self.is_closed() { Vec::new() } else { (self.make)().unwrap_or_default() };
            Arc::new(ProcessTiers::new(&self.origin, tiers, &self.placement))
        });
        Arc::clone(&made)
    }
}

impl TieredShared {
    /// Ends all that works for this process; sources read the origin from now on.
    pub(crate) fn close(&self) {
        if self.is_closed.swap(true, Relaxed) {
            return;
        }
        if let Some(process) = self.process.peek() {
            process.close();
        }
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Relaxed)
    }
}

impl Drop for TieredShared {
    fn drop(&mut self) {
        // Threads and tiers end here, and not some time later.
        self.close();
    }
}
