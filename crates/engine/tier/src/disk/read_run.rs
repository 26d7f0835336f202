//! Runs of pieces: neighbours in the file are read by one `preadv`.

use std::{
    io::{self, IoSliceMut},
    os::unix::fs::FileExt,
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use super::{mirror_copies::MirrorCopies, mirror_descriptors::OpenMirror, writeback::Writeback};
use crate::tier::BlockPiece;

/// How the next pieces of a read are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceRun {
    /// Not at all: they are filled, or reach past the end of their block.
    PassedOver,
    /// From the file as it is: their blocks are right and on the disk, and they lie side by side.
    Durable,
    /// With a check: their blocks may not have reached the disk, or were not compared yet.
    Unsynced,
}

/// The most pieces of one `preadv`: longer runs gain nothing that shows.
const MOST_IN_RUN: usize = 16;

/// After this many reads of blocks that may not have reached the disk, a mirror is synced.
const READS_PER_SYNC: u32 = 64;

impl MirrorCopies {
    /// How many of `pieces` are served at once from the first on, and how.
    pub(super) fn next_run(&self, opened: &OpenMirror, pieces: &[BlockPiece<'_>]) -> (usize, PieceRun) {
        let Some(first) = pieces.first() else { return (0, PieceRun::PassedOver) };
        if first.is_filled || !self.is_inside(first) {
            return (1, PieceRun::PassedOver);
        }
        if !opened.files.is_durable(first.block) {
            return (1, PieceRun::Unsynced);
        }
        let (mut count, mut end) = (1, self.start_of(first) + first.into.len() as u64);
        for piece in pieces.iter().take(MOST_IN_RUN).skip(1) {
            let is_next = !piece.is_filled && self.is_inside(piece) && self.start_of(piece) == end;
            if !is_next || !opened.files.is_durable(piece.block) {
                break;
            }
            (count, end) = (count + 1, end + piece.into.len() as u64);
        }
        (count, PieceRun::Durable)
    }

    fn is_inside(&self, piece: &BlockPiece<'_>) -> bool {
        let len = self.mirror.blocks.range(piece.block).len();
        piece.from.checked_add(piece.into.len() as u64).is_some_and(|end| end <= len)
    }

    fn start_of(&self, piece: &BlockPiece<'_>) -> u64 {
        self.mirror.blocks.range(piece.block).start + piece.from
    }

    /// Fills `run`, whose pieces lie side by side in the file; no piece is begun by itself once `deadline` has passed.
    pub(super) fn read_run(
        &self,
        opened: &OpenMirror,
        run: &mut [BlockPiece<'_>],
        deadline: Option<Instant>,
    ) {
        let has_several = run.len() > 1;
        if has_several && self.read_vectored(opened, run).is_ok() {
            return run.iter_mut().for_each(|piece| piece.is_filled = true);
        }
        // One by one, also where the vectored read fell short: the block that the disk lost is then known.
        for piece in run {
            if has_several && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return;
            }
            piece.is_filled = self.read_at(opened, piece);
        }
    }

    fn read_vectored(&self, opened: &OpenMirror, run: &mut [BlockPiece<'_>]) -> io::Result<()> {
        let Some(at) = run.first().map(|first| self.start_of(first)) else { return Ok(()) };
        let len: usize = run.iter().map(|piece| piece.into.len()).sum();
        let mut slices: [IoSliceMut<'_>; MOST_IN_RUN] = std::array::from_fn(|_| IoSliceMut::new(&mut []));
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(run) {
            *slice = IoSliceMut::new(piece.into);
            count += 1;
        }
        let read = rustix::io::preadv(&opened.descriptors.bytes, &mut slices[..count], at)?;
        if read == len { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn read_at(&self, opened: &OpenMirror, piece: &mut BlockPiece<'_>) -> bool {
        match opened.descriptors.bytes.read_exact_at(piece.into, self.start_of(piece)) {
            Ok(()) => true,
            Err(error) => {
                self.fail_block(opened, piece.block, &error);
                false
            }
        }
    }

    /// Fills `piece`, whose block was right when it was written or last compared, and may not be on the disk yet.
    pub(super) fn read_unsynced(&self, opened: &OpenMirror, piece: &mut BlockPiece<'_>) {
        let reads = opened.files.unsynced_reads.fetch_add(1, Relaxed);
        if reads.is_multiple_of(READS_PER_SYNC) && reads > 0 {
            opened.files.sync_later();
        }
        if opened.is_right(piece.block) && self.read_at(opened, piece) {
            // Asked after the read: pages that were lost by then were reported before they could be read.
            match opened.descriptors.ask() {
                Writeback::Sound => {
                    piece.is_filled = true;
                    return;
                }
                Writeback::Failed => return self.shared.lose(opened),
                Writeback::Unknown => {}
            }
        }
        let Some(bytes) = self.load(opened, piece.block) else { return };
        let from = usize::try_from(piece.from).ok();
        let part = from.and_then(|from| bytes.get(from..from.checked_add(piece.into.len())?));
        if let Some(part) = part {
            piece.into.copy_from_slice(part);
            piece.is_filled = true;
        }
    }
}
