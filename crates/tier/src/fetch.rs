//! Blocks on their way from the origin to a tier.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use forebay_source::SourceExt;

use crate::{
    Admission, Claim, Claimed, Landed, Lead, Part, Turn, claim::claim, demote::Demotion,
    placement_threads::Step, process_tiers::ProcessTiers, source_state::SourceState,
};

/// Another process that fetches a block has it within this time, or is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// Fetches `block` if a tier has room for it, tells all who wait, and then places it. Others leave for it only if
/// `may_replace`; they go to the next tier below, after those who wait were told.
pub(crate) fn fetch_block(
    process: &Arc<ProcessTiers>,
    state: &Arc<SourceState>,
    block: u64,
    may_replace: bool,
    lead: Lead,
) -> Fetched {
    let until = Instant::now() + PATIENCE;
    let (tier, claim) = claim(&state.copies, block, state.blocks.range(block).len(), may_replace, until);
    let mut claimed = match claim {
        Claim::Held(claimed) => claimed,
        Claim::Here => {
            let found = state.copies.iter().find_map(|(_, copies)| copies.get(block));
            lead.land(found.map_or(Landed::NoRoom, Landed::Bytes));
            return Fetched::Not;
        }
        Claim::Busy | Claim::Full => {
            lead.land(Landed::NoRoom);
            return Fetched::Not;
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
) -> Fetched {
    let (range, began) = (state.blocks.range(block), Instant::now());
    let bytes = match state.inner.fetch_one(range) {
        Ok(bytes) => bytes,
        Err(error) => {
            lead.land(Landed::Failed(error));
            return Fetched::Not;
        }
    };
    process.counters.origin.add(1, range.len(), began);
    // First those who wait, then the tier.
    lead.land(Landed::Bytes(bytes.clone()));
    let admission = claimed.put(&bytes);
    drop(lead);
    match admission {
        Admission::Kept => {
            process.counters.placed.fetch_add(1, Relaxed);
            process.counters.placed_bytes.fetch_add(range.len(), Relaxed);
            state.find_whole();
            Fetched::Kept
        }
        Admission::Refused => {
            process.counters.refused.fetch_add(1, Relaxed);
            Fetched::Not
        }
    }
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetched {
    /// It was fetched and placed.
    Kept,
    /// It was there already, or there is no room, or it cannot be read.
    Not,
}

/// So many blocks that are there are passed over in one step.
const BLOCKS_PER_STEP: u64 = 256;

/// Places the next block of `state` that is not there yet.
pub(crate) fn place_next(process: &Arc<ProcessTiers>, state: &Arc<SourceState>) -> Step {
    for _ in 0..BLOCKS_PER_STEP {
        let block = state.follow_next.fetch_add(1, Relaxed);
        if block >= state.blocks.count() {
            state.settle();
            return Step::Over;
        }
        if state.has(block) {
            continue;
        }
        let may_replace = !process.placement.is_lasting;
        if !state.has_room(block, may_replace) {
            state.settle();
            return Step::Over;
        }
        // Who is at it already places it.
        let Turn::Lead(lead) = process.flights.turn(state.key, Part::Block(block)) else { continue };
        fetch_block(process, state, block, may_replace, lead);
        if block + 1 >= state.blocks.count() {
            state.settle();
        }
        return Step::Worked;
    }
    Step::Worked
}
