//! What a rank knows of its own table of blocks, and of those of the others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use forebay_process::{PerProcess, ProcessIdentity, current_process};
use forebay_store::{Comm, ShardMemory, Window};

use super::table::{BlockName, OwnTable, PeerSlot, TableShape};

/// What all sources of the tier share.
#[derive(Debug)]
pub(super) struct PeerShared {
    pub(super) comm: Arc<dyn Comm>,
    pub(super) window: Arc<dyn Window>,
    pub(super) shard: Arc<ShardMemory>,
    pub(super) shape: TableShape,
    pub(super) faults: AtomicU64,
    own: Mutex<OwnTable>,
    /// The process that places blocks. Forked children read alone: they find its blocks in the memory that they share, as those of
    /// any other rank, and leave `own` alone, which a thread of their parent may have locked for ever.
    maker: ProcessIdentity,
    /// Blocks that were found and compared with their checksums.
    known: PerProcess<RwLock<HashMap<BlockName, PeerSlot>>>,
    made: Instant,
    /// Until when each rank is left alone, in milliseconds after `made`.
    rests: Vec<AtomicU64>,
}

/// How long a rank that did not answer is left alone: a reader waits for it 2 s, and then no more for a while.
const REST: Duration = Duration::from_secs(10);

impl PeerShared {
    pub(super) fn new(
        comm: Arc<dyn Comm>,
        window: Arc<dyn Window>,
        shard: Arc<ShardMemory>,
        shape: TableShape,
    ) -> Self {
        Self {
            rests: (0..comm.size()).map(|_| AtomicU64::new(0)).collect(),
            comm,
            window,
            shard,
            shape,
            faults: AtomicU64::new(0),
            own: Mutex::new(OwnTable::new(shape)),
            maker: current_process(),
            known: PerProcess::empty(),
            made: Instant::now(),
        }
    }

    /// The table of this rank, in the process that fills it.
    pub(super) fn own(&self) -> Option<MutexGuard<'_, OwnTable>> {
        self.is_maker().then(|| self.own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_maker(&self) -> bool {
        self.maker == current_process()
    }

    /// True when this process places the block.
    pub(super) fn is_home(&self, name: BlockName) -> bool {
        name.home(self.comm.size()) == self.comm.rank() && self.is_maker()
    }

    /// Where a block is, as far as this process knows.
    pub(super) fn known(&self, name: BlockName) -> Option<PeerSlot> {
        if self.is_home(name) {
            let (slot, len) = self.own()?.slot_of(name)?;
            return Some(PeerSlot { rank: self.comm.rank(), slot, len: len? });
        }
        let find = |known: &RwLock<HashMap<_, _>>| {
            known.read().unwrap_or_else(PoisonError::into_inner).get(&name).copied()
        };
        self.known.with(RwLock::default, find)
    }

    /// Remembers where a block is, which stays there.
    pub(super) fn remember(&self, name: BlockName, at: PeerSlot) {
        let put = |known: &RwLock<HashMap<_, _>>| {
            known.write().unwrap_or_else(PoisonError::into_inner).insert(name, at);
        };
        self.known.with(RwLock::default, put);
    }

    /// True when a rank can be asked: it runs, and has answered of late.
    pub(super) fn answers(&self, rank: usize) -> bool {
        let is_awake = self.rests[rank].load(Relaxed) <= self.now_ms();
        is_awake && self.comm.first_gone(rank..rank + 1).is_none()
    }

    /// Leaves a rank alone for a while.
    pub(super) fn rest(&self, rank: usize) {
        let until = self.now_ms().saturating_add(u64::try_from(REST.as_millis()).unwrap_or(u64::MAX));
        self.rests[rank].store(until, Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
