//! The tier itself, made and closed by all ranks together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::Instant,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::SourceId;
use forebay_store::{Comm, ShardMemory, ShardPlace, Wait};
use forebay_tier::{Copies, Tier, Usage};

use super::{copies::PeerCopies, shared::PeerShared, table::TableShape};

/// A tier in the memory of all ranks of a job.
///
/// It is made, and closed by [`close_window`](Self::close_window), by all ranks together. Files have to lie under the same names on
/// all of them.
#[derive(Debug)]
pub struct PeerTier {
    shared: Arc<PeerShared>,
    /// Whether this use of the tier has ended; others of the same memory go on.
    is_closed: Arc<AtomicBool>,
}

impl PeerTier {
    /// A tier to which this rank gives `quota` bytes, for blocks of at most `block_len`. Collective; both are the same on every rank.
    pub fn new(comm: Arc<dyn Comm>, quota: u64, block_len: u64, wait: &Wait<'_>) -> Result<Self> {
        let shape = TableShape::new(quota, block_len);
        let shard = Arc::new(memory_of_all(&*comm, shape.byte_len(), wait)?);
        let window = comm.window(Arc::clone(&shard), wait)?;
        // An empty table is all zeros, as new memory is.
        window.publish(wait)?;
        let shared = Arc::new(PeerShared::new(comm, window, shard, shape));
        Ok(Self { shared, is_closed: Arc::default() })
    }

    /// The same memory for another use, which is closed by itself.
    pub fn again(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), is_closed: Arc::default() }
    }

    /// Gives up what the ranks share, when none of them reads any more. Collective.
    pub fn close_window(&self, wait: &Wait<'_>) -> Result<()> {
        self.is_closed.store(true, SeqCst);
        self.shared.window.close(wait)
    }
}

impl Tier for PeerTier {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>> {
        Some(Arc::new(PeerCopies::new(source, &self.shared, &self.is_closed)))
    }

    fn usage(&self) -> Usage {
        Usage {
            // Of a forked child nothing: what lies there its parent has placed.
            used: self.shared.own().map_or(0, |own| own.used()),
            quota: self.shared.shape.quota(),
            evicted: 0,
            faults: self.shared.faults.load(Relaxed),
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
        self.is_closed.store(true, SeqCst);
    }
}

/// `len` bytes on this rank, where every rank has them; else the same error on all, so that none waits for the others.
fn memory_of_all(comm: &dyn Comm, len: u64, wait: &Wait<'_>) -> Result<ShardMemory> {
    let memory = ShardMemory::new(len, &ShardPlace::Memory);
    let failure = memory.as_ref().err().map(|error| format!("{len} bytes: {error}")).unwrap_or_default();
    let failures = comm.all_gather(failure.into_bytes(), wait)?;
    match failures.iter().position(|failure| !failure.is_empty()) {
        Some(rank) => {
            let why = String::from_utf8_lossy(&failures[rank]);
            let error =
                Error::new(ErrorKind::Full, format!("rank {rank} lacks memory for its table of {why}"));
            Err(error.hint("give the tier of peers less memory"))
        }
        None => memory,
    }
}
