//! The blocks of one source in the memory of all ranks.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::SourceId;
use forebay_store::Wait;
use forebay_tier::{
    Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, SourceBlocks, WholeCopy,
};

use super::{
    gets::{PeerGet, find_all, get_all},
    shared::PeerShared,
    table::{BlockName, write_block},
};

/// The blocks of one source.
#[derive(Debug)]
pub(super) struct PeerCopies {
    source: SourceId,
    shared: Arc<PeerShared>,
    is_closed: Arc<AtomicBool>,
}

/// How long peers may take to answer, whatever the reader allows: the origin is the better choice by then.
const PATIENCE: Duration = Duration::from_secs(2);

impl PeerCopies {
    pub(super) fn new(source: &SourceId, shared: &Arc<PeerShared>, is_closed: &Arc<AtomicBool>) -> Self {
        Self { source: source.clone(), shared: Arc::clone(shared), is_closed: Arc::clone(is_closed) }
    }

    fn name(&self, block: u64) -> BlockName {
        BlockName::new(&self.source, block)
    }

    fn is_open(&self) -> bool {
        !self.is_closed.load(SeqCst)
    }

    /// Fills the pieces of blocks that this process has not seen yet and that others have placed.
    fn read_new(&self, pieces: &mut [BlockPiece<'_>], names: &[BlockName], wait: &Wait<'_>) {
        let is_new = |name: &BlockName| !self.shared.is_home(*name) && self.shared.known(*name).is_none();
        let missing = pieces.iter().zip(names).filter(|(piece, _)| !piece.is_filled).map(|(_, name)| *name);
        let new: HashSet<_> = missing.filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        let new: Vec<_> = new.into_iter().collect();
        find_all(&self.shared, &new, wait, |found, bytes| {
            for (piece, _) in pieces.iter_mut().zip(names).filter(|(_, name)| **name == found) {
                let from = usize::try_from(piece.from).unwrap_or(usize::MAX);
                let part = bytes.get(from..).and_then(|bytes| bytes.get(..piece.into.len()));
                if let Some(part) = part {
                    piece.into.copy_from_slice(part);
                    piece.is_filled = true;
                }
            }
        });
    }
}

impl Copies for PeerCopies {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], deadline: Option<Instant>) {
        if !self.is_open() {
            return;
        }
        let left = deadline.map_or(PATIENCE, |deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = Wait::at_most(left.min(PATIENCE));
        let names: Vec<_> = pieces.iter().map(|piece| self.name(piece.block)).collect();
        self.read_new(pieces, &names, &wait);
        let mut gets = Vec::with_capacity(pieces.len());
        for (BlockPiece { from, into, is_filled, .. }, name) in pieces.iter_mut().zip(names) {
            if *is_filled {
                continue;
            }
            let Some(at) = self.shared.known(name).filter(|at| is_inside(*from, into.len(), at.len)) else {
                continue;
            };
            let offset = self.shared.shape.slot_at(at.slot) + *from;
            match into.is_empty() {
                true => *is_filled = true,
                false => gets.push(PeerGet { rank: at.rank, offset, into, is_filled }),
            }
        }
        get_all(&self.shared, &mut gets, &wait);
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        let range = SourceBlocks::new(self.source.len, self.shared.shape.slot_len()).range(block);
        let mut bytes = vec![0u8; usize::try_from(range.len()).ok()?];
        let mut piece = [BlockPiece { block, from: 0, into: &mut bytes, is_filled: false }];
        self.read_many(&mut piece, None);
        let [BlockPiece { is_filled, .. }] = piece;
        is_filled.then(|| bytes.into())
    }

    fn has(&self, block: u64) -> bool {
        self.shared.known(self.name(block)).is_some()
    }

    fn held(&self) -> u64 {
        // Blocks of all sources lie in one table; what each has is not counted apart.
        0
    }

    fn room(&self, block: u64, len: u64) -> Room {
        let name = self.name(block);
        let Some(own) = self.shared.own().filter(|own| !own.is_full()) else { return Room::Full };
        match self.shared.is_home(name) && len <= self.shared.shape.slot_len() && own.has_room(name) {
            true => Room::Free,
            false => Room::NoSlot,
        }
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, _: bool) -> Claim {
        let name = self.name(block);
        if !self.shared.is_home(name) || len > self.shared.shape.slot_len() || !self.is_open() {
            return Claim::Full;
        }
        let Some(mut own) = self.shared.own() else { return Claim::Full };
        let slot = match own.slot_of(name) {
            Some((_, Some(_))) => return Claim::Here,
            Some((_, None)) => return Claim::Busy,
            None => own.reserve(name),
        };
        drop(own);
        let Some(slot) = slot else { return Claim::Full };
        let (shared, is_closed) = (Arc::clone(&self.shared), Arc::clone(&self.is_closed));
        Claim::Held(Box::new(PeerClaim { shared, is_closed, name, slot, is_written: false }))
    }

    fn is_elsewhere(&self, block: u64) -> bool {
        self.is_open() && !self.shared.is_home(self.name(block))
    }

    fn serves_others(&self) -> bool {
        // Peers, and its own forked children.
        self.is_open() && self.shared.is_maker()
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        None
    }

    fn settle(&self) {}
}

/// True when `len` bytes from `from` on lie within a block of `block_len`.
fn is_inside(from: u64, len: usize, block_len: u64) -> bool {
    from.checked_add(len as u64).is_some_and(|end| end <= block_len)
}

/// A slot that is taken for a block.
#[derive(Debug)]
struct PeerClaim {
    shared: Arc<PeerShared>,
    is_closed: Arc<AtomicBool>,
    name: BlockName,
    slot: u64,
    is_written: bool,
}

impl Claimed for PeerClaim {
    fn put(mut self: Box<Self>, bytes: &[u8]) -> Admission {
        let shared = Arc::clone(&self.shared);
        if self.is_closed.load(SeqCst)
            || write_block(&shared.shard, shared.shape, self.slot, self.name, bytes).is_err()
        {
            return Admission::Refused;
        }
        self.is_written = true;
        if let Some(mut own) = shared.own() {
            own.keep(self.slot, bytes.len() as u64);
        }
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<EvictedBlock> {
        Vec::new()
    }
}

impl Drop for PeerClaim {
    fn drop(&mut self) {
        if let Some(mut own) = self.shared.own().filter(|_| !self.is_written) {
            own.release(self.slot);
        }
    }
}
