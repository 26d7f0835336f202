//! Prefetch: a background task that fetches upcoming reads before they are asked for.

use std::sync::{Arc, Weak};

use crate::{
    flight::{FlightPart, Landed, Lead, Turn},
    tiered::{
        fetch::{FetchOutcome, fetch_block},
        placement_threads::{BackgroundTask, StepOutcome},
        process_tiers::ProcessTiers,
        read_ahead::{NextPrefetch, ReadAheadRoom, UpcomingRead},
        source_state::SourceState,
    },
};

/// Prefetches one list of upcoming reads; several threads step it at once.
#[derive(Debug)]
pub(crate) struct PrefetchTask {
    pub(crate) process: Weak<ProcessTiers>,
    /// The list that it prefetches: it ends when another is set.
    pub(crate) generation: u64,
}

impl BackgroundTask for PrefetchTask {
    fn step(&self) -> StepOutcome {
        let Some(process) = self.process.upgrade() else { return StepOutcome::Over };
        if !process.read_ahead.is_current(self.generation) {
            return StepOutcome::Over;
        }
        let (upcoming, lead) = match process.read_ahead.next(&process.flights) {
            NextPrefetch::Fetch(upcoming, lead) => (upcoming, lead),
            NextPrefetch::NoRoom => return StepOutcome::Idle,
            NextPrefetch::Nothing => return StepOutcome::Over,
        };
        match process.known(upcoming.source) {
            Some(state) => fetch(&process, &state, upcoming, lead),
            None => {
                lead.land(Landed::NoRoom);
                StepOutcome::Worked
            }
        }
    }
}

/// Fetches `upcoming`: whole blocks where a tier keeps them, else its own bytes into the read-ahead buffer.
fn fetch(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    upcoming: UpcomingRead,
    lead: Lead,
) -> StepOutcome {
    state.look_elsewhere(upcoming.range);
    let (mut kept, mut is_partly_here) = (true, false);
    for block in state.blocks.covering(upcoming.range) {
        if state.has(block) {
            is_partly_here = true;
            continue;
        }
        let range = state.blocks.range(block);
        let asked = upcoming.range.end.min(range.end) - upcoming.range.start.max(range.start);
        let is_all = state.is_most(block, asked);
        if !state.has_room(block, is_all) {
            kept = false;
            continue;
        }
        if let Turn::Lead(lead) = process.flights.turn(state.key, FlightPart::Block(block)) {
            is_partly_here |= fetch_block(process, state, block, is_all, lead) == FetchOutcome::Kept;
        }
    }
    // Of a range that is here in part, the reader fetches just the rest.
    if kept || is_partly_here {
        lead.land(Landed::NoRoom);
        return StepOutcome::Worked;
    }
    fetch_exact(process, state, upcoming, lead)
}

/// Fetches `upcoming` into the read-ahead buffer, if its budget has room.
fn fetch_exact(
    process: &ProcessTiers,
    state: &SourceState,
    upcoming: UpcomingRead,
    lead: Lead,
) -> StepOutcome {
    let read_ahead = &process.read_ahead;
    match read_ahead.reserve(upcoming.range.len()) {
        ReadAheadRoom::Taken => {}
        ReadAheadRoom::Later => {
            lead.land(Landed::NoRoom);
            read_ahead.postpone(upcoming);
            return StepOutcome::Idle;
        }
        ReadAheadRoom::Never => {
            lead.land(Landed::NoRoom);
            return StepOutcome::Worked;
        }
    }
    match state.fetch_exact(&process.counters, upcoming.range) {
        Ok(bytes) => {
            read_ahead.hold(upcoming, bytes.clone());
            lead.land(Landed::Bytes(bytes));
        }
        Err(error) => {
            // The reader meets it again, and reports it.
            read_ahead.release(upcoming.range.len());
            lead.land(Landed::Failed(error));
        }
    }
    StepOutcome::Worked
}
