//! A tier in the memory of all ranks, made and closed by all of them together.

use std::{sync::Arc, time::Instant};

use forebay_process::Result;
use forebay_source::SourceId;
use forebay_store::{Comm, Wait};
use forebay_tier::{Copies, Tier, Usage};

use crate::peer_table::PeerTable;

/// A tier in the memory of all ranks of a job: blocks that one rank has copied serve its peers.
///
/// It is made, and closed by [`close_window`](Self::close_window), by all ranks together. Files have to lie under the same names on
/// all of them.
#[derive(Debug)]
pub struct PeerTier {
    peers: PeerTable,
}

impl PeerTier {
    /// A tier to which this rank gives `quota` bytes, for blocks of at most `block_len`. Collective; both are the same on every rank.
    pub fn new(comm: Arc<dyn Comm>, quota: u64, block_len: u64, wait: &Wait<'_>) -> Result<Self> {
        Ok(Self { peers: PeerTable::with_homes(comm, quota, block_len, wait)? })
    }

    /// The same memory for another use, which is closed by itself.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { peers: self.peers.again() }
    }

    /// Gives up what the ranks share, when none of them reads any more. Collective.
    pub fn close_window(&self, wait: &Wait<'_>) -> Result<()> {
        self.peers.close(wait)
    }
}

impl Tier for PeerTier {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>> {
        Some(self.peers.blocks(source))
    }

    fn usage(&self) -> Usage {
        let (view, counters) = (&self.peers.table.view, self.peers.table.view.stats.counters());
        Usage {
            // Of a forked child nothing: what lies there its parent has placed.
            used: if view.is_rank() { counters.placed_bytes } else { 0 },
            quota: view.parts[view.own].shape.quota(),
            evicted: 0,
            faults: counters.faults,
        }
    }

    fn left_out(&self) -> Option<&str> {
        None
    }

    fn wait(&self, _: Instant) -> bool {
        true
    }

    fn close(&self, _: Instant) {
        // Peers read on: the memory goes when all of them have closed the window, or with the process.
        self.peers.table.end();
    }
}
