//! The blocks of one source in the memory of all ranks.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::SourceId;
use forebay_store::{Wait, WindowPiece, WindowRead};
use forebay_tier::{Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, WholeCopy};

use super::{
    shared::PeerShared,
    table::{BlockName, ENTRY_LEN, PeerSlot, TableEntry, write_block},
};

/// The blocks of one source.
#[derive(Debug)]
pub(super) struct PeerCopies {
    source: SourceId,
    shared: Arc<PeerShared>,
    is_closed: Arc<AtomicBool>,
}

/// How long a peer may take to answer where the reader sets no limit: the origin is the better choice by then.
const PATIENCE: Duration = Duration::from_secs(2);

impl PeerCopies {
    pub(super) fn new(source: &SourceId, shared: &Arc<PeerShared>, is_closed: &Arc<AtomicBool>) -> Self {
        Self { source: source.clone(), shared: Arc::clone(shared), is_closed: Arc::clone(is_closed) }
    }

    fn name(&self, block: u64) -> BlockName {
        BlockName::new(&self.source, block)
    }

    fn is_home(&self, name: BlockName) -> bool {
        name.home(self.shared.comm.size()) == self.shared.comm.rank()
    }

    /// Where a block is, as far as this rank knows.
    fn known(&self, name: BlockName) -> Option<PeerSlot> {
        if self.is_home(name) {
            let own = self.shared.own.lock().unwrap_or_else(PoisonError::into_inner);
            let (slot, is_written) = own.slot_of(name)?;
            return is_written.then_some(PeerSlot {
                rank: self.shared.comm.rank(),
                slot,
                len: self.shared.shape.slot_len(),
            });
        }
        self.shared.known.read().unwrap_or_else(PoisonError::into_inner).get(&name).copied()
    }

    /// Where a block of another rank is: its table is read, and the block compared with its checksum, once.
    fn find(&self, name: BlockName, wait: &Wait<'_>) -> Option<PeerSlot> {
        let rank = name.home(self.shared.comm.size());
        if self.is_home(name) || self.shared.comm.first_gone(rank..rank + 1).is_some() {
            return None;
        }
        let shape = self.shared.shape;
        let slots: Vec<u64> = shape.probed(name).collect();
        let mut entries = vec![0u8; slots.len() * ENTRY_LEN];
        let offsets = slots.iter().map(|slot| shape.entry_at(*slot));
        self.read(rank, offsets.zip(entries.chunks_exact_mut(ENTRY_LEN)), wait)?;
        let found = entries.chunks_exact(ENTRY_LEN).map(TableEntry::parse).zip(slots);
        let (entry, slot) = found
            .into_iter()
            .find_map(|(entry, slot)| Some((entry.filter(|entry| entry.name == name)?, slot)))?;
        let len = usize::try_from(entry.len.min(shape.slot_len())).ok()?;
        let mut bytes = vec![0u8; len];
        self.read(rank, [(shape.slot_at(slot), &mut bytes[..])], wait)?;
        if crc32c::crc32c(&bytes) != entry.checksum {
            self.shared.faults.fetch_add(1, Relaxed);
            return None;
        }
        let found = PeerSlot { rank, slot, len: entry.len };
        self.shared.known.write().unwrap_or_else(PoisonError::into_inner).insert(name, found);
        Some(found)
    }

    /// Reads parts of a rank's table; nothing where that fails, which is counted.
    fn read<'a>(
        &self,
        rank: usize,
        pieces: impl IntoIterator<Item = (u64, &'a mut [u8])>,
        wait: &Wait<'_>,
    ) -> Option<()> {
        let pieces = pieces.into_iter().map(|(offset, into)| WindowPiece { offset, into });
        let outcome = match self.shared.window.shared(rank) {
            Some(shard) => pieces.into_iter().try_for_each(|piece| shard.copy_to(piece.offset, piece.into)),
            None => {
                let mut reads = [WindowRead { rank, pieces: pieces.collect(), outcome: Ok(()) }];
                self.shared.window.get(&mut reads, wait);
                let [read] = reads;
                read.outcome
            }
        };
        if outcome.is_err() {
            self.shared.faults.fetch_add(1, Relaxed);
        }
        outcome.ok()
    }
}

impl Copies for PeerCopies {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], deadline: Option<Instant>) {
        if self.is_closed.load(SeqCst) {
            return;
        }
        for piece in pieces.iter_mut().filter(|piece| !piece.is_filled) {
            let left =
                deadline.map_or(PATIENCE, |deadline| deadline.saturating_duration_since(Instant::now()));
            let wait = Wait::at_most(left);
            let name = self.name(piece.block);
            let Some(at) = self.known(name).or_else(|| self.find(name, &wait)) else { continue };
            let is_inside = piece.from.checked_add(piece.into.len() as u64).is_some_and(|end| end <= at.len);
            if is_inside {
                let offset = self.shared.shape.slot_at(at.slot) + piece.from;
                piece.is_filled = self.read(at.rank, [(offset, &mut *piece.into)], &wait).is_some();
            }
        }
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        let range =
            forebay_tier::SourceBlocks::new(self.source.len, self.shared.shape.slot_len()).range(block);
        let mut bytes = vec![0u8; usize::try_from(range.len()).ok()?];
        let mut piece = [BlockPiece { block, from: 0, into: &mut bytes, is_filled: false }];
        self.read_many(&mut piece, None);
        let [BlockPiece { is_filled, .. }] = piece;
        is_filled.then(|| bytes.into())
    }

    fn has(&self, block: u64) -> bool {
        self.known(self.name(block)).is_some()
    }

    fn held(&self) -> u64 {
        // Blocks of all sources lie in one table; what each has is not counted apart.
        0
    }

    fn room(&self, block: u64, len: u64) -> Room {
        let name = self.name(block);
        let own = self.shared.own.lock().unwrap_or_else(PoisonError::into_inner);
        match self.is_home(name) && len <= self.shared.shape.slot_len() && own.has_room(name) {
            true => Room::Free,
            false => Room::Full,
        }
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, _: bool) -> Claim {
        let name = self.name(block);
        let is_open = !self.is_closed.load(SeqCst) && self.shared.maker == std::process::id();
        if !self.is_home(name) || len > self.shared.shape.slot_len() || !is_open {
            return Claim::Full;
        }
        let mut own = self.shared.own.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match own.slot_of(name) {
            Some((_, true)) => return Claim::Here,
            Some((_, false)) => return Claim::Busy,
            None => own.reserve(name),
        };
        drop(own);
        let Some(slot) = slot else { return Claim::Full };
        let (shared, is_closed) = (Arc::clone(&self.shared), Arc::clone(&self.is_closed));
        Claim::Held(Box::new(PeerClaim { shared, is_closed, name, slot, is_written: false }))
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        None
    }

    fn settle(&self) {}
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
    fn put(mut self: Box<Self>, bytes: &Bytes) -> Admission {
        let shared = Arc::clone(&self.shared);
        if self.is_closed.load(SeqCst)
            || write_block(&shared.shard, shared.shape, self.slot, self.name, bytes).is_err()
        {
            return Admission::Refused;
        }
        self.is_written = true;
        shared.own.lock().unwrap_or_else(PoisonError::into_inner).keep(self.slot, bytes.len() as u64);
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<EvictedBlock> {
        Vec::new()
    }
}

impl Drop for PeerClaim {
    fn drop(&mut self) {
        if !self.is_written {
            self.shared.own.lock().unwrap_or_else(PoisonError::into_inner).release(self.slot);
        }
    }
}
