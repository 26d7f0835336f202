//! What was accepted for a file and is not drained yet, newest first.

use std::{collections::BTreeMap, sync::Arc};

use crate::update::segment::LogSegment;

/// Bytes of the file that lie in a segment of the log.
#[derive(Clone, Debug)]
pub(crate) struct PendingPiece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) sequence: u64,
    /// The number of the segment in the log: the segment itself may be recycled under another.
    pub(crate) number: u32,
    pub(crate) segment: Arc<LogSegment>,
    /// Where the bytes begin in the segment.
    pub(crate) position: u64,
}

impl PendingPiece {
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// The part from `start` to `end`, both inside it.
    pub(crate) fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, position: self.position + (start - self.start), ..self.clone() }
    }
}

/// The newest accepted bytes, by where they go: pieces never overlap.
#[derive(Debug, Default)]
pub(crate) struct PendingMap {
    pieces: BTreeMap<u64, PendingPiece>,
    bytes: u64,
}

impl PendingMap {
    /// Adds `piece` over what was accepted before; gives how many older pieces it replaced as a whole.
    pub(crate) fn insert(&mut self, piece: PendingPiece) -> u64 {
        let replaced = self.clear(piece.start, piece.end);
        self.bytes += piece.len();
        self.pieces.insert(piece.start, piece);
        replaced
    }

    fn clear(&mut self, start: u64, end: u64) -> u64 {
        let mut replaced = 0;
        while let Some((&at, found)) = self.pieces.range(..end).next_back() {
            if found.end <= start {
                break;
            }
            let found = found.clone();
            self.pieces.remove(&at);
            self.bytes -= found.len();
            if found.end > end {
                self.keep(found.part(end, found.end));
            }
            if found.start < start {
                self.keep(found.part(found.start, start));
            } else if found.end <= end {
                replaced += 1;
            }
        }
        replaced
    }

    fn keep(&mut self, piece: PendingPiece) {
        self.bytes += piece.len();
        self.pieces.insert(piece.start, piece);
    }

    /// Forgets all from `len` on.
    pub(crate) fn cut(&mut self, len: u64) {
        self.clear(len, u64::MAX);
    }

    /// Forgets what of `drained` was not written again since.
    pub(crate) fn remove(&mut self, drained: &PendingPiece) {
        let first = self.pieces.range(..=drained.start).next_back().map_or(drained.start, |(&at, _)| at);
        let same: Vec<u64> = self
            .pieces
            .range(first..drained.end)
            .filter(|(_, piece)| piece.sequence == drained.sequence && piece.end > drained.start)
            .map(|(&at, _)| at)
            .collect();
        for at in same {
            if let Some(piece) = self.pieces.remove(&at) {
                self.bytes -= piece.len();
            }
        }
    }

    /// What of `start..end` is pending, in order.
    pub(crate) fn overlapping(&self, start: u64, end: u64) -> Vec<PendingPiece> {
        let first = self.pieces.range(..=start).next_back().map_or(start, |(&at, _)| at);
        let near = self.pieces.range(first..end).map(|(_, piece)| piece);
        let inside = near.filter(|piece| piece.end > start);
        inside.map(|piece| piece.part(piece.start.max(start), piece.end.min(end))).collect()
    }

    /// The pieces in segments up to `number`, in the order of the file.
    pub(crate) fn through(&self, number: u32) -> Vec<PendingPiece> {
        self.pieces.values().filter(|piece| piece.number <= number).cloned().collect()
    }

    /// How many pieces there are.
    pub(crate) fn count(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
