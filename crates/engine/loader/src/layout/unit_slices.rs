//! Which bytes of which units samples are made of.

use forebay_container::{ArrayPart, Selection, Span};

use crate::{layout::units::Units, set::column::ColumnPart, to_usize::to_usize};

/// Bytes of a unit that are part of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitSlice {
    /// The unit, by its number in the file.
    pub(crate) unit: u64,
    /// Which sample of those that were asked for.
    pub(crate) target: usize,
    /// Where it begins in the unit.
    pub(crate) from: usize,
    /// Where it begins in the sample.
    pub(crate) to: usize,
    pub(crate) len: usize,
}

/// More slices than this are copied from the whole unit in memory: each that is read back from a spill takes a system call.
pub(crate) const MOST_SPILL_READS: usize = 8;

/// The slices of units that samples `numbers` of `part` are made of, unit by unit.
pub(crate) fn unit_slices(
    part: &ColumnPart,
    units: &Units,
    numbers: impl ExactSizeIterator<Item = u64>,
) -> Vec<UnitSlice> {
    let shape = &part.variable().grid.shape;
    let element_len = part.element_len();
    let mut slices = Vec::with_capacity(numbers.len());
    if units.has_whole_rows() && part.index.is_rows() {
        let row_len = to_usize(shape[1..].iter().product::<u64>()) * element_len;
        let unit_rows = units.grid.chunk[0];
        for (target, number) in numbers.enumerate() {
            let Some(wanted) = part.index.rows(number, shape) else { continue };
            let mut row = wanted.start;
            while row < wanted.end {
                let (unit, within) = (row / unit_rows, row % unit_rows);
                let together = (wanted.end - row).min(unit_rows - within);
                let to = to_usize(row - wanted.start) * row_len;
                let (from, len) = (to_usize(within) * row_len, to_usize(together) * row_len);
                slices.push(UnitSlice { unit, target, from, to, len });
                row += together;
            }
        }
        slices.sort_unstable_by_key(|slice| slice.unit);
        return slices;
    }
    let mut spans: Vec<Span> = Vec::new();
    for (target, number) in numbers.enumerate() {
        part.index.spans(number, shape, &mut spans);
        let selection = Selection::new(spans.clone());
        let to_shape = selection.shape();
        for overlap in units.grid.overlaps(&selection) {
            let part = ArrayPart {
                from_shape: &units.grid.chunk,
                selection: &overlap.in_chunk,
                to_shape: &to_shape,
                to_start: &overlap.in_selection,
            };
            slices.extend(part.runs().map(|run| UnitSlice {
                unit: overlap.chunk,
                target,
                from: to_usize(run.from) * element_len,
                to: to_usize(run.to) * element_len,
                len: to_usize(run.count) * element_len,
            }));
        }
    }
    slices.sort_unstable_by_key(|slice| slice.unit);
    slices
}
