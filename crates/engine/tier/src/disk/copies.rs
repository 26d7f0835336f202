//! The contract of a tier's copies, kept by a mirror.

use std::{
    os::unix::fs::FileExt,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

use bytes::Bytes;
use forebay_scratch::ByteLock;

use super::{
    mirror_copies::{MOST_TIMES_WRONG, MirrorCopies},
    mirror_descriptors::OpenMirror,
    read_run::PieceRun,
    sealed_mirror::SealedMirror,
};
use crate::tier::{Admission, BlockPiece, Claim, Claimed, Copies, EvictedBlock, Room, WholeCopy};

/// Room for one block, and the OFD lock that keeps other processes from fetching it.
#[derive(Debug)]
struct MirrorClaim {
    copies: Arc<MirrorCopies>,
    opened: OpenMirror,
    _lock: ByteLock,
    block: u64,
    /// What is given back: nothing once the block is there.
    len: u64,
}

impl Claimed for MirrorClaim {
    fn put(mut self: Box<Self>, bytes: &[u8]) -> Admission {
        let (opened, range) = (self.opened.clone(), self.copies.mirror.blocks.range(self.block));
        let (files, descriptors) = (&*opened.files, &*opened.descriptors);
        // A mirror that was removed meanwhile takes no room any more, and must not be counted.
        if self.copies.shared.is_closed() || range.len() != bytes.len() as u64 || !descriptors.is_named() {
            return Admission::Refused;
        }
        // The mark after the bytes: a process that sees it sees them.
        let written = descriptors
            .bytes
            .write_all_at(bytes, range.start)
            .and_then(|()| files.layout.set(&descriptors.map, self.block, crc32c::crc32c(bytes)));
        if written.is_err() {
            self.copies.shared.fault();
            return Admission::Refused;
        }
        self.copies.shared.counter.placed(self.len);
        self.len = 0;
        if !descriptors.is_named() {
            // Removed while it was written: whether it was counted is not known, so the next process that is alone counts.
            self.copies.shared.counter.mark_inexact();
        }
        self.copies.know(&opened, self.block);
        self.copies.settle_if_complete(&opened);
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<EvictedBlock> {
        Vec::new()
    }
}

impl Drop for MirrorClaim {
    fn drop(&mut self) {
        if self.len > 0 {
            self.copies.shared.counter.cancel(self.len);
        }
    }
}

impl Copies for MirrorCopies {
    fn read_many(&self, pieces: &mut [BlockPiece<'_>], deadline: Option<Instant>) {
        let Some(opened) = self.opened() else { return };
        let (mut rest, mut is_first, mut filled) = (&mut *pieces, true, 0);
        while !rest.is_empty() {
            // The clock costs as much as a small read: it is looked at before every request but the first.
            if !is_first && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let (count, run) = self.next_run(&opened, rest);
            let (now, after) = rest.split_at_mut(count);
            match run {
                PieceRun::PassedOver => {}
                PieceRun::Durable => self.read_run(&opened, now, deadline),
                PieceRun::Unsynced => now.iter_mut().for_each(|piece| self.read_unsynced(&opened, piece)),
            }
            if run != PieceRun::PassedOver {
                filled += now.iter().filter(|piece| piece.is_filled).count() as u64;
                is_first = false;
            }
            rest = after;
        }
        self.count_reads(filled);
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        self.load(&self.opened()?, block)
    }

    fn has(&self, block: u64) -> bool {
        let Some(opened) = self.opened() else { return false };
        opened.knows(block) || opened.files.layout.get(&opened.descriptors.map, block).is_some()
    }

    fn held(&self) -> u64 {
        let present = |opened: OpenMirror| {
            opened.files.layout.present_bytes(&opened.descriptors.map, self.mirror.blocks)
        };
        let own = self.opened().map_or(0, present);
        own.saturating_add(self.shared.superseded_bytes(&self.mirror.id, self.mirror.name))
    }

    fn room(&self, _: u64, len: u64) -> Room {
        if self.shared.is_free(len) || self.shared.has_outdated(self.mirror.name, len) {
            return Room::Free;
        }
        if self.may_replace() && self.shared.would_evict_for(self.mirror.name, len, || self.newcomer()) {
            return Room::ByEvicting;
        }
        Room::Full
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, may_replace: bool) -> Claim {
        if self.shared.is_closed() || self.mirror.wrong_times.load(Relaxed) >= MOST_TIMES_WRONG {
            return Claim::Full;
        }
        let Some(opened) = self.growing() else { return Claim::Full };
        if opened.knows(block) {
            return Claim::Here;
        }
        let map = &opened.descriptors.map;
        let Some(lock) = ByteLock::take(Arc::clone(map), block) else { return Claim::Busy };
        if opened.files.layout.get(map, block).is_some() {
            return Claim::Here;
        }
        let may_replace = may_replace && self.may_replace();
        let is_reserved = self.shared.take(len)
            || self.shared.take_from_outdated(self.mirror.name, len)
            || may_replace && self.shared.reserve_by_evicting(self.mirror.name, len, || self.newcomer());
        if !is_reserved {
            return Claim::Full;
        }
        Claim::Held(Box::new(MirrorClaim { copies: self, opened, _lock: lock, block, len }))
    }

    fn whole(&self) -> Option<Arc<dyn WholeCopy>> {
        let file = self.sealed_file()?;
        Some(Arc::new(SealedMirror { copies: self.clone(), file }))
    }

    fn is_elsewhere(&self, _: u64) -> bool {
        false
    }

    fn serves_others(&self) -> bool {
        false
    }

    fn settle(&self) {
        self.settle_later();
    }
}
