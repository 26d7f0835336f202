//! Values that are stored as they are: read straight into the output.

use forebay_source::{ByteRange, Error, ErrorKind, Fill, Result, Source, SourceExt};

use super::{Opened, fill_all};
use crate::{
    Extent, Piece, Selection, Variable, native,
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
    /// Reads `part` of the chunk into `out`.
    pub(super) fn read(&self, part: &Part<'_>, out: &mut [u8]) -> Result<()> {
        let source = self.opened.source(self.extent.source)?;
        let reader = Windows {
            source,
            start: self.extent.range.start,
            len: self.extent.range.len(),
            element_len: self.variable.dtype.stored_len(),
        };
        reader.read(part.runs(), out)?;
        if !native::is_native(&self.variable.dtype) {
            for run in part.runs() {
                let at = index(run.to) * reader.element_len;
                let len = index(run.count) * reader.element_len;
                native::make_native(&self.variable.dtype, &mut out[at..at + len]);
            }
        }
        Ok(())
    }
}

struct Windows<'a> {
    source: &'a dyn Source,
    start: u64,
    len: u64,
    element_len: usize,
}

impl Windows<'_> {
    fn read(&self, runs: impl Iterator<Item = Run>, out: &mut [u8]) -> Result<()> {
        let mut fills: Vec<Fill<'_>> = Vec::new();
        let mut rest = out;
        let mut passed = 0;
        let mut runs = runs.peekable();
        while let Some(first) = runs.next() {
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
            let last = more.last().unwrap_or(&first);
            let from = index(first.to) * self.element_len - passed;
            let to = index(last.to + last.count) * self.element_len - passed;
            let (_, after) = std::mem::take(&mut rest).split_at_mut(from);
            let (piece, after) = after.split_at_mut(to - from);
            rest = after;
            if more.is_empty() {
                fills.push(Fill { range: window, into: piece });
            } else {
                let bytes = self.source.fetch_one(window)?;
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
        self.source.fetch_into(&mut fills)
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

/// Reads the bytes from `from` on of the pieces laid end to end.
fn read_stretch(opened: &Opened, pieces: &[Piece], from: u64, out: &mut [u8]) -> Result<()> {
    let end = from + out.len() as u64;
    let mut piece_start = 0;
    for piece in pieces {
        let piece_end = piece_start + piece.len;
        let (low, high) = (from.max(piece_start), end.min(piece_end));
        if low < high {
            let into = &mut out[index(low - from)..index(high - from)];
            into.fill(0);
            let there = piece.extent.map_or(0, |extent| extent.range.len());
            if let (Some(extent), true) = (piece.extent, low - piece_start < there) {
                let at = extent.range.start + (low - piece_start);
                let stored = (extent.range.end - at).min(high - low);
                let fill = Fill { range: ByteRange::at(at, stored), into: &mut into[..index(stored)] };
                opened.source(extent.source)?.fetch_into(&mut [fill])?;
            }
        }
        piece_start = piece_end;
    }
    Ok(())
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory")
}
