//! The parts of a table as one rank sees them: where they lie, which can be asked, and blocks that were found before.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use forebay_process::{PerProcess, ProcessIdentity, current_process};
use forebay_store::{Comm, Window};

use crate::{
    block_digest::BlockDigest,
    block_table::{BlockTable, SlotPlace, TableShape},
    peer_stats::PeerStats,
    placed_by::PlacedBy,
};

/// The part of the table in one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TablePart {
    /// The rank whose shard it is.
    pub(crate) leader: usize,
    pub(crate) shape: TableShape,
}

/// A block that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownBlock {
    /// The index of the part that holds it.
    pub(crate) part: usize,
    pub(crate) place: SlotPlace,
    /// Its bytes were compared with their checksum.
    pub(crate) is_compared: bool,
}

/// State that all sources of a table share.
#[derive(Debug)]
pub(crate) struct TableView {
    pub(crate) comm: Arc<dyn Comm>,
    pub(crate) window: Arc<dyn Window>,
    pub(crate) parts: Vec<TablePart>,
    /// The index of the part in which this rank places blocks.
    pub(crate) own: usize,
    pub(crate) placed_by: PlacedBy,
    pub(crate) stats: Arc<PeerStats>,
    is_closed: AtomicBool,
    /// The process that is the rank. A forked child places nothing, and finds what its parent has placed in the memory that they share.
    rank_process: ProcessIdentity,
    known: PerProcess<RwLock<HashMap<BlockDigest, KnownBlock>>>,
    made: Instant,
    /// Until when each part is left alone, in milliseconds after `made`.
    rests: Vec<AtomicU64>,
}

/// How long a rank that did not answer is left alone: a reader waits for it once, and then no more for a while.
const REST: Duration = Duration::from_secs(10);

impl TableView {
    pub(crate) fn new(
        (comm, window): (Arc<dyn Comm>, Arc<dyn Window>),
        parts: Vec<TablePart>,
        placed_by: PlacedBy,
        stats: Arc<PeerStats>,
    ) -> Self {
        let is_own = |part: &TablePart| match placed_by {
            PlacedBy::HomeRank => part.leader == comm.rank(),
            PlacedBy::AnyRank => comm.host_of(part.leader) == comm.host_of(comm.rank()),
        };
        Self {
            own: parts.iter().position(is_own).unwrap_or(0),
            rests: parts.iter().map(|_| AtomicU64::new(0)).collect(),
            comm,
            window,
            parts,
            placed_by,
            stats,
            is_closed: AtomicBool::new(false),
            rank_process: current_process(),
            known: PerProcess::empty(),
            made: Instant::now(),
        }
    }

    /// The table in which this rank places blocks; `None` where it has none. It stays readable when the window was closed.
    pub(crate) fn own_table(&self) -> Option<BlockTable<'_>> {
        let TablePart { leader, shape } = self.parts[self.own];
        BlockTable::of(self.window.shared(leader)?, shape)
    }

    /// Marks the window as closed; true the first time.
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, SeqCst)
    }

    /// True in the process that is the rank, and in no child of it.
    pub(crate) fn is_rank(&self) -> bool {
        self.rank_process == current_process()
    }

    /// True when this process is the one that copies the block of this name, where it wants it.
    pub(crate) fn places(&self, name: BlockDigest) -> bool {
        self.is_rank() && self.home(name).is_none_or(|home| home == self.own)
    }

    /// The one part that may hold the block, where it has a home.
    pub(crate) fn home(&self, name: BlockDigest) -> Option<usize> {
        match self.placed_by {
            // Tables begin to look by the other word: a home spreads its blocks over all of its entries.
            PlacedBy::HomeRank => usize::try_from(name.rest.checked_rem(self.parts.len() as u64)?).ok(),
            PlacedBy::AnyRank => None,
        }
    }

    /// Where a block is, as far as is known without asking other ranks.
    pub(crate) fn locate(&self, name: BlockDigest) -> Option<KnownBlock> {
        self.known(name).or_else(|| {
            let table = self.own_table().filter(|_| self.home(name).is_none_or(|home| home == self.own))?;
            Some(KnownBlock { part: self.own, place: table.find(name)?, is_compared: false })
        })
    }

    /// What is remembered of a block.
    fn known(&self, name: BlockDigest) -> Option<KnownBlock> {
        let find = |known: &RwLock<HashMap<_, _>>| {
            known.read().unwrap_or_else(PoisonError::into_inner).get(&name).copied()
        };
        self.known.with(RwLock::default, find)
    }

    /// Remembers where a block is, which stays there.
    pub(crate) fn remember(&self, name: BlockDigest, block: KnownBlock) {
        let put = |known: &RwLock<HashMap<_, _>>| {
            known.write().unwrap_or_else(PoisonError::into_inner).insert(name, block);
        };
        self.known.with(RwLock::default, put);
    }

    /// Forgets a block that could not be read: it may be found elsewhere.
    pub(crate) fn forget(&self, name: BlockDigest) {
        let remove = |known: &RwLock<HashMap<BlockDigest, KnownBlock>>| {
            known.write().unwrap_or_else(PoisonError::into_inner).remove(&name);
        };
        self.known.with(RwLock::default, remove);
    }

    /// The other parts in which the block of this name is looked for: that of its home, or all that can be asked.
    pub(crate) fn other_parts(&self, name: BlockDigest) -> impl Iterator<Item = usize> {
        let parts = match self.home(name) {
            Some(home) => home..home + 1,
            None => 0..self.parts.len(),
        };
        parts.filter(|part| *part != self.own && self.parts[*part].shape.slots > 0 && self.can_read(*part))
    }

    /// True when the part at `index` can be read: its memory is mapped here, or its rank runs and has answered of late.
    fn can_read(&self, index: usize) -> bool {
        self.window.shared(self.parts[index].leader).is_some() || self.answers(index)
    }

    /// True when the rank of the part at `index` can be asked for it.
    pub(crate) fn answers(&self, index: usize) -> bool {
        let leader = self.parts[index].leader;
        let is_awake = self.rests[index].load(Relaxed) <= self.now_ms();
        let asks = self.is_rank() || self.placed_by.serves_children();
        asks && is_awake && self.comm.first_gone(leader..leader + 1).is_none()
    }

    /// Leaves the rank of a part alone for a while.
    pub(crate) fn rest(&self, index: usize) {
        let until = self.now_ms().saturating_add(u64::try_from(REST.as_millis()).unwrap_or(u64::MAX));
        self.rests[index].store(until, Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
