//! What a read wants of which unit, and where it goes: arithmetic, before anything is read.

use crate::units::unit_grid::{UnitGrid, UnitPiece};

/// Bytes that lie side by side: where they begin, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteRun {
    /// The first one.
    pub(crate) at: u64,
    /// How many.
    pub(crate) len: u64,
}

/// Bytes of a unit, and where they go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedPiece {
    /// Which bytes of which unit.
    pub(crate) piece: UnitPiece,
    /// The first byte in memory, or in a packed buffer.
    pub(crate) to: u64,
}

/// How much a read wants of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitDemand {
    /// Which one.
    pub(crate) unit: u64,
    /// How many bytes of it.
    pub(crate) wanted: u64,
}

/// Pieces for `file`, put into `memory`, which holds as many bytes; `None` stands for memory without gaps from byte 0 on.
pub(crate) fn pieces(grid: &UnitGrid, file: &[ByteRun], memory: Option<&[ByteRun]>) -> Vec<PlacedPiece> {
    let mut placed = Vec::with_capacity(file.len());
    let mut target = MemoryFill { runs: memory, run: 0, within: 0, packed: 0 };
    for run in file {
        grid.split(run.at, run.len, |piece| target.place(piece, &mut placed));
    }
    placed
}

/// How far memory is filled.
struct MemoryFill<'a> {
    runs: Option<&'a [ByteRun]>,
    run: usize,
    within: u64,
    packed: u64,
}

impl MemoryFill<'_> {
    fn place(&mut self, mut piece: UnitPiece, placed: &mut Vec<PlacedPiece>) {
        while piece.len > 0 {
            let (to, room) = self.next(piece.len);
            if room == 0 {
                return;
            }
            placed.push(PlacedPiece { piece: UnitPiece { len: room, ..piece }, to });
            piece.from += room;
            piece.len -= room;
        }
    }

    /// Where the next bytes go, and how many of `len` fit there.
    fn next(&mut self, len: u64) -> (u64, u64) {
        let Some(runs) = self.runs else {
            self.packed += len;
            return (self.packed - len, len);
        };
        let Some(run) = runs.get(self.run) else { return (0, 0) };
        let (to, room) = (run.at + self.within, len.min(run.len - self.within));
        self.within += room;
        if self.within == run.len {
            (self.run, self.within) = (self.run + 1, 0);
        }
        (to, room)
    }
}

/// The units of `pieces`, each once, in ascending order.
pub(crate) fn units(pieces: &[PlacedPiece]) -> Vec<UnitDemand> {
    let mut uses: Vec<UnitDemand> = Vec::new();
    let mut is_sorted = true;
    for PlacedPiece { piece, .. } in pieces {
        match uses.last_mut() {
            Some(last) if last.unit == piece.unit => last.wanted += piece.len,
            last => {
                is_sorted &= last.is_none_or(|last| last.unit < piece.unit);
                uses.push(UnitDemand { unit: piece.unit, wanted: piece.len });
            }
        }
    }
    if !is_sorted {
        uses.sort_by_key(|one| one.unit);
        uses.dedup_by(|next, kept| {
            let is_same = next.unit == kept.unit;
            kept.wanted += if is_same { next.wanted } else { 0 };
            is_same
        });
    }
    uses
}

/// Pieces in groups of at most `window` bytes, in order, each packed from byte 0 on; a long piece is divided.
pub(crate) fn windows(pieces: &[PlacedPiece], window: u64) -> Vec<Vec<PlacedPiece>> {
    let (mut all, mut now, mut len) = (Vec::new(), Vec::new(), 0);
    for placed in pieces {
        let mut piece = placed.piece;
        while piece.len > 0 {
            let part = piece.len.min(window - len);
            now.push(PlacedPiece { piece: UnitPiece { len: part, ..piece }, to: len });
            piece.from += part;
            piece.len -= part;
            len += part;
            if len == window {
                all.push(std::mem::take(&mut now));
                len = 0;
            }
        }
    }
    if !now.is_empty() {
        all.push(now);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: u64, len: u64) -> ByteRun {
        ByteRun { at, len }
    }

    #[test]
    fn a_piece_ends_where_its_unit_or_its_memory_does() {
        let grid = UnitGrid::new(&[100], None, 1, 40).unwrap();
        let file = [run(30, 20), run(90, 10)];
        let memory = [run(5, 15), run(100, 15)];
        let found: Vec<_> = pieces(&grid, &file, Some(&memory))
            .iter()
            .map(|placed| (placed.piece.unit, placed.piece.from, placed.piece.len, placed.to))
            .collect();
        assert_eq!(found, [(0, 30, 10, 5), (1, 0, 5, 15), (1, 5, 5, 100), (2, 10, 10, 105)]);
        let packed: Vec<_> = pieces(&grid, &file, None).iter().map(|placed| placed.to).collect();
        assert_eq!(packed, [0, 10, 20]);
    }

    #[test]
    fn each_unit_comes_once_with_all_that_is_wanted_of_it() {
        let grid = UnitGrid::new(&[100], None, 1, 40).unwrap();
        let file = [run(90, 5), run(0, 10), run(95, 5), run(50, 1)];
        let found = units(&pieces(&grid, &file, None));
        let expected = [(0, 10), (1, 1), (2, 10)].map(|(unit, wanted)| UnitDemand { unit, wanted });
        assert_eq!(found, expected);
    }

    #[test]
    fn windows_hold_all_bytes_in_order_and_begin_at_zero() {
        let grid = UnitGrid::new(&[100], None, 1, 40).unwrap();
        let all = pieces(&grid, &[run(0, 100)], None);
        let parts = windows(&all, 30);
        let lens: Vec<u64> = parts.iter().map(|part| part.iter().map(|one| one.piece.len).sum()).collect();
        assert_eq!(lens, [30, 30, 30, 10]);
        assert!(parts.iter().all(|part| part[0].to == 0));
        assert_eq!(parts[1][0].piece, UnitPiece { unit: 0, from: 30, len: 10 });
    }
}
