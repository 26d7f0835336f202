//! Blocks on their way from the origin to a tier.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use forebay_source::SourceExt;

use crate::{
    Admission, Claim, Claimed, Copies, Landed, Lead, Part, Turn, demote::Demotion, pool::Step, state::State,
    tiered::Running,
};

/// Another process that fetches a block has it within this time, or is stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often one looks whether another process is done: requests take milliseconds.
const LOOK: Duration = Duration::from_micros(500);

/// Fetches `block` if a tier has room for it, tells all who wait, and then places it. Others leave for it only if
/// `may_replace`; they go to the next tier below, after those who wait were told.
pub(crate) fn fetch_block(
    running: &Arc<Running>,
    state: &Arc<State>,
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
    let demotions = Demotion::begin(running, tier, claimed.take_evicted());
    let fetched = fetch_claimed(running, state, block, claimed, lead);
    Demotion::finish(running, demotions);
    fetched
}

/// Fetches `block`, for which there is room.
fn fetch_claimed(
    running: &Running,
    state: &State,
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
    running.counters.origin.add(1, range.len(), began);
    // First those who wait, then the tier.
    lead.land(Landed::Bytes(bytes.clone()));
    let admission = claimed.put(&bytes);
    drop(lead);
    match admission {
        Admission::Kept => {
            running.counters.placed.fetch_add(1, Relaxed);
            running.counters.placed_bytes.fetch_add(range.len(), Relaxed);
            state.find_whole();
            Fetched::Kept
        }
        Admission::Refused => {
            running.counters.refused.fetch_add(1, Relaxed);
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

/// Room for `block` on the highest of `copies` that has some, and the number of that tier; waits until then for another
/// process that is at it.
///
/// All are asked for free room before any copy has to leave one, so that no tier evicts while a lower one has room.
pub(crate) fn claim(
    copies: &[(usize, Arc<dyn Copies>)],
    block: u64,
    len: u64,
    may_replace: bool,
    until: Instant,
) -> (usize, Claim) {
    for may_replace in [false, true].into_iter().take(1 + usize::from(may_replace)) {
        for (tier, copies) in copies {
            loop {
                match Arc::clone(copies).claim(block, len, may_replace) {
                    // A process that is stuck or was stopped delays nobody for ever.
                    Claim::Busy if Instant::now() < until => thread::sleep(LOOK),
                    Claim::Full => break,
                    claim => return (*tier, claim),
                }
            }
        }
    }
    (0, Claim::Full)
}

/// So many blocks that are there are passed over in one step.
const BLOCKS_PER_STEP: u64 = 256;

/// Places the next block of `state` that is not there yet.
pub(crate) fn follow(running: &Arc<Running>, state: &Arc<State>) -> Step {
    for _ in 0..BLOCKS_PER_STEP {
        let block = state.follow_next.fetch_add(1, Relaxed);
        if block >= state.blocks.count() {
            settle(state);
            return Step::Over;
        }
        if state.has(block) {
            continue;
        }
        let may_replace = !running.placement.is_lasting;
        if !state.has_room(block, may_replace) {
            settle(state);
            return Step::Over;
        }
        // Who is at it already places it.
        let Turn::Lead(lead) = running.flights.turn(state.key, Part::Block(block)) else { continue };
        fetch_block(running, state, block, may_replace, lead);
        if block + 1 >= state.blocks.count() {
            settle(state);
        }
        return Step::Worked;
    }
    Step::Worked
}

/// Makes what is all there readable as one.
pub(crate) fn settle(state: &State) {
    for (_, copies) in &state.copies {
        copies.settle();
    }
    state.find_whole();
}
