//! How each field's samples are got: straight from their places, or by way of decoded units.
//!
//! | file | idea |
//! |---|---|
//! | `units`, `unit_slices` | decoded units: chunks or runs of chunks, and the parts of samples in them |
//! | `walk` | the walk over the samples of a batch that reading, `estimate/` and `schedule` share |

pub(crate) mod unit_slices;
pub(crate) mod units;
pub(crate) mod walk;

use std::{
    hash::{Hash, Hasher},
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use forebay_container::{RowAlone, SourceIndex, native, row_alone, sample_index::SampleIndex};
use forebay_format::{Opened, PlainRows, RowPlace};
use forebay_plan::Shuffle;
use forebay_process::Result;
use forebay_source::{ByteRange, Source};

use crate::{
    layout::units::Units,
    set::{
        SampleSet,
        column::{Column, ColumnPart, SampleForm},
        shuffle_group::longest_request,
    },
};

/// What decides how samples are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadSettings {
    /// Bytes a request should bring; by default what the file system or object store prefers.
    pub(crate) transfer_len: Option<u64>,
    /// The order in which samples are wanted.
    pub(crate) shuffle: Shuffle,
    /// Bytes of decoded units that memory and the spill can hold.
    pub(crate) room: u64,
}

/// How all fields are read.
#[derive(Debug)]
pub(crate) struct SetLayout {
    /// One for each column of the set.
    pub(crate) columns: Vec<ColumnLayout>,
    /// The columns in the order they are read: the longest last, by when the consumer has dropped the batch it had, whose memory is
    /// used again.
    pub(crate) short_first: Vec<usize>,
    /// Units of all columns.
    pub(crate) unit_count: u64,
    /// Bytes of all of them.
    pub(crate) unit_bytes: u64,
    /// Bytes of the largest.
    pub(crate) largest_unit: u64,
    /// Bytes a thread needs besides a unit to read and decode it: the most over all.
    pub(crate) besides_unit: u64,
    /// Bytes a request should bring; 0 where it does not matter.
    pub(crate) request_bytes: u64,
}

/// How one field is read.
#[derive(Debug)]
pub(crate) struct ColumnLayout {
    /// One for each file.
    pub(crate) parts: Vec<Storage>,
    /// True when samples that are cut along an inner axis are read line by line, straight to their places: all files have
    /// them in one stretch.
    pub(crate) has_lines: bool,
    /// The same for the column numbers of sparse rows.
    pub(crate) indices: Option<Box<ColumnLayout>>,
}

/// How samples of one variable of one file are got, in one cache line: with hundreds of files none is in cache.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) enum Storage {
    /// Each is one or a few runs of stored bytes: copied from there.
    Rows(StoredRows),
    /// Each is a box that the format reads.
    Boxes,
    /// Units are read, decoded and kept; samples are copied from them.
    Units(Box<Units>),
}

const _: () = assert!(size_of::<Storage>() == 64, "one cache line");

/// Where rows lie that are stored as they are.
#[derive(Debug)]
pub(crate) enum StoredRows {
    /// One after the other: here is what a copy needs to know.
    Contiguous {
        /// The first byte of the first row.
        start: u64,
        /// Bytes of a row: of one index along the axis that samples are cut along.
        row_len: u64,
        /// Rows of a sample, where all have as many and not too many.
        rows: Option<NonZeroU32>,
        /// Whose bytes.
        source: LazySource,
        /// True when they need no change.
        is_native: bool,
    },
    /// Chunk by chunk.
    Chunked,
}

/// A source that is opened when it is first needed.
#[derive(Debug)]
pub(crate) struct LazySource {
    pub(crate) index: SourceIndex,
    source: OnceLock<Arc<dyn Source>>,
}

impl LazySource {
    pub(crate) fn get(&self, opened: &Opened) -> Result<&dyn Source> {
        if let Some(source) = self.source.get() {
            return Ok(&**source);
        }
        let source = opened.shared_source(self.index)?;
        Ok(&**self.source.get_or_init(|| source))
    }
}

impl StoredRows {
    fn of(part: &ColumnPart) -> Option<Self> {
        let variable = part.variable();
        let axis = match part.index {
            SampleIndex::Ragged { axis, .. } => axis,
            _ if part.index.is_rows() => 0,
            _ => return None,
        };
        let rows = PlainRows::of(&part.opened, variable)?;
        // A sample that is the whole variable has its length from the shape, not from its number.
        let is_counted = !matches!(part.index, SampleIndex::Whole | SampleIndex::Repeated(_));
        match rows.whole() {
            Some((source, range)) if is_counted => {
                let inner = variable.grid.shape[axis + 1..].iter().product::<u64>();
                Some(Self::Contiguous {
                    start: range.start,
                    row_len: inner * variable.dtype.stored_len() as u64,
                    rows: part.index.rows_each(),
                    source: LazySource { index: source, source: OnceLock::new() },
                    is_native: native::is_native(&variable.dtype),
                })
            }
            _ => (axis == 0).then_some(Self::Chunked),
        }
    }

    /// Where line `line` of sample `number` of `part` lies, if all lie in one stretch.
    #[inline]
    pub(crate) fn range(&self, part: &ColumnPart, number: u64, line: u64) -> Option<ByteRange> {
        let Self::Contiguous { start, row_len, rows, .. } = self else { return None };
        if let Some(rows) = rows {
            let len = u64::from(rows.get()) * row_len;
            return Some(ByteRange::at(start + number * len, len));
        }
        let rows = part.index.along(number)?;
        // An array that is cut along an inner axis has a line of rows for each index of those before it.
        let lines_before = if line == 0 { 0 } else { line * axis_len(part) };
        let start = start + (lines_before + rows.start) * row_len;
        Some(ByteRange::at(start, (rows.end - rows.start) * row_len))
    }

    /// The source of all samples, if they lie in one stretch and it is open.
    pub(crate) fn source(&self) -> Option<&dyn Source> {
        let Self::Contiguous { source, .. } = self else { return None };
        Some(&**source.source.get()?)
    }

    /// Calls `each` with every range that is read when sample `number` of `part` is made.
    pub(crate) fn each_range(
        &self,
        part: &ColumnPart,
        number: u64,
        mut each: impl FnMut(SourceIndex, ByteRange),
    ) -> Result<()> {
        if let Self::Contiguous { source, .. } = self {
            let ranges = (0..lines(part)).filter_map(|line| self.range(part, number, line));
            ranges.for_each(|range| each(source.index, range));
            return Ok(());
        }
        let variable = part.variable();
        let Some(rows) = PlainRows::of(&part.opened, variable).filter(|rows| rows.row_len() > 0) else {
            return Ok(());
        };
        let Some(wanted) = part.index.rows(number, &variable.grid.shape) else { return Ok(()) };
        let mut row = wanted.start;
        while row < wanted.end {
            let located = rows.locate(row, wanted.end - row);
            let (at, together) = located.map_err(|error| part.named(error))?;
            row += together;
            if let RowPlace::Stored { source, range } = at {
                each(source, range);
            }
        }
        Ok(())
    }
}

/// How long the axis is that ragged samples of `part` are cut along.
fn axis_len(part: &ColumnPart) -> u64 {
    let SampleIndex::Ragged { axis, .. } = part.index else { return 0 };
    part.variable().grid.shape[axis]
}

/// How many lines of `part` each sample has something of.
fn lines(part: &ColumnPart) -> u64 {
    match part.index {
        SampleIndex::Ragged { axis, .. } => part.variable().grid.shape[..axis].iter().product(),
        _ => 1,
    }
}

/// The most lines of which a sample has something to be read line by line: each takes 72 bytes for every
/// sample of a batch.
const MOST_LINES: u64 = 1024;

/// Whether samples of `column` are read line by line; where some file has them in other ways, all are read as boxes, since
/// a batch has its memory cut up for one way.
fn decide_on_lines(column: &Column, parts: &mut [Storage]) -> bool {
    let is_inner = matches!(column.form, SampleForm::Joined { axis, .. } if axis > 0);
    let is_one = |part: &Storage| matches!(part, Storage::Rows(StoredRows::Contiguous { .. }));
    let are_few = column.parts.iter().all(|part| lines(part) <= MOST_LINES);
    let has_lines = is_inner && are_few && parts.iter().all(is_one);
    if is_inner && !has_lines {
        let rows = parts.iter_mut().filter(|part| matches!(part, Storage::Rows(_)));
        rows.for_each(|part| *part = Storage::Boxes);
    }
    has_lines
}

impl SetLayout {
    pub(crate) fn new(set: &SampleSet, wishes: &ReadSettings) -> Result<Self> {
        let mut short_first: Vec<_> = (0..set.columns.len()).collect();
        short_first.sort_by_key(|number| set.columns[*number].mean_sample_len());
        let mut layout = Self {
            columns: Vec::new(),
            short_first,
            unit_count: 0,
            unit_bytes: 0,
            largest_unit: 0,
            besides_unit: 0,
            request_bytes: 0,
        };
        for column in &set.columns {
            let own = layout.column(column, wishes)?;
            layout.columns.push(own);
        }
        Ok(layout)
    }

    fn column(&mut self, column: &Column, wishes: &ReadSettings) -> Result<ColumnLayout> {
        let preferred = match column.parts.first() {
            Some(part) => preferred_request(part)?,
            None => 0,
        };
        // Where requests are cheap, one as long as the user likes gains nothing.
        let request_bytes = if preferred == 0 { 0 } else { wishes.transfer_len.unwrap_or(preferred) };
        self.request_bytes = self.request_bytes.max(request_bytes);
        let total =
            column.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.variable().logical_len()));
        let keeps = !matches!(wishes.shuffle, Shuffle::Full) || total <= wishes.room;
        let sample_len = total / column.len().max(1);
        let mut parts = Vec::with_capacity(column.parts.len());
        for part in &column.parts {
            // Rows that come along with a large request must find room until their turn; without it, each
            // sample is asked for by itself.
            let by_units = request_bytes > sample_len && keeps;
            let request_bytes = match wishes.shuffle {
                Shuffle::Block { .. } => request_bytes.min(longest_request(part)),
                Shuffle::None | Shuffle::Full => request_bytes,
            };
            parts.push(self.storage(part, request_bytes, by_units));
        }
        let indices = match &column.dense {
            Some(dense) => Some(Box::new(self.column(&dense.indices, wishes)?)),
            None => None,
        };
        let has_lines = decide_on_lines(column, &mut parts);
        Ok(ColumnLayout { parts, has_lines, indices })
    }

    fn storage(&mut self, part: &ColumnPart, request_bytes: u64, by_units: bool) -> Storage {
        if part.variable().grid.shape.is_empty() || part.variable().dtype.is_variable() {
            // A scalar has no rows, and nothing that could come along with it; elements of any length fit no unit.
            return Storage::Boxes;
        }
        let alone = row_alone(part.opened.container(), part.variable());
        if alone == RowAlone::Stored && !by_units {
            return StoredRows::of(part).map_or(Storage::Boxes, Storage::Rows);
        }
        let mut units = Units::of(part, request_bytes, alone);
        units.first = self.unit_count;
        units.first_byte = self.unit_bytes;
        self.unit_count = self.unit_count.saturating_add(units.count());
        self.unit_bytes = self.unit_bytes.saturating_add(units.total_len());
        self.largest_unit = self.largest_unit.max(units.unit_len);
        self.besides_unit = self.besides_unit.max(units.besides_len(part));
        Storage::Units(Box::new(units))
    }

    /// Differs when units are numbered or laid out differently.
    pub(crate) fn signature(&self) -> String {
        let mut hash = std::hash::DefaultHasher::new();
        let columns =
            self.columns.iter().chain(self.columns.iter().filter_map(|column| column.indices.as_deref()));
        for storage in columns.flat_map(|column| &column.parts) {
            if let Storage::Units(units) = storage {
                (units.first, units.first_byte, units.unit_len, &units.grid.chunk).hash(&mut hash);
            }
        }
        format!("{:016x}", hash.finish())
    }
}

/// Bytes a request to the source of `part` should bring, as the source says.
pub(crate) fn preferred_request(part: &ColumnPart) -> Result<u64> {
    let source = part.opened.source(SourceIndex(0))?;
    Ok(source.request_bytes())
}
