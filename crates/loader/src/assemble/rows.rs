//! Samples that are runs of stored bytes: their sources put them where they belong.

use std::{
    cell::Cell,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use forebay_container::{PlainRows, RowPlace, SourceIndex, native};
use forebay_format::fill_all;
use forebay_source::{ByteRange, Error, Fill, Result, Source, Trust, side_by_side};

use super::{
    doubt::{Doubts, Origin},
    fetch::Target,
    making::Field,
    spare,
};
use crate::{column::ColumnPart, layout::Stretch, set::place, stats::Counters};

/// What is asked of all files for one field of a batch. It is gathered first and asked for afterwards: the processor
/// waits for many lines of memory at once.
pub(super) struct Rows<'a, 'm> {
    field: Field<'a>,
    asked: Vec<Asked<'a>>,
    fills: Vec<Fill<'m>>,
}

struct Asked<'a> {
    source: &'a dyn Source,
    origin: Origin,
    part: &'a ColumnPart,
    is_native: bool,
    /// Which of the fills.
    fills: Range<usize>,
    /// The bytes of the first of them.
    first: ByteRange,
}

/// Requests of a batch that are made at once: as many as wait at once in a process.
const MOST_ASKED: usize = 64;

thread_local! {
    static ASKED: Cell<Vec<Asked<'static>>> = const { Cell::new(Vec::new()) };
    static FILLS: Cell<Vec<Fill<'static>>> = const { Cell::new(Vec::new()) };
}

impl<'a, 'm> Rows<'a, 'm> {
    /// Nothing yet of `field`, of which `count` samples are wanted.
    pub(super) fn new(field: Field<'a>, count: usize) -> Self {
        let (mut asked, mut fills) = (spare::take(&ASKED), spare::take(&FILLS));
        asked.reserve_exact(count.min(field.column.parts.len()));
        fills.reserve_exact(count);
        Self { field, asked, fills }
    }

    /// Adds samples of file `number`.
    pub(super) fn add(
        &mut self,
        number: u32,
        stretch: &'a Stretch,
        targets: &mut [Target<'m>],
    ) -> Result<()> {
        let part = &self.field.column.parts[number as usize];
        match stretch {
            Stretch::One { source, is_native, .. } => {
                let origin = self.origin(number, source.index);
                let begin = self.fills.len();
                for target in targets.iter_mut() {
                    let Some(range) = stretch.range(part, target.located.number, target.line) else {
                        continue;
                    };
                    self.fills.push(Fill { range, into: std::mem::take(&mut target.into) });
                }
                let Some(first) = self.fills.get(begin).map(|fill| fill.range) else { return Ok(()) };
                let source = source.get(&part.opened)?;
                let fills = begin..self.fills.len();
                self.asked.push(Asked { source, origin, part, is_native: *is_native, fills, first });
                Ok(())
            }
            Stretch::Many => {
                let variable = part.variable();
                self.add_chunks(number, targets).map_err(|error| place(&part.opened, variable, error))
            }
        }
    }

    /// Adds samples whose rows lie in several chunks.
    fn add_chunks(&mut self, number: u32, targets: &mut [Target<'m>]) -> Result<()> {
        let part = &self.field.column.parts[number as usize];
        let variable = part.variable();
        let Some(rows) = PlainRows::of(variable) else { return Ok(()) };
        let row_len = usize::try_from(rows.row_len()).unwrap_or(usize::MAX);
        let is_native = native::is_native(&variable.dtype);
        let mut asked: Option<(SourceIndex, Asked<'a>)> = None;
        for target in targets.iter_mut() {
            let Some(wanted) = part.index.rows(target.located.number, &variable.grid.shape) else { continue };
            let (mut row, mut rest) = (wanted.start, std::mem::take(&mut target.into));
            while row < wanted.end && !rest.is_empty() {
                let (at, together) = rows.locate(row, wanted.end - row)?;
                let len =
                    usize::try_from(together).unwrap_or(usize::MAX).saturating_mul(row_len).min(rest.len());
                let (into, after) = rest.split_at_mut(len);
                rest = after;
                row += together;
                let RowPlace::Stored { source, range } = at else {
                    fill_all(variable, into);
                    continue;
                };
                let next = self.fills.len();
                self.fills.push(Fill { range, into });
                match &mut asked {
                    Some((same, asked)) if *same == source => asked.fills.end = next + 1,
                    _ => {
                        self.asked.extend(asked.take().map(|(_, asked)| asked));
                        let (origin, fills) = (self.origin(number, source), next..next + 1);
                        let of = part.opened.source(source)?;
                        asked = Some((
                            source,
                            Asked { source: of, origin, part, is_native, fills, first: range },
                        ));
                    }
                }
            }
        }
        self.asked.extend(asked.map(|(_, asked)| asked));
        Ok(())
    }

    fn origin(&self, part: u32, source: SourceIndex) -> Origin {
        let Field { number, is_indices, .. } = self.field;
        Origin { column: number, is_indices, part, source }
    }

    /// Asks for everything that was added; those who have yet to vouch for it are added to `doubts`.
    pub(super) fn run(mut self, counters: &Counters, doubts: &mut Doubts) -> Result<()> {
        doubts.begin_field(self.asked.len());
        // All sources at once: what they look at to find their bytes is in no cache when there are many of them, and the
        // processor waits for it but once.
        if self.asked.len() > 1 {
            for asked in &self.asked {
                asked.source.expect(ByteRange::at(asked.first.start, 0));
            }
        }
        let is_far = self.asked.len() > 1 && self.asked[0].source.request_bytes() > 0;
        if is_far {
            self.copy_side_by_side(doubts)?;
        } else {
            self.copy_in_turn(doubts)?;
        }
        let bytes = self.fills.iter().map(|fill| fill.range.len()).sum();
        Counters::add(&counters.read_bytes, bytes);
        Counters::add(&counters.requests, self.fills.len() as u64);
        spare::put_back(&ASKED, self.asked);
        spare::put_back(&FILLS, self.fills);
        Ok(())
    }

    /// Asks one source after the other.
    fn copy_in_turn(&mut self, doubts: &mut Doubts) -> Result<()> {
        let expect = |number: usize| {
            if let Some(asked) = self.asked.get(number) {
                asked.source.expect(asked.first);
            }
        };
        expect(0);
        let mut rest = &mut self.fills[..];
        for (number, this) in self.asked.iter().enumerate() {
            expect(number + 1);
            let (own, after) = rest.split_at_mut(this.fills.len());
            rest = after;
            if let Trust::OnceVouched = this.copy(own)? {
                doubts.add(this.source, this.origin);
            }
        }
        Ok(())
    }

    /// Asks all sources at once: behind a network it is the waiting that takes time. A source of which much is wanted is asked
    /// by several threads, since one that waits beside others asks for one thing after the other.
    fn copy_side_by_side(&mut self, doubts: &mut Doubts) -> Result<()> {
        let together = self.fills.len().div_ceil(MOST_ASKED);
        let mut rest = &mut self.fills[..];
        let mut requests = Vec::with_capacity(self.asked.len() + MOST_ASKED);
        for this in &self.asked {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(this.fills.len());
            rest = after;
            requests.extend(own.chunks_mut(together.max(1)).map(|fills| (this, fills)));
        }
        let has_doubts = AtomicBool::new(false);
        side_by_side(requests, |(this, fills)| {
            if let Trust::OnceVouched = this.copy(fills)? {
                has_doubts.store(true, Relaxed);
            }
            Ok(())
        })?;
        if has_doubts.load(Relaxed) {
            self.asked.iter().for_each(|this| doubts.add(this.source, this.origin));
        }
        Ok(())
    }
}

impl Asked<'_> {
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
