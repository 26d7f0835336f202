//! Samples of one field from one file.

use std::time::Instant;

use forebay_container::{Part, Selection, Span};
use forebay_source::{Result, prefetch};

use super::Assembler;
use crate::{
    cache::{Found, IfBusy, Now, Wanted},
    column::{Column, ColumnPart, Located},
    spill::UnitPlace,
    stats::Counters,
    units::Units,
};

/// A sample, or one line of it, and the memory it goes to.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) located: Located,
    /// Which line; 0 where the sample is read as a whole.
    pub(super) line: u64,
    pub(super) into: &'a mut [u8],
}

/// Reads samples of one field from one file.
pub(super) struct Fetch<'a> {
    pub(super) assembler: &'a Assembler,
    pub(super) column: &'a Column,
    pub(super) part: u32,
    pub(super) now: Now<'a>,
}

/// Bytes of a unit that are part of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) unit: u64,
    target: usize,
    from: usize,
    to: usize,
    pub(crate) len: usize,
}

/// More pieces than this are copied from the whole unit in memory: each read back from a spill is a call.
pub(crate) const MOST_SPILL_READS: usize = 8;

impl Fetch<'_> {
    fn file(&self) -> &ColumnPart {
        &self.column.parts[self.part as usize]
    }

    /// Samples that the format reads one by one.
    ///
    /// Gives the time that was counted as reading.
    pub(super) fn boxes(&self, targets: &mut [Target<'_>]) -> Result<u64> {
        let part = self.file();
        let variable = part.variable();
        let began = Instant::now();
        let mut spans = Vec::new();
        let mut bytes = 0;
        for target in targets.iter_mut() {
            part.index.spans(target.located.number, &variable.grid.shape, &mut spans);
            let selection = Selection::new(std::mem::take(&mut spans));
            part.opened.read_into(variable, &selection, target.into)?;
            bytes += target.into.len() as u64;
        }
        let counters = &self.assembler.counters;
        Counters::add(&counters.read_bytes, bytes);
        Counters::add(&counters.requests, targets.len() as u64);
        Counters::lap(&counters.read_ns, began);
        Ok(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// What samples that lie in units have of which unit, unit by unit.
    pub(super) fn pieces(&self, units: &Units, targets: &[Target<'_>]) -> Vec<Piece> {
        let numbers = targets.iter().map(|target| target.located.number);
        let mut pieces = pieces(self.file(), units, numbers);
        pieces.sort_unstable_by_key(|piece| piece.unit);
        pieces
    }

    /// Copies `pieces`, each unit once with all it has; those of units that another thread is at are left, or waited
    /// for. Gives the time that was counted as reading and decoding.
    pub(super) fn units(
        &self,
        units: &Units,
        pieces: &mut Vec<Piece>,
        if_busy: IfBusy,
        targets: &mut [Target<'_>],
    ) -> Result<u64> {
        let mut elsewhere_ns = 0;
        let mut busy = Vec::new();
        let by_unit: Vec<&[Piece]> = pieces.chunk_by(|one, next| one.unit == next.unit).collect();
        let at_hand = self.assembler.cache.at_hand(by_unit.iter().map(|same| units.first + same[0].unit));
        for (place, same_unit) in by_unit.iter().enumerate() {
            if let Some(Some(next)) = at_hand.get(place + 1) {
                prefetch(&next[by_unit[place + 1][0].from..]);
            }
            if let Some(Some(unit)) = at_hand.get(place) {
                copy_pieces(unit, same_unit, targets);
                continue;
            }
            let number = same_unit[0].unit;
            let samples = || units.samples(self.column, self.part, number);
            let at = UnitPlace { unit: units.first + number, byte: units.byte_of(number) };
            let len = usize::try_from(units.unit_len).unwrap_or(usize::MAX);
            let wanted = Wanted { place: at, len, samples: &samples };
            let counters = &self.assembler.counters;
            let found = self.assembler.cache.get(&wanted, self.now, if_busy, |out| {
                let began = Instant::now();
                let loaded = units.load(self.file(), number, out, counters);
                elsewhere_ns += u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
                loaded
            })?;
            if let Found::Busy = found {
                busy.extend_from_slice(same_unit);
                continue;
            }
            self.copy(found, at, len, same_unit, targets).or_else(|_| {
                // The spill is in trouble: the unit is read again where it came from.
                let mut unit = self.assembler.cache.unit(len)?;
                units.load(self.file(), number, &mut unit, counters)?;
                Counters::add(&counters.decoded_again, 1);
                copy_pieces(&unit, same_unit, targets);
                Ok::<(), forebay_source::Error>(())
            })?;
        }
        *pieces = busy;
        Ok(elsewhere_ns)
    }

    fn copy(
        &self,
        found: Found,
        at: UnitPlace,
        len: usize,
        pieces: &[Piece],
        targets: &mut [Target<'_>],
    ) -> Result<()> {
        let cache = &self.assembler.cache;
        match found {
            Found::Busy => {}
            Found::Memory(unit) => copy_pieces(&unit, pieces, targets),
            Found::Spill if pieces.len() > MOST_SPILL_READS => {
                let mut unit = self.assembler.cache.unit(len)?;
                cache.read_spilled(at, 0, &mut unit)?;
                copy_pieces(&unit, pieces, targets);
            }
            Found::Spill => {
                for piece in pieces {
                    let into = &mut targets[piece.target].into[piece.to..piece.to + piece.len];
                    cache.read_spilled(at, piece.from, into)?;
                }
            }
        }
        Ok(())
    }
}

/// The pieces of samples `numbers` of `part`.
pub(crate) fn pieces(
    part: &ColumnPart,
    units: &Units,
    numbers: impl ExactSizeIterator<Item = u64>,
) -> Vec<Piece> {
    let shape = &part.variable().grid.shape;
    let element_len = part.element_len();
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let mut pieces = Vec::with_capacity(numbers.len());
    if units.has_whole_rows() && part.index.is_rows() {
        let row_len = index(shape[1..].iter().product::<u64>()) * element_len;
        let unit_rows = units.grid.chunk[0];
        for (target, number) in numbers.enumerate() {
            let Some(wanted) = part.index.rows(number, shape) else { continue };
            let mut row = wanted.start;
            while row < wanted.end {
                let (unit, within) = (row / unit_rows, row % unit_rows);
                let together = (wanted.end - row).min(unit_rows - within);
                let to = index(row - wanted.start) * row_len;
                let (from, len) = (index(within) * row_len, index(together) * row_len);
                pieces.push(Piece { unit, target, from, to, len });
                row += together;
            }
        }
        return pieces;
    }
    let mut spans: Vec<Span> = Vec::new();
    for (target, number) in numbers.enumerate() {
        part.index.spans(number, shape, &mut spans);
        let selection = Selection::new(spans.clone());
        let to_shape = selection.shape();
        for overlap in units.grid.overlaps(&selection) {
            let part = Part {
                from_shape: &units.grid.chunk,
                selection: &overlap.in_chunk,
                to_shape: &to_shape,
                to_start: &overlap.in_selection,
            };
            pieces.extend(part.runs().map(|run| Piece {
                unit: overlap.chunk,
                target,
                from: index(run.from) * element_len,
                to: index(run.to) * element_len,
                len: index(run.count) * element_len,
            }));
        }
    }
    pieces
}

fn copy_pieces(unit: &[u8], pieces: &[Piece], targets: &mut [Target<'_>]) {
    for piece in pieces {
        let into = &mut targets[piece.target].into[piece.to..piece.to + piece.len];
        into.copy_from_slice(&unit[piece.from..piece.from + piece.len]);
    }
}
