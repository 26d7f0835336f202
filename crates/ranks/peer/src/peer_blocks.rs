//! The blocks of one source in the memory of all hosts.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::SourceId;
use forebay_store::Wait;
use forebay_tier::{Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, WholeCopy};

use crate::{
    block_digest::{BlockDigest, SourceDigest},
    host_table::EntryClaim,
    peer_gets::{PeerRead, compare_all, find_all, get_all},
    peer_view::{KnownBlock, PeerView},
};

/// The blocks of one source.
#[derive(Debug)]
pub struct PeerBlocks {
    names: SourceDigest,
    view: Arc<PeerView>,
}

/// How long other hosts may take to answer: the file is the better choice by then.
const PATIENCE: Duration = Duration::from_secs(2);

impl PeerBlocks {
    pub(crate) fn new(source: &SourceId, view: &Arc<PeerView>) -> Self {
        Self { names: SourceDigest::new(source), view: Arc::clone(view) }
    }

    /// Looks for `blocks` at the other hosts, so that [`has`](Copies::has) knows of them. Called by the thread that may call the
    /// communicator.
    pub fn find_elsewhere(&self, blocks: impl IntoIterator<Item = u64>) {
        if !self.view.is_open() || !self.view.is_rank() || self.view.other_hosts().next().is_none() {
            return;
        }
        let names = blocks.into_iter().map(|block| self.names.block(block));
        let unknown: Vec<BlockDigest> = names.filter(|name| self.view.locate(*name).is_none()).collect();
        find_all(&self.view, &unknown, &Wait::at_most(PATIENCE));
    }

    /// Fills a piece from this host's part, which is compared with its checksum the first time.
    fn read_own(&self, name: BlockDigest, block: KnownBlock, piece: &mut BlockPiece<'_>) {
        let Some(table) = self.view.own_table() else { return };
        if !block.is_compared {
            if !table.is_right(block.place) {
                self.view.stats.fault();
                return;
            }
            self.view.remember(name, KnownBlock { is_compared: true, ..block });
        }
        if table.copy_to(block.place, piece.from, piece.into).is_ok() {
            piece.is_filled = true;
            if block.place.placer != std::process::id() {
                self.view.stats.of_host(piece.into.len() as u64);
            }
        }
    }

    /// Fills pieces of other hosts whose blocks were compared.
    fn read_compared(&self, pieces: &mut [BlockPiece<'_>], places: &[(usize, KnownBlock)], wait: &Wait<'_>) {
        let mut places = places.iter().peekable();
        let mut gets = Vec::new();
        for (index, BlockPiece { from, into, is_filled, .. }) in pieces.iter_mut().enumerate() {
            if let Some((_, block)) = places.next_if(|(at, _)| *at == index) {
                let offset = self.view.hosts[block.host].shape.slot_at(block.place.slot) + *from;
                gets.push(PeerRead { host: block.host, offset, into, is_filled });
            }
        }
        get_all(&self.view, &mut gets, wait);
        let filled = gets.iter().filter(|get| *get.is_filled).map(|get| get.into.len() as u64);
        self.view.stats.remote(filled.sum());
    }

    /// Fills pieces of other hosts whose blocks are read as a whole, this once, and compared.
    fn read_new(
        &self,
        pieces: &mut [BlockPiece<'_>],
        new: &HashMap<BlockDigest, KnownBlock>,
        wait: &Wait<'_>,
    ) {
        let blocks: Vec<(BlockDigest, KnownBlock)> =
            new.iter().map(|(name, block)| (*name, *block)).collect();
        compare_all(&self.view, &blocks, wait, |found, bytes| {
            self.view.stats.remote(bytes.len() as u64);
            for piece in pieces.iter_mut().filter(|piece| !piece.is_filled) {
                let part = usize::try_from(piece.from).ok().and_then(|from| bytes.get(from..));
                let part = part.and_then(|bytes| bytes.get(..piece.into.len()));
                if let Some(part) = part.filter(|_| self.names.block(piece.block) == found) {
                    piece.into.copy_from_slice(part);
                    piece.is_filled = true;
                }
            }
        });
    }
}

impl Copies for PeerBlocks {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], deadline: Option<Instant>) {
        let (mut compared, mut new) = (Vec::new(), HashMap::new());
        for (index, piece) in pieces.iter_mut().enumerate().filter(|(_, piece)| !piece.is_filled) {
            let name = self.names.block(piece.block);
            let is_inside = |block: &KnownBlock| {
                piece.from.checked_add(piece.into.len() as u64).is_some_and(|end| end <= block.place.len)
            };
            match self.view.locate(name).filter(is_inside) {
                None => {}
                Some(_) if piece.into.is_empty() => piece.is_filled = true,
                Some(block) if block.host == self.view.own => self.read_own(name, block, piece),
                Some(block) if block.is_compared => compared.push((index, block)),
                Some(block) => drop(new.insert(name, block)),
            }
        }
        if !self.view.is_open() || (compared.is_empty() && new.is_empty()) {
            return;
        }
        let left = deadline.map_or(PATIENCE, |deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = Wait::at_most(left.min(PATIENCE));
        self.read_compared(pieces, &compared, &wait);
        self.read_new(pieces, &new, &wait);
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        let known = self.view.locate(self.names.block(block))?;
        let mut bytes = vec![0_u8; usize::try_from(known.place.len).ok()?];
        let mut piece = [BlockPiece { block, from: 0, into: &mut bytes, is_filled: false }];
        self.read_many(&mut piece, None);
        let [BlockPiece { is_filled, .. }] = piece;
        is_filled.then(|| bytes.into())
    }

    fn has(&self, block: u64) -> bool {
        self.view.is_open() && self.view.locate(self.names.block(block)).is_some()
    }

    fn held(&self) -> u64 {
        // Blocks of all sources lie in one table; what each has is not counted apart.
        0
    }

    fn room(&self, _: u64, len: u64) -> Room {
        let slot_len = self.view.hosts[self.view.own].shape.slot_len;
        let has_room = self.view.own_table().is_some_and(|table| table.has_room());
        if has_room && self.view.is_rank() && len <= slot_len { Room::Free } else { Room::Full }
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, _: bool) -> Claim {
        if self.room(block, len) != Room::Free {
            return if self.has(block) { Claim::Here } else { Claim::Full };
        }
        let name = self.names.block(block);
        let Some(table) = self.view.own_table() else { return Claim::Full };
        match table.claim(name) {
            EntryClaim::Held(entry) => {
                let view = Arc::clone(&self.view);
                Claim::Held(Box::new(EntryHold { view, name, entry, is_written: false }))
            }
            EntryClaim::Busy => Claim::Busy,
            EntryClaim::Here => Claim::Here,
            EntryClaim::Full => Claim::Full,
        }
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        None
    }

    fn is_elsewhere(&self, _: u64) -> bool {
        false
    }

    fn serves_others(&self) -> bool {
        self.view.is_open() && self.view.is_rank()
    }

    fn settle(&self) {}
}

/// An entry that is claimed for a block.
#[derive(Debug)]
struct EntryHold {
    view: Arc<PeerView>,
    name: BlockDigest,
    entry: u64,
    is_written: bool,
}

impl Claimed for EntryHold {
    fn put(mut self: Box<Self>, bytes: &[u8]) -> Admission {
        let view = Arc::clone(&self.view);
        let Some(place) = view.host_table().and_then(|table| table.place(self.entry, self.name, bytes))
        else {
            return Admission::Refused;
        };
        self.is_written = true;
        view.stats.placed(place.len);
        view.remember(self.name, KnownBlock { host: view.own, place, is_compared: true });
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<EvictedBlock> {
        Vec::new()
    }
}

impl Drop for EntryHold {
    fn drop(&mut self) {
        if self.is_written || !self.view.is_rank() {
            return;
        }
        if let Some(table) = self.view.host_table() {
            table.release(self.entry);
        }
    }
}
