//! Rows by number: any rows of axis 0, in any order, each chunk touched once.

use std::collections::BTreeMap;

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
        _ => by_chunk(opened, variable, rows, inner, row_len, out),
    }
}

/// True for a contiguous variable: every row is one range of its source.
fn is_one_plain_chunk(variable: &Variable, table: &ChunkTable) -> bool {
    variable.filters.is_empty() && variable.grid.chunk_count() == 1 && table.len() == 1
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

/// Rows of one chunk after the other: what a chunk has of them is read as one, then put in its places.
fn by_chunk(
    opened: &Opened,
    variable: &Variable,
    rows: &[u64],
    inner: &[u64],
    row_len: usize,
    out: &mut [u8],
) -> Result<()> {
    let chunk = variable.grid.chunk[0];
    let mut groups: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
    for (slot, row) in rows.iter().enumerate() {
        groups.entry(row / chunk).or_default().push((*row, slot));
    }
    let mut lent = Vec::new();
    for wanted in groups.values() {
        let (first, last) =
            wanted.iter().fold((u64::MAX, 0), |(low, high), (row, _)| (low.min(*row), high.max(*row)));
        let mut spans = vec![Span::range(first..last + 1)];
        spans.extend(inner.iter().map(|n| Span::range(0..*n)));
        let selection = Selection::new(spans);
        let len = usize::try_from(last + 1 - first).unwrap_or(usize::MAX).saturating_mul(row_len);
        lent.resize(len, 0);
        match &variable.extents {
            Extents::Chunks(table) => chunks::read(opened, variable, table, &selection, &mut lent)?,
            _ => opened.fill(variable, &selection, &mut lent)?,
        }
        for (row, slot) in wanted {
            let from = usize::try_from(row - first).unwrap_or(usize::MAX) * row_len;
            out[slot * row_len..(slot + 1) * row_len].copy_from_slice(&lent[from..from + row_len]);
        }
    }
    Ok(())
}
