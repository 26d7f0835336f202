//! Samples that are runs of stored bytes: their sources put them where they belong.

use std::{
    cell::Cell,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use forebay_batch::{LoaderCounters, scratch_vec};
use forebay_container::{SourceIndex, native};
use forebay_format::{PlainRows, RowPlace, fill_all};
use forebay_process::{Error, Result};
use forebay_source::{ByteRange, Fill, Source, Trust, run_concurrently};

use super::{
    fetch::SampleTarget,
    unverified::{SourcePlace, UnverifiedSources},
};
use crate::{
    assemble::file_maker::FileMaker,
    layout::{StoredRows, walk::FieldRead},
    set::column::ColumnPart,
    to_usize::to_usize,
    tuning::Tuning,
};

/// What is copied from all files for one field of a batch. It is gathered first and copied afterwards: the processor
/// waits for many cache lines at once.
pub(super) struct RowCopies<'a, 'm> {
    field: FieldRead<'a>,
    tuning: Tuning,
    copies: Vec<SourceCopy<'a>>,
    fills: Vec<Fill<'m>>,
}

/// What is copied from one source.
struct SourceCopy<'a> {
    source: &'a dyn Source,
    place: SourcePlace,
    part: &'a ColumnPart,
    is_native: bool,
    /// Which of the fills.
    fills: Range<usize>,
    /// The bytes of the first of them.
    first: ByteRange,
}

/// Requests of a batch that are sent at once: as many as `run_concurrently` has threads for.
const MOST_REQUESTS: usize = 64;

thread_local! {
    static COPIES: Cell<Vec<SourceCopy<'static>>> = const { Cell::new(Vec::new()) };
    static FILLS: Cell<Vec<Fill<'static>>> = const { Cell::new(Vec::new()) };
}

impl<'a, 'm> RowCopies<'a, 'm> {
    /// Nothing yet of `field`, of which `count` samples are wanted.
    pub(super) fn new(field: FieldRead<'a>, tuning: Tuning, count: usize) -> Self {
        let (mut copies, mut fills) = (scratch_vec::take(&COPIES), scratch_vec::take(&FILLS));
        copies.reserve_exact(count.min(field.column.parts.len()));
        fills.reserve_exact(count);
        Self { field, tuning, copies, fills }
    }

    /// Adds samples of file `number`.
    pub(super) fn add(
        &mut self,
        number: u32,
        rows: &'a StoredRows,
        targets: &mut [SampleTarget<'m>],
    ) -> Result<()> {
        let part = &self.field.column.parts[number as usize];
        match rows {
            StoredRows::Contiguous { source, is_native, .. } => {
                let place = self.place(number, source.index);
                let begin = self.fills.len();
                for target in targets.iter_mut() {
                    let Some(range) = rows.range(part, target.located.number, target.line) else {
                        continue;
                    };
                    self.fills.push(Fill { range, into: std::mem::take(&mut target.into) });
                }
                let Some(first) = self.fills.get(begin).map(|fill| fill.range) else { return Ok(()) };
                let source = source.get(&part.opened)?;
                let fills = begin..self.fills.len();
                self.copies.push(SourceCopy { source, place, part, is_native: *is_native, fills, first });
                Ok(())
            }
            StoredRows::Chunked => self.add_chunks(number, targets).map_err(|error| part.named(error)),
        }
    }

    /// Adds samples whose rows lie in several chunks.
    fn add_chunks(&mut self, number: u32, targets: &mut [SampleTarget<'m>]) -> Result<()> {
        let part = &self.field.column.parts[number as usize];
        let variable = part.variable();
        let Some(rows) = PlainRows::of(&part.opened, variable) else { return Ok(()) };
        let row_len = to_usize(rows.row_len());
        let is_native = native::is_native(&variable.dtype);
        let wanted = |target: &SampleTarget<'m>| part.index.rows(target.located.number, &variable.grid.shape);
        rows.read_indexes(targets.iter().filter_map(wanted).flatten())?;
        let mut last: Option<(SourceIndex, SourceCopy<'a>)> = None;
        for target in targets.iter_mut() {
            let Some(wanted) = wanted(target) else { continue };
            let (mut row, mut rest) = (wanted.start, std::mem::take(&mut target.into));
            while row < wanted.end && !rest.is_empty() {
                let (at, together) = rows.locate(row, wanted.end - row)?;
                let len = to_usize(together).saturating_mul(row_len).min(rest.len());
                let (into, after) = rest.split_at_mut(len);
                rest = after;
                row += together;
                let RowPlace::Stored { source, range } = at else {
                    fill_all(variable, into);
                    continue;
                };
                let next = self.fills.len();
                self.fills.push(Fill { range, into });
                match &mut last {
                    Some((same, copy)) if *same == source => copy.fills.end = next + 1,
                    _ => {
                        self.copies.extend(last.take().map(|(_, copy)| copy));
                        let (place, fills) = (self.place(number, source), next..next + 1);
                        let of = part.opened.source(source)?;
                        last = Some((
                            source,
                            SourceCopy { source: of, place, part, is_native, fills, first: range },
                        ));
                    }
                }
            }
        }
        self.copies.extend(last.map(|(_, copy)| copy));
        Ok(())
    }

    fn place(&self, part: u32, source: SourceIndex) -> SourcePlace {
        let FieldRead { number, is_indices, .. } = self.field;
        SourcePlace { column: number, is_indices, part, source }
    }

    /// Copies everything that was added; sources that have yet to be verified are added to `unverified`.
    pub(super) fn run(mut self, maker: &FileMaker, unverified: &mut UnverifiedSources) -> Result<()> {
        unverified.begin_field(self.copies.len());
        // All sources at once: what they look up to find their bytes is in no cache when there are many of them, and the
        // processor waits for all of it at once.
        if self.copies.len() > 1 {
            for copy in &self.copies {
                self.tuning.expect(copy.source, ByteRange::at(copy.first.start, 0));
            }
        }
        let is_far = self.copies.len() > 1 && self.copies[0].source.request_bytes() > 0;
        if is_far {
            self.copy_concurrently(unverified)?;
        } else {
            self.copy_in_turn(unverified)?;
        }
        let bytes = self.fills.iter().map(|fill| fill.range.len()).sum();
        LoaderCounters::add(&maker.counters.read_bytes, bytes);
        LoaderCounters::add(&maker.counters.requests, self.fills.len() as u64);
        scratch_vec::put_back(&COPIES, self.copies);
        scratch_vec::put_back(&FILLS, self.fills);
        Ok(())
    }

    /// Asks one source after the other.
    fn copy_in_turn(&mut self, unverified: &mut UnverifiedSources) -> Result<()> {
        let expect = |number: usize| {
            if let Some(copy) = self.copies.get(number) {
                self.tuning.expect(copy.source, copy.first);
            }
        };
        expect(0);
        let mut rest = &mut self.fills[..];
        for (number, this) in self.copies.iter().enumerate() {
            expect(number + 1);
            let (own, after) = rest.split_at_mut(this.fills.len());
            rest = after;
            if let Trust::Unverified = this.copy(own)? {
                unverified.add(this.source, this.place);
            }
        }
        Ok(())
    }

    /// Asks all sources at once, since behind a network latency is what takes time. A source of which much is wanted is asked by
    /// several threads: one thread sends its requests one after the other.
    fn copy_concurrently(&mut self, unverified: &mut UnverifiedSources) -> Result<()> {
        let together = self.fills.len().div_ceil(MOST_REQUESTS);
        let mut rest = &mut self.fills[..];
        let mut requests = Vec::with_capacity(self.copies.len() + MOST_REQUESTS);
        for this in &self.copies {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(this.fills.len());
            rest = after;
            requests.extend(own.chunks_mut(together.max(1)).map(|fills| (this, fills)));
        }
        let is_unverified = AtomicBool::new(false);
        run_concurrently(requests, |(this, fills)| {
            if let Trust::Unverified = this.copy(fills)? {
                is_unverified.store(true, Relaxed);
            }
            Ok(())
        })?;
        if is_unverified.load(Relaxed) {
            self.copies.iter().for_each(|this| unverified.add(this.source, this.place));
        }
        Ok(())
    }
}

impl SourceCopy<'_> {
    /// Copies its bytes to `fills`, in the order of this machine's bytes.
    fn copy(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        let variable = self.part.variable();
        // The source names itself; which variable it was, it cannot know.
        let named = |error: Error| error.at(format!("variable '{}'", variable.name));
        let trust = self.source.copy_into(fills).map_err(named)?;
        if !self.is_native {
            fills.iter_mut().for_each(|fill| native::make_native(&variable.dtype, fill.into));
        }
        Ok(trust)
    }
}
