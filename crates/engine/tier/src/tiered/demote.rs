//! Demotion: blocks that were evicted from a tier, on their way to the next one below.
//!
//! A block only ever goes down, so that two tiers never exchange it without end.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use bytes::Bytes;
use forebay_source::SourceId;

use crate::{
    block::SourceKey,
    flight::{FlightPart, Landed, Lead, Turn},
    tier::{Admission, Claim, Copies, EvictedBlock, Room},
    tiered::{claim::claim, process_tiers::ProcessTiers},
};

/// A block that left a tier and has no place yet: readers find it as a flight meanwhile.
#[derive(Debug)]
pub(crate) struct Demotion {
    block: u64,
    bytes: Bytes,
    /// The copies of its source on the tiers that may keep it.
    below: Vec<(usize, Arc<dyn Copies>)>,
    lead: Lead,
}

impl Demotion {
    /// Lets readers find the blocks that left tier `from`; those that no tier below has room for are dropped.
    pub(crate) fn begin(process: &ProcessTiers, from: usize, evicted: Vec<EvictedBlock>) -> Vec<Self> {
        let begun = evicted.into_iter().filter_map(|EvictedBlock { source, block, stored }| {
            let key = SourceKey::of(&source);
            let mut below = copies_below(process, from, &source, key);
            below.retain(|(_, copies)| {
                matches!(copies.room(block, stored.len()), Room::Free | Room::ByEvicting)
            });
            if below.is_empty() {
                return None;
            }
            // A thread that fetches it anew also places it.
            let Turn::Lead(lead) = process.flights.turn(key, FlightPart::Block(block)) else { return None };
            // A copy: what it lay in is for the block that it left for.
            let bytes = stored.bytes();
            lead.land(Landed::Bytes(bytes.clone()));
            Some(Self { block, bytes, below, lead })
        });
        begun.collect()
    }

    /// Places the blocks of `demotions` on tiers below those they left; what leaves for them goes further down.
    pub(crate) fn finish(process: &ProcessTiers, demotions: Vec<Self>) {
        let mut waiting = VecDeque::from(demotions);
        while let Some(Self { block, bytes, below, lead }) = waiting.pop_front() {
            // A block that another process is at has a place: nobody waits for that here.
            let (tier, claim) = claim(&below, block, bytes.len() as u64, true, Instant::now());
            if let Claim::Held(mut claimed) = claim {
                waiting.extend(Self::begin(process, tier, claimed.take_evicted()));
                if claimed.put(&bytes) == Admission::Kept {
                    process.counters.demoted.fetch_add(1, Relaxed);
                }
            }
            // Only now may another thread fetch it again.
            drop(lead);
        }
    }
}

/// The copies of `source` on the tiers below `from`.
fn copies_below(
    process: &ProcessTiers,
    from: usize,
    source: &SourceId,
    key: SourceKey,
) -> Vec<(usize, Arc<dyn Copies>)> {
    if let Some(state) = process.known(key) {
        return state.copies.iter().filter(|(tier, _)| *tier > from).cloned().collect();
    }
    let below = process.tiers.iter().enumerate().skip(from + 1);
    below.filter_map(|(tier, copies)| Some((tier, copies.copies(source)?))).collect()
}
