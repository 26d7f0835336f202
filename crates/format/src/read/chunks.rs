//! Chunks that are decoded: whole slabs of the output in parallel, then the chunks within one.

use std::sync::{Mutex, PoisonError};

use forebay_source::{Error, ErrorKind, Result, SourceExt};
use rayon::prelude::*;

use super::{direct, gather::Gather, slabs};
use crate::decode::with_workspace;
use crate::{Opened, fill::native_fill};
use forebay_container::runs::{self, Part};
use forebay_container::{ChunkTable, Extent, Selection, Variable, grid::Overlap};

/// Output below this length is read on the caller's thread: handing a job to an idle pool takes 30 us, inflating
/// as much as this 380 us.
const PARALLEL_BYTES: usize = 256 << 10;

/// Chunks whose stored bytes are fetched together: enough for one request to a far source to be worth it.
const FETCH_BYTES: u64 = 4 << 20;

/// Reads `selection` of a chunked variable into `out`.
pub(super) fn read(
    opened: &Opened,
    variable: &Variable,
    table: &ChunkTable,
    selection: &Selection,
    out: &mut [u8],
) -> Result<()> {
    let reading = Reading { opened, variable, table, fill: native_fill(variable) };
    if !variable.filters.is_empty() && variable.chunk_len() > opened.budget() {
        let what =
            format!("chunks of {} bytes, the memory budget is {}", variable.chunk_len(), opened.budget());
        return Err(Error::new(ErrorKind::Full, what));
    }
    if table.is_empty() {
        runs::fill(&reading.fill, out);
        return Ok(());
    }
    if out.len() < PARALLEL_BYTES {
        return reading.slab(selection, out);
    }
    let threads = reading.thread_count();
    if threads == 1 {
        return reading.slab(selection, out);
    }
    let most = (out.len() / (4 * threads)).max(PARALLEL_BYTES) as u64;
    let sizes = slabs::Sizes { wanted: most, most: u64::MAX };
    let slabs: Vec<Selection> = slabs::cut(variable, selection, sizes).collect();
    if slabs.len() == 1 {
        return reading.one_slab(selection, out, threads);
    }
    let mut rest = out;
    let mut jobs = Vec::with_capacity(slabs.len());
    for slab in slabs {
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
            reading.slab(&slab, piece)?;
        }
        Ok(())
    })
}

struct Reading<'a> {
    opened: &'a Opened,
    variable: &'a Variable,
    table: &'a ChunkTable,
    fill: Vec<u8>,
}

/// What a thread takes for a chunk that it decodes: the chunk, and two intermediate results an eighth longer than it.
const WORKSPACE_QUARTERS: u64 = 13;

impl Reading<'_> {
    /// Threads that decode at once: those there are, or as many as have room for a chunk each.
    fn thread_count(&self) -> usize {
        let threads = self.opened.thread_count();
        if self.variable.filters.is_empty() {
            return threads;
        }
        let each = (self.variable.chunk_len() / 4).saturating_mul(WORKSPACE_QUARTERS).max(1);
        let fitting = usize::try_from(self.opened.budget() / each).unwrap_or(usize::MAX);
        threads.min(fitting).max(1)
    }

    /// One piece of the output, on this thread.
    fn slab(&self, selection: &Selection, out: &mut [u8]) -> Result<()> {
        let mut gather = Gather::new(self.opened, &self.variable.dtype, out);
        let is_done = direct::place_rows(self.variable, selection, &mut |place| match place {
            Ok(placed) => gather.push(placed),
            Err(unwritten) => {
                runs::fill(&self.fill, &mut gather.out()[unwritten]);
                Ok(())
            }
        })?;
        if !is_done {
            self.chunk_by_chunk(selection, &mut gather)?;
        }
        gather.finish()
    }

    fn chunk_by_chunk(&self, selection: &Selection, gather: &mut Gather<'_>) -> Result<()> {
        let shape = selection.shape();
        let mut waiting: Vec<(Overlap, Extent)> = Vec::new();
        let mut waiting_bytes = 0;
        for overlap in self.variable.grid.overlaps(selection) {
            let part = self.part(&overlap, &shape);
            let Some(extent) = self.table.get(overlap.chunk) else {
                part.fill(&self.fill, gather.out(), self.variable.dtype.stored_len());
                continue;
            };
            if is_plain(self.variable, extent) {
                direct::Plain { variable: self.variable, extent }
                    .place(&part, &mut |placed| gather.push(placed))
                    .map_err(|error| at_chunk(self.opened, error, overlap.chunk, extent))?;
                continue;
            }
            waiting_bytes += extent.range.len();
            waiting.push((overlap, extent));
            if waiting_bytes >= FETCH_BYTES {
                self.decode_all(&waiting, &shape, gather.out())?;
                waiting.clear();
                waiting_bytes = 0;
            }
        }
        self.decode_all(&waiting, &shape, gather.out())
    }

    /// The whole output is one slab: chunks are decoded in parallel, and copied by one thread.
    fn one_slab(&self, selection: &Selection, out: &mut [u8], threads: usize) -> Result<()> {
        let shape = selection.shape();
        let mut overlaps = self.variable.grid.overlaps(selection).peekable();
        let filtered = self.table.iter().next().is_some_and(|(_, extent)| !is_plain(self.variable, extent));
        let chunk_len = usize::try_from(self.variable.chunk_len()).unwrap_or(usize::MAX);
        let group = (64 << 20) / chunk_len.max(1);
        if !filtered || group < 2 {
            return self.slab(selection, out);
        }
        // Where memory has room for fewer threads than there are, no more chunks than that are decoded at once.
        let together = if threads < self.opened.thread_count() { threads } else { 8 * threads };
        let most = group.min(together);
        while overlaps.peek().is_some() {
            let wave: Vec<Overlap> = overlaps.by_ref().take(most).collect();
            let decoded: Vec<Option<Vec<u8>>> =
                wave.par_iter().map(|overlap| self.decode_alone(overlap)).collect::<Result<_>>()?;
            for (overlap, chunk) in wave.iter().zip(&decoded) {
                let part = self.part(overlap, &shape);
                match chunk {
                    Some(chunk) => part.copy(chunk, out, self.variable.dtype.stored_len()),
                    None => part.fill(&self.fill, out, self.variable.dtype.stored_len()),
                }
            }
        }
        Ok(())
    }

    fn decode_alone(&self, overlap: &Overlap) -> Result<Option<Vec<u8>>> {
        let Some(extent) = self.table.get(overlap.chunk) else { return Ok(None) };
        let place = |error: Error| at_chunk(self.opened, error, overlap.chunk, extent);
        let stored = self.opened.source(extent.source)?.fetch_one(extent.range).map_err(place)?;
        with_workspace(|workspace| {
            workspace.decode(self.variable, extent, &stored).map(|chunk| Some(chunk.to_vec()))
        })
        .map_err(place)
    }

    fn decode_all(&self, waiting: &[(Overlap, Extent)], shape: &[u64], out: &mut [u8]) -> Result<()> {
        for same_source in waiting.chunk_by(|one, next| one.1.source == next.1.source) {
            let ranges: Vec<_> = same_source.iter().map(|(_, extent)| extent.range).collect();
            let stored = self.opened.source(same_source[0].1.source)?.fetch(&ranges)?;
            for ((overlap, extent), stored) in same_source.iter().zip(&stored) {
                self.decode(overlap, *extent, stored, shape, out)
                    .map_err(|error| at_chunk(self.opened, error, overlap.chunk, *extent))?;
            }
        }
        Ok(())
    }

    fn decode(
        &self,
        overlap: &Overlap,
        extent: Extent,
        stored: &[u8],
        shape: &[u64],
        out: &mut [u8],
    ) -> Result<()> {
        let part = self.part(overlap, shape);
        let element_len = self.variable.dtype.stored_len();
        with_workspace(|workspace| {
            let mut runs = part.runs();
            let (first, more) = (runs.next(), runs.next());
            if let (Some(run), None) = (first, more)
                && run.count == self.variable.grid.chunk_element_count()
            {
                let at = usize::try_from(run.to).unwrap_or(usize::MAX) * element_len;
                let len = usize::try_from(run.count).unwrap_or(usize::MAX) * element_len;
                return workspace.decode_into(self.variable, extent, stored, &mut out[at..at + len]);
            }
            let chunk = workspace.decode(self.variable, extent, stored)?;
            part.copy(chunk, out, element_len);
            Ok(())
        })
    }

    fn part<'a>(&'a self, overlap: &'a Overlap, shape: &'a [u64]) -> Part<'a> {
        Part {
            from_shape: &self.variable.grid.chunk,
            selection: &overlap.in_chunk,
            to_shape: shape,
            to_start: &overlap.in_selection,
        }
    }
}

/// True when the stored bytes of a chunk at `extent` are its elements.
pub(super) fn is_plain(variable: &Variable, extent: Extent) -> bool {
    let count = u32::try_from(variable.filters.len()).unwrap_or(u32::MAX);
    extent.skipped.trailing_ones() >= count
}

pub(super) fn at_chunk(opened: &Opened, error: Error, number: u64, extent: Extent) -> Error {
    let error = error.at(format!("chunk {number} at {:#x}", extent.range.start));
    // The first source is the one that every error names.
    match opened.container().sources.get(extent.source.0 as usize) {
        Some(id) if extent.source.0 > 0 => error.at(&id.locator),
        _ => error,
    }
}
