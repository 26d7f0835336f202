//! A tier in the memory of all ranks: blocks that one rank has copied serve its peers.
//!
//! ```text
//! (source, block) ─hash─► home rank ─hash─► eight entries of its table ─► slot ─► bytes
//! ```
//!
//! Every block has one home, and only the home places it: the quotas of all ranks add up, and the origin is read once for all of
//! them. A peer finds the block by reading the home's table, without asking the home. What is placed stays until the end: an entry
//! that was seen once is right for ever, and needs no second look.
//!
//! | file | idea |
//! |---|---|
//! | `table` | entries and slots in the memory of a rank |
//! | `shared` | what a rank knows of its table and of the others' |
//! | `copies` | the blocks of one source, here and on other ranks |
//! | `of_job` | the tiers of this process, which all data sets share |

mod copies;
mod of_job;
mod shared;
mod table;

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::Instant,
};

use forebay_source::{Result, SourceId};
use forebay_store::{Comm, ShardMemory, ShardPlace, Wait};
use forebay_tier::{Copies, Tier, Usage};

use copies::PeerCopies;
pub use of_job::join_job;
pub(crate) use of_job::of_job;
use shared::PeerShared;
use table::{OwnTable, TableShape};

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
        let shard = Arc::new(ShardMemory::new(shape.byte_len(), &ShardPlace::Memory)?);
        let window = comm.window(Arc::clone(&shard), wait)?;
        // An empty table is all zeros, as new memory is.
        window.publish(wait)?;
        let shared = PeerShared {
            comm,
            window,
            shard,
            shape,
            own: Mutex::new(OwnTable::new(shape)),
            known: RwLock::default(),
            faults: AtomicU64::new(0),
            maker: std::process::id(),
        };
        Ok(Self { shared: Arc::new(shared), is_closed: Arc::default() })
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
        let own = self.shared.own.lock().unwrap_or_else(PoisonError::into_inner);
        Usage {
            used: own.used(),
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
