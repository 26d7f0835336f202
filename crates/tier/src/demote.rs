//! Blocks that left a tier, on their way to the next one below.
//!
//! A block only ever goes down, so that no two tiers can pass it to and fro.

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use bytes::Bytes;
use forebay_source::SourceId;

use crate::{
    Admission, Claim, Copies, Evicted, Landed, Lead, Part, SourceKey, Turn, fetch::claim, tiered::Running,
};

/// A block that left a tier and has no place yet: readers find it as a flight meanwhile.
#[derive(Debug)]
pub(crate) struct Demotion {
    /// The tier it left.
    from: usize,
    source: SourceId,
    block: u64,
    bytes: Bytes,
    key: SourceKey,
    lead: Lead,
}

impl Demotion {
    /// Lets readers find the blocks that left tier `from`; those that no tier below could keep are dropped.
    pub(crate) fn begin(running: &Running, from: usize, evicted: Vec<Evicted>) -> Vec<Self> {
        if from + 1 >= running.tiers.len() {
            return Vec::new();
        }
        let begun = evicted.into_iter().filter_map(|Evicted { source, block, stored }| {
            let key = SourceKey::of(&source);
            // A thread that fetches it anew also places it.
            let Turn::Lead(lead) = running.flights.turn(key, Part::Block(block)) else { return None };
            // A copy: what it lay in is for the block that it left for.
            let bytes = stored.bytes();
            lead.land(Landed::Bytes(bytes.clone()));
            Some(Self { from, source, block, bytes, key, lead })
        });
        begun.collect()
    }

    /// Places the blocks of `demotions` on tiers below those they left; what leaves for them goes further down.
    pub(crate) fn finish(running: &Running, demotions: Vec<Self>) {
        let mut waiting = VecDeque::from(demotions);
        while let Some(demotion) = waiting.pop_front() {
            let (below, len) = (demotion.copies_below(running), demotion.bytes.len() as u64);
            // A block that another process is at has a place: nobody waits for that here.
            let (tier, claim) = claim(&below, demotion.block, len, true, Instant::now());
            if let Claim::Held(mut claimed) = claim {
                let further = claimed.take_evicted();
                if claimed.put(&demotion.bytes) == Admission::Kept {
                    running.counters.demoted.fetch_add(1, Relaxed);
                }
                waiting.extend(Self::begin(running, tier, further));
            }
            // Only now does anybody fetch it anew.
            drop(demotion.lead);
        }
    }

    /// The copies of its source on the tiers below the one it left.
    fn copies_below(&self, running: &Running) -> Vec<(usize, Arc<dyn Copies>)> {
        if let Some(state) = running.known(self.key) {
            return state.copies.iter().filter(|(tier, _)| *tier > self.from).cloned().collect();
        }
        let below = running.tiers.iter().enumerate().skip(self.from + 1);
        below.filter_map(|(tier, copies)| Some((tier, copies.copies(&self.source)?))).collect()
    }
}
