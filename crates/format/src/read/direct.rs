//! Values that are stored as they are: where they lie, and pieces of them read straight into the output.

use std::ops::Range;

use forebay_source::{ByteRange, Error, ErrorKind, Result};

use super::gather::Placed;
use forebay_container::runs::{Part, Run};
use forebay_container::{Extent, PlainRows, RowPlace, Selection, Variable, native};

/// A chunk that was not filtered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<'a> {
    pub(super) variable: &'a Variable,
    pub(super) extent: Extent,
}

impl Plain<'_> {
    /// Calls `each` with where the runs of `part` lie, and where in the output they go.
    pub(super) fn place(&self, part: &Part<'_>, each: &mut dyn FnMut(Placed) -> Result<()>) -> Result<()> {
        let element_len = self.variable.dtype.stored_len();
        part.runs().try_for_each(|run| {
            let (source, range) = (self.extent.source, self.range(run)?);
            each(Placed { source, range, to: index(run.to) * element_len })
        })
    }

    fn range(&self, run: Run) -> Result<ByteRange> {
        let element_len = self.variable.dtype.stored_len() as u64;
        let (at, len) = (run.from.checked_mul(element_len), run.count.checked_mul(element_len));
        match (at, len) {
            (Some(at), Some(len)) if at.saturating_add(len) <= self.extent.range.len() => {
                Ok(ByteRange::at(self.extent.range.start + at, len))
            }
            _ => Err(Error::new(ErrorKind::Corrupt, "values lie past the end of their chunk")),
        }
    }
}

/// Calls `each` with where `selection` of rows lies that are stored as they are; with `None` and the bytes of output
/// for rows that were never written.
///
/// Gives false, and calls nothing, where the rows are not stored so or not wanted whole: this is for rows so many that
/// looking at each chunk by itself would take longer than reading it.
pub(super) fn place_rows(
    variable: &Variable,
    selection: &Selection,
    each: &mut dyn FnMut(Result<Placed, Range<usize>>) -> Result<()>,
) -> Result<bool> {
    let Some(rows) = PlainRows::of(variable) else { return Ok(false) };
    let Some((span, inner)) = selection.spans().split_first() else { return Ok(false) };
    let is_whole = inner.iter().zip(&variable.grid.shape[1..]).all(|(span, len)| span.count == *len);
    if span.step != 1 || !is_whole {
        return Ok(false);
    }
    let (mut row, mut to) = (span.start, 0);
    while row < span.start + span.count {
        let (place, together) = rows.locate(row, span.start + span.count - row)?;
        let len = index(together.saturating_mul(rows.row_len()));
        each(match place {
            RowPlace::Stored { source, range } => Ok(Placed { source, range, to }),
            RowPlace::Unwritten => Err(to..to + len),
        })?;
        row += together;
        to += len;
    }
    Ok(true)
}

/// Copies `selection` of a variable whose values stand in the description.
pub(super) fn copy_inline(variable: &Variable, bytes: &[u8], selection: &Selection, out: &mut [u8]) {
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    let part = Part { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start };
    part.copy(bytes, out, variable.dtype.stored_len());
    native::make_native(&variable.dtype, out);
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory")
}
