//! Rows by number: any rows of axis 0, in any order, each chunk touched once.

use std::{collections::BTreeMap, ops::Range};

use forebay_source::{Error, ErrorKind, Fill, Result, SourceExt};

use super::{Opened, chunks, native_fill};
use crate::{ChunkTable, Extents, PlainRows, RowPlace, Selection, SourceIndex, Span, Variable, native, runs};

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
        Extents::Chunks(table) if !table.is_empty() => {
            if let Some(plain) = PlainRows::of(variable) {
                return direct(opened, variable, plain, rows, out);
            }
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

/// Rows that are stored as they are go straight to their places, all by one call.
fn direct(
    opened: &Opened,
    variable: &Variable,
    plain: PlainRows<'_>,
    rows: &[u64],
    out: &mut [u8],
) -> Result<()> {
    let mut wanted: Vec<(SourceIndex, Fill<'_>)> = Vec::with_capacity(rows.len());
    let fill = native_fill(variable);
    let mut unwritten = Vec::new();
    for (row, into) in rows.iter().zip(out.chunks_exact_mut(out.len() / rows.len())) {
        match plain.locate(*row, 1)?.0 {
            RowPlace::Stored { source, range } => wanted.push((source, Fill { range, into })),
            RowPlace::Unwritten => unwritten.push(into),
        }
    }
    wanted.sort_by_key(|(source, _)| *source);
    while let Some((source, _)) = wanted.last() {
        let source = *source;
        let first = wanted.partition_point(|(other, _)| *other < source);
        let mut fills: Vec<Fill<'_>> = wanted.drain(first..).map(|(_, fill)| fill).collect();
        opened.source(source)?.fetch_into(&mut fills)?;
        fills.into_iter().for_each(|fill| native::make_native(&variable.dtype, fill.into));
    }
    unwritten.into_iter().for_each(|into| runs::fill(&fill, into));
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
