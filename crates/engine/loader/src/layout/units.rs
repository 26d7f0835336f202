//! What is fetched and decoded as one, and serves many samples: a chunk, a run of chunks, or a stretch of rows.

use std::{ops::Range, sync::atomic::Ordering::Relaxed, time::Instant};

use forebay_batch::LoaderCounters;
use forebay_container::{ArrayPart, Extents, Grid, RowAlone, Selection, SourceIndex, Span, Variable};
use forebay_format::{UnreadShard, workspace_len};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::ByteRange;

use crate::{
    set::column::{Column, ColumnPart},
    to_usize::to_usize,
};

/// The units of one variable of one file.
#[derive(Debug)]
pub(crate) struct Units {
    /// The shape of the array and of a unit.
    pub(crate) grid: Grid,
    /// The number of this variable's first unit among all units of the set.
    pub(crate) first: u64,
    /// Where the first unit's bytes lie among those of all units.
    pub(crate) first_byte: u64,
    /// Bytes of a unit in memory.
    pub(crate) unit_len: u64,
    kind: UnitKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitKind {
    /// So many chunks that follow each other along axis 0, and are decoded.
    Chunks(u64),
    /// A stretch of rows, or a chunk that has no place in a file, which the format reads.
    Read,
}

/// What loading a unit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitCost {
    pub(crate) read_bytes: u64,
    pub(crate) decoded_bytes: u64,
}

/// The least that is read as one where nothing says how much: the bytes one request should bring.
const STRETCH_BYTES: u64 = 1 << 20;

impl Units {
    /// The units of `part`, where requests should bring `request_bytes` and a row by itself takes what `alone` says.
    pub(crate) fn of(part: &ColumnPart, request_bytes: u64, alone: RowAlone) -> Self {
        let variable = part.variable();
        match part.opened.encoded_chunks(variable) {
            Some(sizes) => Self::chunks(variable, (request_bytes / sizes.mean()).max(1)),
            None => Self::boxes(variable).unwrap_or_else(|| {
                let least = if alone == RowAlone::Decoded { 0 } else { STRETCH_BYTES };
                Self::rows(variable, request_bytes.max(least))
            }),
        }
    }

    /// The chunks by which a reader of the user's own unpacks `variable`: with more of them at a time, one that is
    /// damaged would spoil its neighbours.
    fn boxes(variable: &Variable) -> Option<Self> {
        let is_cut = matches!(variable.extents, Extents::Opaque(_)) && variable.grid.chunk_count() > 1;
        is_cut.then(|| Self::new(variable, variable.grid.chunk.clone(), UnitKind::Read))
    }

    fn chunks(variable: &Variable, together: u64) -> Self {
        let grid = &variable.grid;
        let counts = grid.chunks();
        // Only chunks as wide as the array lie one after the other in memory.
        let is_wide = counts[1..].iter().all(|count| *count == 1);
        let together = if is_wide { together.min(counts[0].max(1)) } else { 1 };
        let mut unit = grid.chunk.clone();
        unit[0] = unit[0].saturating_mul(together);
        Self::new(variable, unit, UnitKind::Chunks(together))
    }

    fn rows(variable: &Variable, wanted_bytes: u64) -> Self {
        let shape = &variable.grid.shape;
        let row_len =
            shape[1..].iter().fold(variable.dtype.native_len() as u64, |len, n| len.saturating_mul(*n));
        let rows = wanted_bytes.checked_div(row_len).unwrap_or(u64::MAX).clamp(1, shape[0].max(1));
        let unit = std::iter::once(rows).chain(shape[1..].iter().map(|len| (*len).max(1))).collect();
        Self::new(variable, unit, UnitKind::Read)
    }

    fn new(variable: &Variable, unit: Vec<u64>, kind: UnitKind) -> Self {
        let grid = Grid { shape: variable.grid.shape.clone(), chunk: unit };
        let unit_len = grid.chunk_element_count().saturating_mul(variable.dtype.native_len() as u64);
        Self { grid, first: 0, first_byte: 0, unit_len, kind }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.grid.chunk_count()
    }

    /// Bytes of all of them in memory.
    pub(crate) fn total_len(&self) -> u64 {
        self.count().saturating_mul(self.unit_len)
    }

    /// Bytes that loading a unit of `part` takes besides the unit: its stored bytes, what lies between filters, and a copy
    /// where the format has memory of its own.
    pub(crate) fn besides_len(&self, part: &ColumnPart) -> u64 {
        let variable = part.variable();
        if let (UnitKind::Chunks(together), Some(sizes)) = (self.kind, part.opened.encoded_chunks(variable)) {
            let stored = sizes.longest().saturating_mul(together).min(sizes.total());
            return stored.saturating_add(workspace_len(variable));
        }
        let is_plain = variable.filters.is_empty() && variable.stored_len().is_some();
        match (is_plain, self.has_whole_rows()) {
            (true, true) => 0,
            (true, false) => self.unit_len,
            (false, _) => {
                let chunk = if variable.filters.is_empty() { 0 } else { variable.chunk_len() };
                self.unit_len.saturating_add(chunk).saturating_add(workspace_len(variable))
            }
        }
    }

    /// True when a unit has whole rows of axis 0.
    pub(crate) fn has_whole_rows(&self) -> bool {
        self.grid.chunk[1..] == self.grid.shape[1..]
    }

    /// Where the bytes of unit `number` lie among those of all units of the set.
    pub(crate) fn byte_of(&self, number: u64) -> u64 {
        self.first_byte.saturating_add(number.saturating_mul(self.unit_len))
    }

    /// The corner of unit `number` and its size, within the array.
    pub(crate) fn bounds(&self, number: u64) -> (Vec<u64>, Vec<u64>) {
        let at = self.grid.chunk_at(number);
        let corner: Vec<u64> = at.iter().zip(&self.grid.chunk).map(|(at, len)| at * len).collect();
        let sizes = corner.iter().zip(&self.grid.chunk).zip(&self.grid.shape);
        let size = sizes.map(|((start, len), n)| (*len).min(n - start)).collect();
        (corner, size)
    }

    /// The samples of `column` with elements in unit `number` of its file `part`, if they are neighbours.
    pub(crate) fn samples(&self, column: &Column, part: u32, number: u64) -> Option<Range<u64>> {
        let (corner, size) = self.bounds(number);
        let numbers = column.parts[part as usize].index.touching(&corner, &size)?;
        Some(column.samples(part, numbers))
    }

    /// Puts the units that have elements of sample `number` of `part` into `out`, in their order.
    pub(crate) fn touched(&self, part: &ColumnPart, number: u64, out: &mut Vec<u64>) {
        out.clear();
        let shape = &part.variable().grid.shape;
        if self.has_whole_rows()
            && let Some(rows) = part.index.rows(number, shape)
        {
            let unit_rows = self.grid.chunk[0];
            out.extend((rows.start / unit_rows..rows.end.div_ceil(unit_rows)).filter(|_| !rows.is_empty()));
            return;
        }
        let mut spans = Vec::new();
        part.index.spans(number, shape, &mut spans);
        out.extend(self.grid.overlaps(&Selection::new(spans)).map(|overlap| overlap.chunk));
        out.sort_unstable();
    }

    /// Calls `each` with every range that [`load`](Self::load) reads.
    pub(crate) fn each_range(
        &self,
        part: &ColumnPart,
        number: u64,
        each: &mut dyn FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        let variable = part.variable();
        let UnitKind::Chunks(together) = self.kind else {
            return part.opened.plan(variable, &self.selection(number), each);
        };
        part.opened.plan_chunks(variable, chunk_numbers(variable, number, together), each)
    }

    /// The shards whose indexes [`each_range`](Self::each_range) would read first.
    pub(crate) fn unread_shards(&self, part: &ColumnPart, number: u64) -> Vec<UnreadShard> {
        let variable = part.variable();
        match self.kind {
            UnitKind::Chunks(together) => {
                part.opened.unread_shards_of_chunks(variable, chunk_numbers(variable, number, together))
            }
            _ => part.opened.unread_shards(variable, &self.selection(number)),
        }
    }

    /// What unit `number` has of the array.
    fn selection(&self, number: u64) -> Selection {
        let (corner, size) = self.bounds(number);
        let spans = corner.iter().zip(&size).map(|(start, len)| Span::range(*start..start + len));
        Selection::new(spans.collect())
    }

    /// What [`load`](Self::load) takes for unit `number`, by the file's description.
    pub(crate) fn cost(&self, part: &ColumnPart, number: u64) -> UnitCost {
        let variable = part.variable();
        let sizes = part.opened.encoded_chunks(variable);
        let (UnitKind::Chunks(together), Some(sizes)) = (self.kind, sizes) else {
            let elements: u64 = self.bounds(number).1.iter().product();
            let read_bytes = elements.saturating_mul(variable.dtype.native_len() as u64);
            return UnitCost { read_bytes, decoded_bytes: 0 };
        };
        let numbers = number * together..((number + 1) * together).min(variable.grid.chunk_count());
        let decoded_bytes = (numbers.end - numbers.start).saturating_mul(variable.chunk_len());
        let read_bytes = numbers.map(|chunk| sizes.at(chunk)).sum();
        UnitCost { read_bytes, decoded_bytes }
    }

    /// Reads and decodes unit `number` into `out`.
    pub(crate) fn load(
        &self,
        part: &ColumnPart,
        number: u64,
        out: &mut [u8],
        counters: &LoaderCounters,
    ) -> Result<()> {
        counters.decoded_units.fetch_add(1, Relaxed);
        let UnitKind::Chunks(together) = self.kind else { return self.read(part, number, out, counters) };
        let chunk_count = part.variable().grid.chunk_count();
        let numbers: Vec<u64> = (number * together..((number + 1) * together).min(chunk_count)).collect();
        match self.decode(part, &numbers, out, counters) {
            // What no filter here undoes, a library may.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.read(part, number, out, counters).map_err(|_| error)
            }
            decoded => decoded,
        }
    }

    fn decode(
        &self,
        part: &ColumnPart,
        numbers: &[u64],
        out: &mut [u8],
        counters: &LoaderCounters,
    ) -> Result<()> {
        let variable = part.variable();
        let began = Instant::now();
        let stored = part.opened.fetch_chunks(variable, numbers)?;
        let began = LoaderCounters::lap(&counters.read_ns, began);
        let stored_len: usize = stored.iter().flatten().map(|chunk| chunk.len()).sum();
        LoaderCounters::add(&counters.read_bytes, stored_len as u64);
        LoaderCounters::add(&counters.requests, 1);
        let chunk_len = to_usize(variable.chunk_len());
        for ((number, stored), out) in numbers.iter().zip(&stored).zip(out.chunks_exact_mut(chunk_len)) {
            part.opened.decode_chunk(variable, *number, stored.as_ref(), out)?;
        }
        LoaderCounters::add(&counters.decoded_bytes, (numbers.len() * chunk_len) as u64);
        LoaderCounters::lap(&counters.decode_ns, began);
        Ok(())
    }

    /// Reads the unit as any part of the array is read.
    fn read(&self, part: &ColumnPart, number: u64, out: &mut [u8], counters: &LoaderCounters) -> Result<()> {
        let variable = part.variable();
        let element_len = variable.dtype.native_len();
        let (selection, size) = (self.selection(number), self.bounds(number).1);
        let len = to_usize(selection.element_count()).saturating_mul(element_len);
        let began = Instant::now();
        if size[1..] == self.grid.chunk[1..] {
            let out = out.get_mut(..len).ok_or_else(|| Error::new(ErrorKind::Bug, "a unit too long"))?;
            part.opened.read_into(variable, &selection, out)?;
        } else {
            // The unit reaches past the array's border: what there is goes to its places in it.
            let array = part.opened.read(variable, &selection)?;
            let forebay_container::Values::Fixed(bytes) = &array.values else {
                return Err(Error::new(ErrorKind::Bug, "a unit of variable length"));
            };
            let all = Selection::all(&size);
            let start = vec![0; size.len()];
            ArrayPart { from_shape: &size, selection: &all, to_shape: &self.grid.chunk, to_start: &start }
                .copy(bytes, out, element_len);
        }
        LoaderCounters::lap(&counters.read_ns, began);
        LoaderCounters::add(&counters.read_bytes, len as u64);
        LoaderCounters::add(&counters.requests, 1);
        Ok(())
    }
}

/// The chunks of unit `number`, where each unit has `together`.
fn chunk_numbers(variable: &Variable, number: u64, together: u64) -> Range<u64> {
    number * together..((number + 1) * together).min(variable.grid.chunk_count())
}
