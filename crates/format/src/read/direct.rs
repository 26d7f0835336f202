//! Values that are stored as they are: where they lie, and pieces of them read straight into the output.

use std::ops::Range;

use forebay_source::{ByteRange, Error, ErrorKind, Fill, Result, SourceExt};

use super::{gather::Placed, requests::Each};
use crate::{Opened, fill::fill_all};
use forebay_container::runs::{Part, Run};
use forebay_container::{Extent, Piece, PlainRows, RowPlace, Selection, SourceIndex, Variable, native};

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

/// Reads `selection` of a variable whose values lie end to end in `pieces`.
pub(super) fn read_pieces(
    opened: &Opened,
    variable: &Variable,
    pieces: &[Piece],
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    fill_all(variable, out);
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    let part = Part { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start };
    let element_len = variable.dtype.stored_len();
    let pieces = EndToEnd::new(pieces);
    for run in part.runs() {
        let at = index(run.to) * element_len;
        let len = index(run.count) * element_len;
        let from = run.from * element_len as u64;
        read_stretch(opened, &pieces, from, &mut out[at..at + len])?;
        native::make_native(&variable.dtype, &mut out[at..at + len]);
    }
    Ok(())
}

/// Copies `selection` of a variable whose values stand in the description.
pub(super) fn copy_inline(variable: &Variable, bytes: &[u8], selection: &Selection, out: &mut [u8]) {
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    let part = Part { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start };
    part.copy(bytes, out, variable.dtype.stored_len());
    native::make_native(&variable.dtype, out);
}

/// Names what [`read_pieces`] asks for.
pub(super) fn asked_of_pieces(
    variable: &Variable,
    pieces: &[Piece],
    selection: &Selection,
    each: &mut Each<'_>,
) -> Result<()> {
    let shape = selection.shape();
    let start = vec![0; shape.len()];
    let part = Part { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start };
    let element_len = variable.dtype.stored_len() as u64;
    let pieces = EndToEnd::new(pieces);
    for run in part.runs() {
        let from = run.from * element_len;
        let stored =
            pieces.stretches(from..from + run.count * element_len).filter_map(|stretch| stretch.stored);
        stored.for_each(|(source, range)| each(source, range));
    }
    Ok(())
}

/// Reads the bytes from `from` on of the pieces laid end to end.
fn read_stretch(opened: &Opened, pieces: &EndToEnd<'_>, from: u64, out: &mut [u8]) -> Result<()> {
    for Stretch { bytes, stored } in pieces.stretches(from..from + out.len() as u64) {
        let into = &mut out[index(bytes.start - from)..index(bytes.end - from)];
        into.fill(0);
        let Some((source, range)) = stored else { continue };
        let fill = Fill { range, into: &mut into[..index(range.len())] };
        opened.source(source)?.fetch_into(&mut [fill])?;
    }
    Ok(())
}

/// Pieces laid end to end, and where each ends: a run of bytes is found by bisection.
struct EndToEnd<'a> {
    pieces: &'a [Piece],
    ends: Vec<u64>,
}

/// What one piece has of some bytes.
#[derive(Debug, PartialEq)]
struct Stretch {
    /// Which of all bytes.
    bytes: Range<u64>,
    /// Where the first of them are stored; the others are zeros.
    stored: Option<(SourceIndex, ByteRange)>,
}

impl<'a> EndToEnd<'a> {
    fn new(pieces: &'a [Piece]) -> Self {
        let add = |end: &mut u64, piece: &Piece| {
            *end = end.saturating_add(piece.len);
            Some(*end)
        };
        Self { pieces, ends: pieces.iter().scan(0, add).collect() }
    }

    /// What every piece has of `bytes`, in order.
    fn stretches(&self, bytes: Range<u64>) -> impl Iterator<Item = Stretch> + '_ {
        let first = self.ends.partition_point(|end| *end <= bytes.start);
        let reaching = self.pieces[first..].iter().zip(&self.ends[first..]);
        let started = reaching.map(|(piece, end)| (piece, end - piece.len..*end));
        let wanted = started.take_while({
            let end = bytes.end;
            move |(_, own)| own.start < end
        });
        wanted.filter(|(piece, _)| piece.len > 0).map(move |(piece, own)| {
            let (low, high) = (bytes.start.max(own.start), bytes.end.min(own.end));
            let within = low - own.start;
            let stored = piece.extent.filter(|extent| within < extent.range.len()).map(|extent| {
                let at = extent.range.start + within;
                (extent.source, ByteRange::at(at, (extent.range.end - at).min(high - low)))
            });
            Stretch { bytes: low..high, stored }
        })
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_container::Extent;

    #[test]
    fn every_run_of_bytes_is_found_in_the_pieces_that_have_it() {
        let stored = |start, len| {
            Some(Extent { source: SourceIndex(0), range: ByteRange::at(start, len), skipped: 0 })
        };
        // The second has nothing stored, the fourth less than it is long; two are empty.
        let pieces = [
            (3, stored(10, 3)),
            (2, None),
            (0, None),
            (4, stored(50, 1)),
            (0, stored(7, 0)),
            (1, stored(90, 1)),
        ]
        .map(|(len, extent)| Piece { len, extent });
        let at = [Some(10), Some(11), Some(12), None, None, Some(50), None, None, None, Some(90)];
        let joined = EndToEnd::new(&pieces);
        for start in 0..=10u64 {
            for end in start..=10 {
                let mut found = Vec::new();
                for Stretch { bytes, stored } in joined.stretches(start..end) {
                    assert_eq!(bytes.start, start + found.len() as u64, "{start}..{end}");
                    let range = stored.map_or(ByteRange::at(0, 0), |(_, range)| range);
                    let places = (range.start..range.end).map(Some).chain(std::iter::repeat(None));
                    found.extend(places.take(index(bytes.end - bytes.start)));
                }
                assert_eq!(found, at[index(start)..index(end)], "{start}..{end}");
            }
        }
    }
}
