//! The blocks of one source in the memory of all ranks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_source::SourceId;
use forebay_store::Wait;
use forebay_tier::{Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, WholeCopy};

use crate::{
    block_digest::{BlockDigest, SourceDigest},
    block_table::EntryClaim,
    peer_gets::{PeerRead, compare_all, find_all, get_all},
    placed_by::PlacedBy,
    table_use::TableUse,
    table_view::{KnownBlock, TableView},
};

/// The blocks of one source.
#[derive(Debug)]
pub struct PeerBlocks {
    names: SourceDigest,
    table: TableUse,
}

/// How long other ranks may take to answer, whatever the reader allows: the origin is the better choice by then.
const PATIENCE: Duration = Duration::from_secs(2);

impl PeerBlocks {
    pub(crate) fn new(source: &SourceId, table: &TableUse) -> Self {
        Self { names: SourceDigest::new(source), table: table.clone() }
    }

    fn view(&self) -> &Arc<TableView> {
        &self.table.view
    }

    /// Looks for `blocks` in the parts of other ranks, so that [`has`](Copies::has) knows of them. Called by the thread that may call
    /// the communicator.
    pub fn find_elsewhere(&self, blocks: impl IntoIterator<Item = u64>) {
        if self.table.is_open() && self.view().is_rank() {
            let names = blocks.into_iter().map(|block| self.names.block(block));
            look_up(self.view(), names, &Wait::at_most(PATIENCE));
        }
    }

    /// True when a block of `len` bytes fits into a slot.
    fn fits(&self, len: u64) -> bool {
        let view = self.view();
        len <= view.parts[view.own].shape.slot_len
    }

    /// Fills a piece from this rank's own part, which is compared with its checksum the first time.
    fn read_own(&self, name: BlockDigest, block: KnownBlock, piece: &mut BlockPiece<'_>) {
        let (view, Some(table)) = (self.view(), self.table.own_table()) else { return };
        if !block.is_compared {
            if !table.is_right(block.place) {
                view.stats.fault();
                return;
            }
            view.remember(name, KnownBlock { is_compared: true, ..block });
        }
        if table.copy_to(block.place, piece.from, piece.into).is_ok() {
            piece.is_filled = true;
            if block.place.placer != std::process::id() {
                view.stats.of_host(piece.into.len() as u64);
            }
        }
    }

    /// Fills pieces of other parts whose blocks were compared.
    fn read_compared(&self, pieces: &mut [BlockPiece<'_>], places: &[(usize, KnownBlock)], wait: &Wait<'_>) {
        let (view, mut places) = (self.view(), places.iter().peekable());
        let mut gets = Vec::with_capacity(places.len());
        for (index, BlockPiece { from, into, is_filled, .. }) in pieces.iter_mut().enumerate() {
            if let Some((_, block)) = places.next_if(|(at, _)| *at == index) {
                let offset = view.parts[block.part].shape.slot_at(block.place.slot) + *from;
                gets.push(PeerRead { part: block.part, offset, into, is_filled });
            }
        }
        get_all(view, &mut gets, wait);
        let filled = gets.iter().filter(|get| *get.is_filled).map(|get| get.into.len() as u64);
        view.stats.remote(filled.sum());
    }

    /// Fills pieces of other parts whose blocks are read as a whole, this once, and compared.
    fn read_new(
        &self,
        (pieces, names): (&mut [BlockPiece<'_>], &[BlockDigest]),
        new: &HashMap<BlockDigest, KnownBlock>,
        wait: &Wait<'_>,
    ) {
        let blocks: Vec<(BlockDigest, KnownBlock)> =
            new.iter().map(|(name, block)| (*name, *block)).collect();
        compare_all(self.view(), &blocks, wait, |found, bytes| {
            self.view().stats.remote(bytes.len() as u64);
            let is_of_it =
                |(piece, name): &(&mut BlockPiece<'_>, &BlockDigest)| !piece.is_filled && **name == found;
            for (piece, _) in pieces.iter_mut().zip(names).filter(is_of_it) {
                let part = usize::try_from(piece.from).ok().and_then(|from| bytes.get(from..));
                if let Some(part) = part.and_then(|bytes| bytes.get(..piece.into.len())) {
                    piece.into.copy_from_slice(part);
                    piece.is_filled = true;
                }
            }
        });
    }
}

/// Looks for those of `names` that are not known.
fn look_up(view: &TableView, names: impl IntoIterator<Item = BlockDigest>, wait: &Wait<'_>) {
    if view.parts.len() > 1 {
        let unknown: HashSet<BlockDigest> =
            names.into_iter().filter(|name| view.locate(*name).is_none()).collect();
        find_all(view, &unknown, wait);
    }
}

impl Copies for PeerBlocks {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], deadline: Option<Instant>) {
        if !self.table.is_open() {
            return;
        }
        let (view, mut compared, mut new) = (self.view(), Vec::new(), HashMap::new());
        let left = deadline.map_or(PATIENCE, |deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = Wait::at_most(left.min(PATIENCE));
        let names: Vec<BlockDigest> = pieces.iter().map(|piece| self.names.block(piece.block)).collect();
        if view.placed_by.looks_up_on_read() {
            let missing = pieces.iter().zip(&names).filter(|(piece, _)| !piece.is_filled);
            look_up(view, missing.map(|(_, name)| *name), &wait);
        }
        for (index, (piece, name)) in pieces.iter_mut().zip(&names).enumerate() {
            let is_inside = |block: &KnownBlock| {
                piece.from.checked_add(piece.into.len() as u64).is_some_and(|end| end <= block.place.len)
            };
            match view.locate(*name).filter(|block| !piece.is_filled && is_inside(block)) {
                None => {}
                Some(_) if piece.into.is_empty() => piece.is_filled = true,
                Some(block) if block.part == view.own => self.read_own(*name, block, piece),
                Some(block) if block.is_compared => compared.push((index, block)),
                Some(block) => drop(new.insert(*name, block)),
            }
        }
        self.read_compared(pieces, &compared, &wait);
        self.read_new((pieces, &names), &new, &wait);
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        let (view, name) = (self.view(), self.names.block(block));
        if view.placed_by.looks_up_on_read() && self.table.is_open() {
            look_up(view, [name], &Wait::at_most(PATIENCE));
        }
        let mut bytes = vec![0_u8; usize::try_from(view.locate(name)?.place.len).ok()?];
        let mut piece = [BlockPiece { block, from: 0, into: &mut bytes, is_filled: false }];
        self.read_many(&mut piece, None);
        let [BlockPiece { is_filled, .. }] = piece;
        is_filled.then(|| bytes.into())
    }

    fn has(&self, block: u64) -> bool {
        self.table.is_open() && self.view().locate(self.names.block(block)).is_some()
    }

    fn held(&self) -> u64 {
        // Blocks of all sources lie in one table; what each has is not counted apart.
        0
    }

    fn room(&self, block: u64, len: u64) -> Room {
        let (view, name) = (self.view(), self.names.block(block));
        match self.table.own_table().filter(|table| view.is_rank() && table.has_room()) {
            None => Room::Full,
            Some(table) if self.fits(len) && view.places(name) && table.has_entry(name) => Room::Free,
            Some(_) => Room::NoSlot,
        }
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, _: bool) -> Claim {
        let (view, name) = (self.view(), self.names.block(block));
        let own = self.table.own_table().filter(|table| table.has_room());
        let claimed = match own.filter(|_| view.places(name) && self.fits(len)) {
            Some(table) => table.claim(name, view.placed_by.abandoned_s()),
            None => EntryClaim::Full,
        };
        match claimed {
            EntryClaim::Held(entry) => {
                let view = Arc::clone(view);
                Claim::Held(Box::new(EntryHold { view, name, entry, is_written: false }))
            }
            EntryClaim::Busy => Claim::Busy,
            EntryClaim::Here => Claim::Here,
            EntryClaim::Full if self.has(block) => Claim::Here,
            EntryClaim::Full => Claim::Full,
        }
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        None
    }

    fn is_elsewhere(&self, block: u64) -> bool {
        let view = self.view();
        view.placed_by == PlacedBy::HomeRank && self.table.is_open() && !view.places(self.names.block(block))
    }

    fn serves_others(&self) -> bool {
        // Peers, and forked children of this process.
        self.table.is_open() && self.view().is_rank()
    }

    fn settle(&self) {}
}

/// An entry that is claimed for a block.
#[derive(Debug)]
struct EntryHold {
    view: Arc<TableView>,
    name: BlockDigest,
    entry: u64,
    is_written: bool,
}

impl Claimed for EntryHold {
    fn put(mut self: Box<Self>, bytes: &[u8]) -> Admission {
        let view = Arc::clone(&self.view);
        let Some(place) = view.own_table().and_then(|table| table.place(self.entry, self.name, bytes)) else {
            return Admission::Refused;
        };
        self.is_written = true;
        view.stats.placed(place.len);
        view.remember(self.name, KnownBlock { part: view.own, place, is_compared: true });
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
        if let Some(table) = self.view.own_table() {
            table.release(self.entry);
        }
    }
}
