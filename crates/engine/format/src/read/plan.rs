//! The plan of a read: one walk over what a selection touches, which reads execute and `Opened::plan` lists.
//!
//! ```text
//! Selection ─► walk ─► Step … ─┬─► execute: fetch, decode, copy
//!                              └─► requests: the ranges alone
//! ```
//! Steps are made one at a time and not kept: a selection may take millions.

use std::ops::Range;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::ByteRange;

use crate::{Opened, PlainRows, RowPlace};
use forebay_container::mapping::Patch;
use forebay_container::runs::{ArrayPart, ElementRun};
use forebay_container::windows::PlacedBytes;
use forebay_container::{
    ArrayBox, Boxes, Extent, Extents, Mappings, Overlap, Segment, Segments, Selection, Variable,
    shape::product,
};

/// One thing to do for a selection; ranges without a source are bytes of the output.
#[derive(Debug)]
pub(super) enum ReadStep<'v> {
    /// Bytes of a source that are elements as they are.
    Stored(PlacedBytes),
    /// The same, where elements may be cut in two and neighbours lie apart in the source.
    Segment(PlacedBytes),
    /// A chunk that has to be decoded.
    Encoded(ChunkOverlap<'v>),
    /// Elements of another variable.
    Patch(&'v Variable, Patch),
    /// Elements that were never written: they have the fill value.
    Unwritten(Range<usize>),
    /// Bytes that no segment has.
    Zeros(Range<usize>),
    /// What follows may lie over what came before.
    Barrier,
}

/// A chunk that was written, and what of it is wanted.
#[derive(Debug)]
pub(super) struct ChunkOverlap<'v> {
    pub(super) extent: Extent,
    /// The chunk's shape.
    pub(super) shape: &'v [u64],
    pub(super) overlap: Overlap,
}

impl ChunkOverlap<'_> {
    /// What of the chunk goes where in an output of shape `to_shape`.
    pub(super) fn part<'a>(&'a self, to_shape: &'a [u64]) -> ArrayPart<'a> {
        part(&self.overlap, self.shape, to_shape)
    }
}

/// Is called with each step of a walk.
pub(super) type StepSink<'a, 'v> = dyn FnMut(ReadStep<'v>) -> Result<()> + 'a;

/// Calls `each` with the steps that read `selection` of `variable`, in the order of the output as far as chunks allow; with
/// none where the description itself has the values, or a library reads them.
pub(super) fn walk<'v>(
    opened: &'v Opened,
    variable: &'v Variable,
    selection: &Selection,
    each: &mut StepSink<'_, 'v>,
) -> Result<()> {
    match &variable.extents {
        Extents::Chunks(_) | Extents::Shards(_) => {
            let is_done = stored_rows(opened, variable, selection, each)?;
            if is_done { Ok(()) } else { chunks(opened, variable, selection, each) }
        }
        Extents::Segments(list) => segments(variable, list, selection, each),
        Extents::Boxes(list) => boxes(opened, variable, list, selection, each),
        Extents::Mapped(mappings) => patches(opened, mappings, selection, each),
        Extents::Inline(_) | Extents::Opaque(_) => Ok(()),
    }
}

/// The steps of rows that are stored as they are and wanted whole.
///
/// Gives false, and calls nothing, for others: this is for rows so many that looking at each chunk by itself would take
/// longer than reading it.
fn stored_rows(
    opened: &Opened,
    variable: &Variable,
    selection: &Selection,
    each: &mut StepSink<'_, '_>,
) -> Result<bool> {
    let Some(rows) = PlainRows::of(opened, variable) else { return Ok(false) };
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
            RowPlace::Stored { source, range } => ReadStep::Stored(PlacedBytes { source, range, to }),
            RowPlace::Unwritten => ReadStep::Unwritten(to..to + len),
        })?;
        row += together;
        to += len;
    }
    Ok(true)
}

fn chunks<'v>(
    opened: &Opened,
    variable: &'v Variable,
    selection: &Selection,
    each: &mut StepSink<'_, 'v>,
) -> Result<()> {
    let (to_shape, shape) = (selection.shape(), &variable.grid.chunk);
    let element_len = variable.dtype.stored_len();
    for overlap in variable.grid.overlaps(selection) {
        match opened.chunk_extent(variable, overlap.chunk)? {
            None => part(&overlap, shape, &to_shape).runs().try_for_each(|run| {
                let to = index(run.to) * element_len;
                each(ReadStep::Unwritten(to..to + index(run.count) * element_len))
            })?,
            Some(extent) => {
                chunk(opened, variable, ChunkOverlap { extent, shape, overlap }, &to_shape, each)?;
            }
        }
    }
    Ok(())
}

/// The steps of one chunk that was written.
fn chunk<'v>(
    opened: &Opened,
    variable: &Variable,
    chunk: ChunkOverlap<'v>,
    to_shape: &[u64],
    each: &mut StepSink<'_, 'v>,
) -> Result<()> {
    let ChunkOverlap { extent, overlap, .. } = &chunk;
    if !is_plain(variable, *extent) {
        return each(ReadStep::Encoded(chunk));
    }
    let element_len = variable.dtype.stored_len();
    chunk.part(to_shape).runs().try_for_each(|run| {
        let range = plain_range(element_len as u64, *extent, run)
            .map_err(|error| at_chunk(opened, error, overlap.chunk, *extent))?;
        each(ReadStep::Stored(PlacedBytes { source: extent.source, range, to: index(run.to) * element_len }))
    })
}

/// Boxes that are executed together, at most: each is compared with all of them.
const MOST_TOGETHER: usize = 64;

fn boxes<'v>(
    opened: &Opened,
    variable: &'v Variable,
    boxes: &'v Boxes,
    selection: &Selection,
    each: &mut StepSink<'_, 'v>,
) -> Result<()> {
    let to_shape = selection.shape();
    // Where boxes since the last barrier go in the output, along each axis.
    let mut together: Vec<Vec<Range<u64>>> = Vec::new();
    let mut is_filled = false;
    for number in boxes.touching(selection) {
        let Some(overlap) = boxes.overlap(number, selection) else { continue };
        let counts = overlap.in_chunk.spans().iter().map(|span| span.count);
        let region: Vec<_> = overlap.in_selection.iter().zip(counts).map(|(at, n)| *at..at + n).collect();
        if !is_filled && region.iter().zip(&to_shape).any(|(axis, len)| *axis != (0..*len)) {
            unwritten(variable, &to_shape, each)?;
        }
        is_filled = true;
        let meets = |other: &Vec<Range<u64>>| {
            other.iter().zip(&region).all(|(one, other)| one.start < other.end && other.start < one.end)
        };
        if together.len() == MOST_TOGETHER || together.iter().any(meets) {
            each(ReadStep::Barrier)?;
            together.clear();
        }
        together.push(region);
        let ArrayBox { count: shape, extent, .. } = boxes.get(number);
        chunk(opened, variable, ChunkOverlap { extent, shape, overlap }, &to_shape, each)?;
    }
    if is_filled { Ok(()) } else { unwritten(variable, &to_shape, each) }
}

fn unwritten(variable: &Variable, shape: &[u64], each: &mut StepSink<'_, '_>) -> Result<()> {
    each(ReadStep::Unwritten(0..index(product(shape)) * variable.dtype.stored_len()))
}

fn segments(
    variable: &Variable,
    segments: &Segments,
    selection: &Selection,
    each: &mut StepSink<'_, '_>,
) -> Result<()> {
    let (shape, element_len) = (selection.shape(), variable.dtype.stored_len() as u64);
    let start = vec![0; shape.len()];
    let whole = ArrayPart { from_shape: &variable.grid.shape, selection, to_shape: &shape, to_start: &start };
    // In C order both sides rise, so every segment has the next bytes of the output.
    let mut to = 0;
    for run in whole.runs() {
        let from = run.from * element_len;
        for Segment { bytes, stored } in segments.of(from..from + run.count * element_len) {
            let end = to + index(bytes.end - bytes.start);
            each(match stored {
                Some((source, range)) => ReadStep::Segment(PlacedBytes { source, range, to }),
                None => ReadStep::Zeros(to..end),
            })?;
            to = end;
        }
    }
    Ok(())
}

fn patches<'v>(
    opened: &'v Opened,
    mappings: &Mappings,
    selection: &Selection,
    each: &mut StepSink<'_, 'v>,
) -> Result<()> {
    for mapping in mappings.touching(selection) {
        let bug = || Error::new(ErrorKind::Bug, "a mapping from a part that is not there");
        let part = opened.container().parts.get(mapping.part).ok_or_else(bug)?;
        let patches = mapping.patches(selection, &part.grid.shape);
        patches.into_iter().try_for_each(|patch| each(ReadStep::Patch(part, patch)))?;
    }
    Ok(())
}

fn part<'a>(overlap: &'a Overlap, from_shape: &'a [u64], to_shape: &'a [u64]) -> ArrayPart<'a> {
    ArrayPart { from_shape, selection: &overlap.in_chunk, to_shape, to_start: &overlap.in_selection }
}

/// Where `run` of a chunk lies that is stored as it is.
fn plain_range(element_len: u64, extent: Extent, run: ElementRun) -> Result<ByteRange> {
    let (at, len) = (run.from.checked_mul(element_len), run.count.checked_mul(element_len));
    match (at, len) {
        (Some(at), Some(len)) if at.saturating_add(len) <= extent.range.len() => {
            Ok(ByteRange::at(extent.range.start + at, len))
        }
        _ => Err(Error::new(ErrorKind::Corrupt, "values lie past the end of their chunk")),
    }
}

/// True when the stored bytes of a chunk at `extent` are its elements.
fn is_plain(variable: &Variable, extent: Extent) -> bool {
    let count = u32::try_from(variable.filters.len()).unwrap_or(u32::MAX);
    extent.skipped.trailing_ones() >= count
}

/// `error`, which has to do with chunk `number`.
pub(super) fn at_chunk(opened: &Opened, error: Error, number: u64, extent: Extent) -> Error {
    let error = error.at(format!("chunk {number} at {:#x}", extent.range.start));
    // The first source is the one that every error names.
    match opened.container().sources.get(extent.source.0 as usize) {
        Some(id) if extent.source.0 > 0 => error.at(&id.locator),
        _ => error,
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an index into memory")
}
