//! Reads a selection into memory: whole slabs of the output in parallel, the steps of each one after the other.

use std::sync::{Mutex, PoisonError};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::SourceExt;
use rayon::prelude::*;

use super::{
    gather::Gather,
    plan::{ChunkOverlap, ReadStep, at_chunk, walk},
};
use crate::decode::with_workspace;
use crate::{Opened, fill::native_fill};
use forebay_container::mapping::Patch;
use forebay_container::{
    ArrayPart, Dtype, Extents, Selection, SlabSizes, Values, Variable, convert::convert, native,
    native::same_native, runs, shape::product, slabs,
};

/// Output below this length is read on the caller's thread: handing a job to an idle pool takes 30 us, inflating
/// as much as this 380 us.
const PARALLEL_BYTES: usize = 256 << 10;
/// Chunks whose stored bytes are fetched together: enough for one request to a far source to be worth it.
const FETCH_BYTES: u64 = 4 << 20;
/// Decoded chunks that wait to be copied by one thread.
const WAVE_BYTES: u64 = 64 << 20;
/// What a thread takes for a chunk that it decodes: the chunk, and two intermediate results an eighth longer than it.
const WORKSPACE_QUARTERS: u64 = 13;

/// Reads `selection` of a variable in chunks into `out`.
pub(super) fn in_parallel(
    opened: &Opened,
    variable: &Variable,
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    if !variable.filters.is_empty() && variable.chunk_len() > opened.budget() {
        let what =
            format!("chunks of {} bytes, the memory budget is {}", variable.chunk_len(), opened.budget());
        return Err(Error::new(ErrorKind::Full, what));
    }
    opened.read_indexes_of(variable, selection)?;
    let threads = if out.len() < PARALLEL_BYTES { 1 } else { thread_count(opened, variable) };
    if threads == 1 {
        return here(opened, variable, selection, out);
    }
    let most = (out.len() / (4 * threads)).max(PARALLEL_BYTES) as u64;
    let sizes = SlabSizes { wanted: most, most: u64::MAX };
    // A box that is decoded for one slab would be decoded again for the next.
    let is_whole = matches!(variable.extents, Extents::Boxes(_)) && !variable.filters.is_empty();
    let pieces: Vec<Selection> =
        if is_whole { Vec::new() } else { slabs(variable, selection, sizes).collect() };
    if pieces.len() < 2 {
        let at_once = wave_len(opened, variable, threads);
        return Execution::new(opened, variable, selection, at_once, out).run(selection);
    }
    let mut rest = out;
    let mut jobs = Vec::with_capacity(pieces.len());
    for slab in pieces {
        let count = usize::try_from(slab.element_count()).unwrap_or(usize::MAX);
        let (piece, after) = rest.split_at_mut(count * variable.dtype.stored_len());
        rest = after;
        jobs.push((slab, piece));
    }
    // As many at a time as memory allows, whatever the pool has.
    let jobs = Mutex::new(jobs.into_iter());
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
    (0..threads).into_par_iter().with_max_len(1).try_for_each(|_| {
        while let Some((slab, piece)) = next() {
            here(opened, variable, &slab, piece)?;
        }
        Ok(())
    })
}

/// Reads `selection` into `out` on this thread.
pub(super) fn here(
    opened: &Opened,
    variable: &Variable,
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    Execution::new(opened, variable, selection, 1, out).run(selection)
}

/// Threads that decode at once: those there are, or as many as have room for a chunk each.
fn thread_count(opened: &Opened, variable: &Variable) -> usize {
    let threads = opened.thread_count();
    if variable.filters.is_empty() {
        return threads;
    }
    let each = (variable.chunk_len() / 4).saturating_mul(WORKSPACE_QUARTERS).max(1);
    let fitting = usize::try_from(opened.budget() / each).unwrap_or(usize::MAX);
    threads.min(fitting).max(1)
}

/// Chunks that are decoded at once where `threads` share one slab.
fn wave_len(opened: &Opened, variable: &Variable, threads: usize) -> usize {
    // Where memory has room for fewer threads than there are, no more chunks than that are decoded at once.
    let together = if threads < opened.thread_count() { threads } else { 8 * threads };
    let fitting = usize::try_from(WAVE_BYTES / variable.chunk_len().max(1)).unwrap_or(usize::MAX);
    fitting.min(together).max(1)
}

/// Executes the steps of one walk.
struct Execution<'a> {
    opened: &'a Opened,
    variable: &'a Variable,
    /// The output's shape.
    shape: Vec<u64>,
    /// What was never written reads as this.
    fill: Vec<u8>,
    gather: Gather<'a>,
    /// Chunks to be decoded, and how many bytes they have in their sources.
    waiting: Vec<ChunkOverlap<'a>>,
    waiting_bytes: u64,
    /// How many of them are decoded by as many jobs; one for this thread alone.
    at_once: usize,
    /// Set once every element has some value, in a variable made of parts of others.
    is_filled: bool,
}

impl<'a> Execution<'a> {
    fn new(
        opened: &'a Opened,
        variable: &'a Variable,
        selection: &Selection,
        at_once: usize,
        out: &'a mut [u8],
    ) -> Self {
        // A segment may end within an element: those are made native once all are there.
        let is_cut = matches!(variable.extents, Extents::Segments(_));
        let dtype = (!is_cut).then_some(&variable.dtype);
        Self {
            opened,
            variable,
            shape: selection.shape(),
            fill: native_fill(variable),
            gather: Gather::new(opened, dtype, out),
            waiting: Vec::new(),
            waiting_bytes: 0,
            at_once,
            is_filled: false,
        }
    }

    fn run(mut self, selection: &Selection) -> Result<()> {
        let (opened, variable) = (self.opened, self.variable);
        walk(opened, variable, selection, &mut |step| self.step(step))?;
        self.decode_waiting()?;
        if let Extents::Mapped(_) = variable.extents {
            self.fill_once();
        }
        let out = self.gather.finish()?;
        if let Extents::Segments(_) = variable.extents {
            native::make_native(&variable.dtype, out);
        }
        Ok(())
    }

    fn step(&mut self, step: ReadStep<'a>) -> Result<()> {
        match step {
            ReadStep::Stored(placed) => self.gather.push(placed),
            ReadStep::Segment(placed) => self.gather.push_alone(placed),
            ReadStep::Encoded(chunk) => self.push(chunk),
            ReadStep::Patch(part, patch) => self.patch(part, &patch),
            ReadStep::Unwritten(bytes) => {
                runs::fill(&self.fill, &mut self.gather.out()[bytes]);
                Ok(())
            }
            ReadStep::Barrier => {
                self.decode_waiting()?;
                self.gather.flush()
            }
            ReadStep::Zeros(bytes) => {
                self.gather.out()[bytes].fill(0);
                Ok(())
            }
        }
    }

    fn push(&mut self, chunk: ChunkOverlap<'a>) -> Result<()> {
        self.waiting_bytes += chunk.extent.range.len();
        self.waiting.push(chunk);
        let is_enough = match self.at_once {
            1 => self.waiting_bytes >= FETCH_BYTES,
            most => self.waiting.len() >= most,
        };
        if is_enough { self.decode_waiting() } else { Ok(()) }
    }

    fn decode_waiting(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        if self.at_once == 1 { self.decode_in_turn(&waiting) } else { self.decode_wave(&waiting) }
    }

    /// Chunks are decoded in parallel, and copied by this thread.
    fn decode_wave(&mut self, wave: &[ChunkOverlap<'_>]) -> Result<()> {
        let (opened, variable) = (self.opened, self.variable);
        let decode = |chunk: &ChunkOverlap<'_>| {
            let place = |error: Error| at_chunk(opened, error, chunk.overlap.chunk, chunk.extent);
            let stored = opened.source(chunk.extent.source)?.fetch_one(chunk.extent.range).map_err(place)?;
            with_workspace(|workspace| {
                let decoded =
                    workspace.decode(variable, chunk_len(variable, chunk.shape), chunk.extent, &stored);
                decoded.map(<[u8]>::to_vec)
            })
            .map_err(place)
        };
        let decoded: Vec<Vec<u8>> = wave.par_iter().map(decode).collect::<Result<_>>()?;
        for (chunk, bytes) in wave.iter().zip(&decoded) {
            chunk.part(&self.shape).copy(bytes, self.gather.out(), variable.dtype.stored_len());
        }
        Ok(())
    }

    fn decode_in_turn(&mut self, waiting: &[ChunkOverlap<'_>]) -> Result<()> {
        for same_source in waiting.chunk_by(|one, next| one.extent.source == next.extent.source) {
            let ranges: Vec<_> = same_source.iter().map(|chunk| chunk.extent.range).collect();
            let stored = self.opened.source(same_source[0].extent.source)?.fetch(&ranges)?;
            for (chunk, stored) in same_source.iter().zip(&stored) {
                self.decode(chunk, stored)
                    .map_err(|error| at_chunk(self.opened, error, chunk.overlap.chunk, chunk.extent))?;
            }
        }
        Ok(())
    }

    fn decode(&mut self, chunk: &ChunkOverlap<'_>, stored: &[u8]) -> Result<()> {
        let (variable, out) = (self.variable, self.gather.out());
        let part = chunk.part(&self.shape);
        let element_len = variable.dtype.stored_len();
        with_workspace(|workspace| {
            let mut runs = part.runs();
            let (first, more) = (runs.next(), runs.next());
            if let (Some(run), None) = (first, more)
                && run.count == product(chunk.shape)
            {
                let at = usize::try_from(run.to).unwrap_or(usize::MAX) * element_len;
                let len = usize::try_from(run.count).unwrap_or(usize::MAX) * element_len;
                return workspace.decode_into(variable, chunk.extent, stored, &mut out[at..at + len]);
            }
            let decoded =
                workspace.decode(variable, chunk_len(variable, chunk.shape), chunk.extent, stored)?;
            part.copy(decoded, out, element_len);
            Ok(())
        })
    }

    /// Elements of another variable, straight into the output where they are all of it, as a row of a stack of files is.
    fn patch(&mut self, part: &Variable, patch: &Patch) -> Result<()> {
        let (opened, variable) = (self.opened, self.variable);
        let is_same = same_native(&part.dtype, &variable.dtype);
        let is_plain =
            is_same && !matches!(part.dtype, Dtype::Nonstandard { .. }) && !part.dtype.is_variable();
        if is_plain && patch.shape == self.shape {
            self.is_filled = true;
            return opened.read_into(part, &patch.from, self.gather.out());
        }
        self.fill_once();
        let bytes = elements(opened, part, &patch.from)?;
        let bytes = if is_same { bytes } else { convert(&part.dtype, &variable.dtype, &bytes) };
        let to = ArrayPart {
            from_shape: &patch.shape,
            selection: &Selection::all(&patch.shape),
            to_shape: &self.shape,
            to_start: &patch.to_start,
        };
        to.copy(&bytes, self.gather.out(), variable.dtype.stored_len());
        Ok(())
    }

    fn fill_once(&mut self) {
        if !self.is_filled {
            runs::fill(&self.fill, self.gather.out());
            self.is_filled = true;
        }
    }
}

/// Bytes of a decoded chunk of `shape`.
fn chunk_len(variable: &Variable, shape: &[u64]) -> u64 {
    product(shape).saturating_mul(variable.dtype.stored_len() as u64)
}

/// The elements of `part` that `selection` takes: native ones, but odd numbers as they are stored, since the whole
/// widens them once it is filled.
fn elements(opened: &Opened, part: &Variable, selection: &Selection) -> Result<Vec<u8>> {
    if let Dtype::Nonstandard { .. } = part.dtype {
        return opened.read_stored(part, selection);
    }
    let Values::Fixed(bytes) = opened.read(part, selection)?.values else {
        let what = "a virtual data set of values of variable length";
        return Err(Error::new(ErrorKind::Unsupported, what));
    };
    // A library that reads a part may give its elements another length.
    let len = selection.element_count().saturating_mul(part.dtype.native_len() as u64);
    if bytes.len() as u64 != len {
        let what = format!("{} bytes of the part '{}', {len} needed", bytes.len(), part.name);
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    Ok(bytes)
}
