//! What one rank knows of the parts of all hosts.

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
    host_table::{HostTable, HostTableShape, SlotPlace},
    peer_stats::PeerStats,
};

/// The part of one host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPart {
    /// The rank whose shard it is.
    pub(crate) leader: usize,
    pub(crate) shape: HostTableShape,
}

/// A block that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownBlock {
    /// The index of its host.
    pub(crate) host: usize,
    pub(crate) place: SlotPlace,
    /// Its bytes were compared with their checksum.
    pub(crate) is_compared: bool,
}

/// What all sources of the cache share.
#[derive(Debug)]
pub(crate) struct PeerView {
    pub(crate) comm: Arc<dyn Comm>,
    pub(crate) window: Arc<dyn Window>,
    pub(crate) hosts: Vec<HostPart>,
    /// The index of this host.
    pub(crate) own: usize,
    pub(crate) stats: &'static PeerStats,
    is_closed: AtomicBool,
    /// The process that is the rank. A forked child reads what its host has, and asks no other: it is no rank.
    rank_process: ProcessIdentity,
    known: PerProcess<RwLock<HashMap<BlockDigest, KnownBlock>>>,
    made: Instant,
    /// Until when each host is left alone, in milliseconds after `made`.
    rests: Vec<AtomicU64>,
}

/// How long a host that did not answer is left alone: a reader waits for it once, and then no more for a while.
const REST: Duration = Duration::from_secs(10);

impl PeerView {
    pub(crate) fn new(
        comm: Arc<dyn Comm>,
        window: Arc<dyn Window>,
        hosts: Vec<HostPart>,
        stats: &'static PeerStats,
    ) -> Self {
        let is_own = |part: &HostPart| comm.host_of(part.leader) == comm.host_of(comm.rank());
        Self {
            own: hosts.iter().position(is_own).unwrap_or(0),
            rests: hosts.iter().map(|_| AtomicU64::new(0)).collect(),
            comm,
            window,
            hosts,
            stats,
            is_closed: AtomicBool::new(false),
            rank_process: current_process(),
            known: PerProcess::empty(),
            made: Instant::now(),
        }
    }

    /// The table of this host; `None` once the cache is closed, and where this host has none.
    pub(crate) fn own_table(&self) -> Option<HostTable<'_>> {
        self.host_table().filter(|_| self.is_open())
    }

    /// The same, also of a cache that was closed: its memory stays with its host.
    pub(crate) fn host_table(&self) -> Option<HostTable<'_>> {
        let HostPart { leader, shape } = self.hosts[self.own];
        HostTable::of(self.window.shared(leader)?, shape)
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed.load(SeqCst)
    }

    /// True the first time.
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, SeqCst)
    }

    /// True where this process may place blocks and ask other hosts.
    pub(crate) fn is_rank(&self) -> bool {
        self.rank_process == current_process()
    }

    /// Where a block is, as far as is known without asking other hosts.
    pub(crate) fn locate(&self, name: BlockDigest) -> Option<KnownBlock> {
        self.known(name).or_else(|| {
            let place = self.own_table()?.find(name)?;
            Some(KnownBlock { host: self.own, place, is_compared: false })
        })
    }

    /// What is remembered of a block.
    pub(crate) fn known(&self, name: BlockDigest) -> Option<KnownBlock> {
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

    /// The other hosts that can be asked: their leaders run, and have answered of late.
    pub(crate) fn other_hosts(&self) -> impl Iterator<Item = usize> {
        let is_asked = move |host: &usize| *host != self.own && self.answers(*host);
        (0..self.hosts.len()).filter(is_asked)
    }

    /// True when the host at `index` can be asked.
    pub(crate) fn answers(&self, index: usize) -> bool {
        let HostPart { leader, shape } = self.hosts[index];
        let is_awake = self.rests[index].load(Relaxed) <= self.now_ms();
        shape.slots > 0 && is_awake && self.comm.first_gone(leader..leader + 1).is_none()
    }

    /// Leaves a host alone for a while.
    pub(crate) fn rest(&self, index: usize) {
        let until = self.now_ms().saturating_add(u64::try_from(REST.as_millis()).unwrap_or(u64::MAX));
        self.rests[index].store(until, Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
