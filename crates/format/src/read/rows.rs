//! Rows by number: any rows of axis 0, in any order, each chunk touched once.

use std::{collections::BTreeMap, ops::Range};

use forebay_source::{ByteRange, Error, ErrorKind, Fill, Result};

use super::{Opened, chunks};
use crate::{ChunkTable, Extents, Selection, Span, Variable, native};

/// Fills `out` with `rows` of `variable`, one after the other.
pub(super) fn read(opened: &Opened, variable: &Variable, rows: &[u64], out: &mut [u8]) -> Result<()> {
    let Some((count, inner)) = variable.grid.shape.split_first() else {
        return Err(Error::new(ErrorKind::Invalid, "a scalar has no rows"));
    };
    if let Some(row) = rows.iter().find(|row| *row >= count) {
        return Err(Error::new(ErrorKind::Invalid, format!("row {row} of {count}")));
    }
    if rows.is_empty() || out.is_empty() {
        return Ok(());
    }
    let row_len = out.len() / rows.len();
    match &variable.extents {
        Extents::Chunks(table) if is_one_plain_chunk(variable, table) => {
            direct(opened, variable, table, rows, row_len, out)
        }
        Extents::Chunks(table) if !table.is_empty() => {
            let wanted = Wanted { opened, variable, inner, row_len };
            wanted.by_chunk(table, rows, out)
        }
        _ => rows
            .iter()
            .zip(out.chunks_exact_mut(row_len))
            .try_for_each(|(row, slot)| opened.fill(variable, &selection(*row..row + 1, inner), slot)),
    }
}

/// All of the rows in `rows`.
pub(super) fn selection(rows: Range<u64>, inner: &[u64]) -> Selection {
    Selection::new([Span::range(rows)].into_iter().chain(inner.iter().map(|n| Span::range(0..*n))).collect())
}

/// True for a contiguous variable: every row is one range of its source. A chunk wider than its array is none.
fn is_one_plain_chunk(variable: &Variable, table: &ChunkTable) -> bool {
    let grid = &variable.grid;
    let is_as_wide = grid.chunk[1..] == grid.shape[1..];
    variable.filters.is_empty() && grid.chunk_count() == 1 && is_as_wide && table.len() == 1
}

fn direct(
    opened: &Opened,
    variable: &Variable,
    table: &ChunkTable,
    rows: &[u64],
    row_len: usize,
    out: &mut [u8],
) -> Result<()> {
    let Some(extent) = table.get(0) else { return Ok(()) };
    let start = |row: &u64| extent.range.start + row * row_len as u64;
    let mut fills: Vec<Fill<'_>> = rows
        .iter()
        .zip(out.chunks_exact_mut(row_len))
        .map(|(row, into)| Fill { range: ByteRange::at(start(row), row_len as u64), into })
        .collect();
    opened.source(extent.source)?.fetch_into(&mut fills)?;
    native::make_native(&variable.dtype, out);
    Ok(())
}

/// Rows of a variable in chunks.
struct Wanted<'a> {
    opened: &'a Opened,
    variable: &'a Variable,
    inner: &'a [u64],
    row_len: usize,
}

impl Wanted<'_> {
    /// One chunk after the other: what it has of the rows is read as one, then put in its places.
    fn by_chunk(&self, table: &ChunkTable, rows: &[u64], out: &mut [u8]) -> Result<()> {
        let mut groups: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
        for (slot, row) in rows.iter().enumerate() {
            groups.entry(row / self.variable.grid.chunk[0]).or_default().push((*row, slot));
        }
        let mut lent = Vec::new();
        for wanted in groups.values() {
            let (first, last) =
                wanted.iter().fold((u64::MAX, 0), |(low, high), (row, _)| (low.min(*row), high.max(*row)));
            let len = (last + 1 - first).saturating_mul(self.row_len as u64);
            if len > self.opened.budget {
                let what = format!(
                    "rows of one chunk take {len} bytes, the memory budget is {}",
                    self.opened.budget
                );
                return Err(Error::new(ErrorKind::Full, what));
            }
            lent.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
            let selection = selection(first..last + 1, self.inner);
            chunks::read(self.opened, self.variable, table, &selection, &mut lent)?;
            for (row, slot) in wanted {
                let from = usize::try_from(row - first).unwrap_or(usize::MAX) * self.row_len;
                let into = &mut out[slot * self.row_len..(slot + 1) * self.row_len];
                into.copy_from_slice(&lent[from..from + self.row_len]);
            }
        }
        Ok(())
    }
}
