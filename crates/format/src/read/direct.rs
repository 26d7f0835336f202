//! Values that are stored as they are: read straight into the output.

use std::{iter::Peekable, ops::Range};

use forebay_source::{ByteRange, Error, ErrorKind, Fill, Result, Source, SourceExt};

use super::{Opened, asked::Each, fill_all};
use crate::{
    Extent, Piece, Selection, SourceIndex, Variable, native,
    runs::{Part, Run},
};

/// Runs this near are read as one and copied from there: the same limit, for the same reason, as files have.
const GAP_BYTES: u64 = 4096;
/// The most that is read as one for the sake of runs in it.
const WINDOW_BYTES: u64 = 8 << 20;

/// A chunk that was not filtered.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    pub(super) opened: &'a Opened,
    pub(super) variable: &'a Variable,
    pub(super) extent: Extent,
}

impl Plain<'_> {
    fn windows(&self) -> Windows {
        Windows {
            start: self.extent.range.start,
            len: self.extent.range.len(),
            element_len: self.variable.dtype.stored_len(),
        }
    }

    /// Names what [`read`](Self::read) asks for.
    pub(super) fn asked(&self, part: &Part<'_>, each: &mut Each<'_>) -> Result<()> {
        let (windows, mut runs) = (self.windows(), part.runs().peekable());
        while let Some(window) = windows.next(&mut runs)? {
            each(self.extent.source, window.range);
        }
        Ok(())
    }

    /// Reads `part` of the chunk into `out`.
    pub(super) fn read(&self, part: &Part<'_>, out: &mut [u8]) -> Result<()> {
        let windows = self.windows();
        windows.read(self.opened.source(self.extent.source)?, part.runs(), out)?;
        if !native::is_native(&self.variable.dtype) {
            for run in part.runs() {
                let at = index(run.to) * windows.element_len;
                let len = index(run.count) * windows.element_len;
                native::make_native(&self.variable.dtype, &mut out[at..at + len]);
            }
        }
        Ok(())
    }
}

/// How the runs of a chunk are read: those that lie near each other by one window.
struct Windows {
    start: u64,
    len: u64,
    element_len: usize,
}

/// Bytes that are read as one.
struct Window {
    range: ByteRange,
    first: Run,
    more: Vec<Run>,
}

impl Windows {
    fn read(&self, source: &dyn Source, runs: impl Iterator<Item = Run>, out: &mut [u8]) -> Result<()> {
        let mut fills: Vec<Fill<'_>> = Vec::new();
        let mut rest = out;
        let mut passed = 0;
        let mut runs = runs.peekable();
        while let Some(Window { range: window, first, more }) = self.next(&mut runs)? {
            let last = more.last().unwrap_or(&first);
            let from = index(first.to) * self.element_len - passed;
            let to = index(last.to + last.count) * self.element_len - passed;
            let (_, after) = std::mem::take(&mut rest).split_at_mut(from);
            let (piece, after) = after.split_at_mut(to - from);
            rest = after;
            if more.is_empty() {
                fills.push(Fill { range: window, into: piece });
            } else {
                let bytes = source.fetch_one(window)?;
                for run in std::iter::once(&first).chain(&more) {
                    let range = self.range(*run)?;
                    let at = index(range.start - window.start);
                    let len = index(range.len());
                    let into = index(run.to - first.to) * self.element_len;
                    piece[into..into + len].copy_from_slice(&bytes[at..at + len]);
                }
            }
            passed += to;
        }
        source.fetch_into(&mut fills)
    }

    /// The next run, with those that follow it nearly at once.
    fn next(&self, runs: &mut Peekable<impl Iterator<Item = Run>>) -> Result<Option<Window>> {
        let Some(first) = runs.next() else { return Ok(None) };
        let mut window = self.range(first)?;
        let mut more = Vec::new();
        while let Some(next) = runs.peek() {
            let range = self.range(*next)?;
            let near = range.start <= window.end.saturating_add(GAP_BYTES);
            if !near || range.end - window.start > WINDOW_BYTES {
                break;
            }
            window.end = range.end;
            more.extend(runs.next());
        }
        Ok(Some(Window { range: window, first, more }))
    }

    fn range(&self, run: Run) -> Result<ByteRange> {
        let element_len = self.element_len as u64;
        let (at, len) = (run.from.checked_mul(element_len), run.count.checked_mul(element_len));
        match (at, len) {
            (Some(at), Some(len)) if at.saturating_add(len) <= self.len => {
                Ok(ByteRange::at(self.start + at, len))
            }
            _ => Err(Error::new(ErrorKind::Corrupt, "values lie past the end of their chunk")),
        }
    }
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
    for run in part.runs() {
        let at = index(run.to) * element_len;
        let len = index(run.count) * element_len;
        let from = run.from * element_len as u64;
        read_stretch(opened, pieces, from, &mut out[at..at + len])?;
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
    for run in part.runs() {
        let from = run.from * element_len;
        stretches(pieces, from..from + run.count * element_len, |stretch| {
            if let Some((source, range)) = stretch.stored {
                each(source, range);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads the bytes from `from` on of the pieces laid end to end.
fn read_stretch(opened: &Opened, pieces: &[Piece], from: u64, out: &mut [u8]) -> Result<()> {
    stretches(pieces, from..from + out.len() as u64, |Stretch { bytes, stored }| {
        let into = &mut out[index(bytes.start - from)..index(bytes.end - from)];
        into.fill(0);
        let Some((source, range)) = stored else { return Ok(()) };
        let fill = Fill { range, into: &mut into[..index(range.len())] };
        opened.source(source)?.fetch_into(&mut [fill])
    })
}

/// What one piece has of some bytes.
struct Stretch {
    /// Which of all bytes.
    bytes: Range<u64>,
    /// Where the first of them are stored; the others are zeros.
    stored: Option<(SourceIndex, ByteRange)>,
}

/// Calls `each` with what every piece has of `bytes` of the pieces laid end to end.
fn stretches(pieces: &[Piece], bytes: Range<u64>, mut each: impl FnMut(Stretch) -> Result<()>) -> Result<()> {
    let mut piece_start = 0;
    for piece in pieces {
        let piece_end = piece_start + piece.len;
        let (low, high) = (bytes.start.max(piece_start), bytes.end.min(piece_end));
        if low < high {
            let within = low - piece_start;
            let stored = piece.extent.filter(|extent| within < extent.range.len()).map(|extent| {
                let at = extent.range.start + within;
                (extent.source, ByteRange::at(at, (extent.range.end - at).min(high - low)))
            });
            each(Stretch { bytes: low..high, stored })?;
        }
        piece_start = piece_end;
    }
    Ok(())
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory")
}
