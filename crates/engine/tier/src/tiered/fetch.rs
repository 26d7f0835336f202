//! Blocks on their way from the origin to a tier.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use forebay_source::SourceExt;

use crate::{
    flight::{FlightPart, Landed, Lead, Turn},
    tier::{Admission, Claim, Claimed},
    tiered::{
        claim::claim, demote::Demotion, placement_threads::StepOutcome, process_tiers::ProcessTiers,
        source_state::SourceState,
    },
};

/// Another process that fetches a block is done within this time, or stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fetches `block` if a tier has room for it, hands it to all readers that wait, and then places it. Others are evicted only if
/// `may_replace`; they go to the next tier below, after the readers that wait have their bytes.
pub(crate) fn fetch_block(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    block: u64,
    may_replace: bool,
    lead: Lead,
) -> FetchOutcome {
    let until = Instant::now() + PATIENCE;
    let (tier, claim) = claim(&state.copies, block, state.blocks.range(block).len(), may_replace, until);
    let mut claimed = match claim {
        Claim::Held(claimed) => claimed,
        Claim::Here => {
            let found = state.copies.iter().find_map(|(_, copies)| copies.get(block));
            lead.land(found.map_or(Landed::NoRoom, Landed::Bytes));
            return FetchOutcome::Not;
        }
        Claim::Busy | Claim::Full => {
            lead.land(Landed::NoRoom);
            return FetchOutcome::Not;
        }
    };
    let demotions = Demotion::begin(process, tier, claimed.take_evicted());
    let fetched = fetch_claimed(process, state, block, claimed, lead);
    Demotion::finish(process, demotions);
    fetched
}

/// Fetches `block`, for which there is room.
fn fetch_claimed(
    process: &ProcessTiers,
    state: &SourceState,
    block: u64,
    claimed: Box<dyn Claimed>,
    lead: Lead,
) -> FetchOutcome {
    let (range, began) = (state.blocks.range(block), Instant::now());
    let bytes = match state.inner.fetch_one(range) {
        Ok(bytes) => bytes,
        Err(error) => {
            lead.land(Landed::Failed(error));
            return FetchOutcome::Not;
        }
    };
    process.counters.origin.add(1, range.len(), began);
    // First the readers that wait, then the tier.
    lead.land(Landed::Bytes(bytes.clone()));
    let admission = claimed.put(&bytes);
    drop(lead);
    match admission {
        Admission::Kept => {
            process.counters.placed.fetch_add(1, Relaxed);
            process.counters.placed_bytes.fetch_add(range.len(), Relaxed);
            state.find_whole();
            FetchOutcome::Kept
        }
        Admission::Refused => {
            process.counters.refused.fetch_add(1, Relaxed);
            FetchOutcome::Not
        }
    }
}

/// The outcome of a fetch for a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchOutcome {
    /// It was fetched and placed.
    Kept,
    /// It was there already, or there is no room, or it cannot be read.
    Not,
}

/// The most blocks that are passed over in one step because they are there.
const BLOCKS_PER_STEP: u64 = 256;

/// Places the next block of `state` that is not there yet.
pub(crate) fn place_next(process: &Arc<ProcessTiers>, state: &Arc<SourceState>) -> StepOutcome {
    for _ in 0..BLOCKS_PER_STEP {
        let block = state.follow_next.fetch_add(1, Relaxed);
        if block >= state.blocks.count() {
            state.settle();
            return StepOutcome::Over;
        }
        // What others place is left to them, also where a lower tier has room for it.
        if state.has(block) || state.is_elsewhere(block) {
            continue;
        }
        let may_replace = process.placement.evicts_for_prefetch;
        if !state.has_room(block, may_replace) {
            if state.has_no_slot(block) {
                continue;
            }
            state.settle();
            return StepOutcome::Over;
        }
        // The thread that fetches it already places it.
        let Turn::Lead(lead) = process.flights.turn(state.key, FlightPart::Block(block)) else { continue };
        fetch_block(process, state, block, may_replace, lead);
        if block + 1 >= state.blocks.count() {
            state.settle();
        }
        return StepOutcome::Worked;
    }
    StepOutcome::Worked
}
