//! Rows by number: any rows of axis 0, in any order, each chunk touched once.

use std::{collections::BTreeMap, ops::Range};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{Fill, SourceExt};

use super::execute;
use crate::{Opened, PlainRows, RowPlace, fill::native_fill};
use forebay_container::runs::{self, ArrayPart};
use forebay_container::{Extents, Selection, SourceIndex, Span, Variable, native};

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
    let is_in_chunks = match &variable.extents {
        Extents::Chunks(table) => !table.is_empty(),
        Extents::Shards(_) => true,
        _ => false,
    };
    if !is_in_chunks {
        return rows
            .iter()
            .zip(out.chunks_exact_mut(row_len))
            .try_for_each(|(row, slot)| opened.fill(variable, &selection(*row..row + 1, inner), slot));
    }
    match PlainRows::of(opened, variable) {
        Some(plain) => direct(opened, variable, plain, rows, out),
        None => WantedRows { opened, variable, inner, row_len }.by_chunk(rows, out),
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
    plain.read_indexes(rows.iter().copied())?;
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

/// Memory that rows of one row of chunks are decoded into at a time.
const LENT_BYTES: u64 = 64 << 20;

/// Rows of a variable in chunks.
struct WantedRows<'a> {
    opened: &'a Opened,
    variable: &'a Variable,
    inner: &'a [u64],
    row_len: usize,
}

impl WantedRows<'_> {
    /// One row of chunks after the other: what it has of the rows is read as one, then put in its places.
    fn by_chunk(&self, rows: &[u64], out: &mut [u8]) -> Result<()> {
        let mut groups: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
        for (slot, row) in rows.iter().enumerate() {
            groups.entry(row / self.variable.grid.chunk[0]).or_default().push((*row, slot));
        }
        let mut lent = Vec::new();
        for wanted in groups.values() {
            let (first, last) =
                wanted.iter().fold((u64::MAX, 0), |(low, high), (row, _)| (low.min(*row), high.max(*row)));
            for columns in self.columns(last + 1 - first) {
                let spans =
                    [Span::range(first..last + 1)].into_iter().chain(columns.iter().copied()).collect();
                let selection = Selection::new(spans);
                let len = selection.element_count().saturating_mul(self.variable.dtype.stored_len() as u64);
                lent.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
                execute::in_parallel(self.opened, self.variable, &selection, &mut lent)?;
                for (row, slot) in wanted {
                    let into = &mut out[slot * self.row_len..(slot + 1) * self.row_len];
                    self.copy_row(&lent, row - first, &selection, into);
                }
            }
        }
        Ok(())
    }

    /// Boxes of the inner axes that make up a row, such that `row_count` rows of one take little memory: rows far apart in
    /// long chunks would take gigabytes otherwise. They end on chunk borders, so that each chunk is decoded once.
    fn columns(&self, row_count: u64) -> Vec<Vec<Span>> {
        let most = LENT_BYTES.min(self.opened.budget());
        let chunk = &self.variable.grid.chunk[1..];
        let mut steps = self.inner.to_vec();
        for axis in 0..steps.len() {
            let element_len = self.variable.dtype.stored_len() as u64;
            let len = forebay_container::shape::product(&steps)
                .saturating_mul(row_count)
                .saturating_mul(element_len);
            if len <= most {
                break;
            }
            let fitting = most / (len / steps[axis]).max(1);
            steps[axis] = (fitting / chunk[axis] * chunk[axis]).max(chunk[axis]).min(steps[axis]);
        }
        let mut boxes = vec![Vec::new()];
        for (len, step) in self.inner.iter().zip(steps) {
            let spans = (0..*len).step_by(usize::try_from(step).unwrap_or(usize::MAX));
            let spans = spans.map(|start| Span::range(start..(start + step).min(*len)));
            let with = |outer: &Vec<Span>| {
                spans.clone().map(|span| [&outer[..], &[span]].concat()).collect::<Vec<_>>()
            };
            boxes = boxes.iter().flat_map(with).collect();
        }
        boxes
    }

    /// Copies row `number` of `lent`, which holds `selection`, to its place in the whole row `into`.
    fn copy_row(&self, lent: &[u8], number: u64, selection: &Selection, into: &mut [u8]) {
        let shape = selection.shape();
        let mut spans: Vec<Span> = shape.iter().map(|len| Span::range(0..*len)).collect();
        spans[0] = Span::range(number..number + 1);
        let part = ArrayPart {
            from_shape: &shape,
            selection: &Selection::new(spans),
            to_shape: &[&[1], self.inner].concat(),
            to_start: &[&[0], &selection.spans()[1..].iter().map(|span| span.start).collect::<Vec<_>>()[..]]
                .concat(),
        };
        part.copy(lent, into, self.variable.dtype.stored_len());
    }
}
