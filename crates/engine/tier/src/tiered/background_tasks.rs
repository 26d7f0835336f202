//! Background tasks on one source: the rest of it is placed, and its origin is asked whether it has changed.

use std::sync::{Arc, Weak, atomic::Ordering::Relaxed};

use forebay_process::ErrorKind;

use crate::tiered::{
    fetch::place_next,
    placement_threads::{BackgroundTask, StepOutcome},
    process_tiers::ProcessTiers,
    source_state::SourceState,
};

/// Places the rest of a source after a part of it was read.
#[derive(Debug)]
pub(crate) struct PlaceRest {
    pub(crate) process: Weak<ProcessTiers>,
    pub(crate) state: Arc<SourceState>,
}

impl PlaceRest {
    /// Queues it, once for each source: before prefetch where other processes wait for what this one places, else behind it.
    pub(crate) fn queue(process: &Arc<ProcessTiers>, state: &Arc<SourceState>) {
        if !process.placement.whole_file || state.is_followed.swap(true, Relaxed) {
            return;
        }
        let task = Arc::new(Self { process: Arc::downgrade(process), state: Arc::clone(state) });
        match state.serves_others() {
            true => process.threads.background_first(task),
            false => process.threads.background(task),
        }
    }
}

impl BackgroundTask for PlaceRest {
    fn step(&self) -> StepOutcome {
        self.process.upgrade().map_or(StepOutcome::Over, |process| place_next(&process, &self.state))
    }
}

/// Asks the origin whether a source has changed.
#[derive(Debug)]
pub(crate) struct Recheck {
    pub(crate) process: Weak<ProcessTiers>,
    pub(crate) state: Arc<SourceState>,
}

impl BackgroundTask for Recheck {
    fn step(&self) -> StepOutcome {
        let Some(process) = self.process.upgrade() else { return StepOutcome::Over };
        let id = self.state.id();
        let has_changed = match process.origin.open(&id.locator) {
            Ok(source) => !id.is_unchanged(source.id()),
            // An origin that cannot be asked now may be unchanged: a read from it tells.
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        self.state.asked(has_changed);
        StepOutcome::Over
    }
}
