//! Samples whose elements differ in length by themselves, texts and sequences: their lengths are found first, then memory is taken,
//! and values are read to where they stand.
//!
//! ```text
//! references ─► lengths ─► memory, once there is room ─► values from the heap ─► texts cut at NUL, numbers converted
//! ```
//!
//! Where no reference says how long a value is (Zarr, readers of other formats), memory is set aside for as much as values before it
//! took; what it takes beyond that is set aside before the next is read.

use std::{collections::BTreeMap, ops::Range, sync::atomic::Ordering::Relaxed, time::Instant};

use forebay_batch::{LoaderCounters, ReservedMemory};
use forebay_container::{Array, Selection, Span, cf::ValueKind, native};
use forebay_format::{HeapFill, HeapReference, fill_from_heap};
use forebay_process::{Error, ErrorKind, Result};

use super::fields::{FieldMaker, FieldParts, MadeField};
use crate::{
    assemble::convert_sample::{ConvertSample, Joint},
    layout::walk::FieldRead,
    set::{
        column::{Column, ColumnPart, SampleAt},
        references,
    },
    to_usize::to_usize,
};

/// Samples of one file that are read at once, by slot, and the rows they lie in; no rows where it is one box.
struct RowGroup {
    rows: Option<Range<u64>>,
    samples: Vec<(usize, SampleAt)>,
}

/// Where the values of a slot are before they are in the batch.
#[derive(Clone)]
enum SlotValues {
    /// Nowhere: the slot has no sample.
    None,
    /// In the heap that these references lead to.
    Referenced(Range<usize>),
    /// In memory.
    Read(Range<usize>),
}

/// What was found of the samples of a batch.
struct FoundSamples {
    references: Vec<HeapReference>,
    read: Vec<u8>,
    /// Samples that are in it.
    read_count: usize,
    /// The memory that `read` takes, set aside as long as it is there.
    rooms: Vec<ReservedMemory>,
    slots: Vec<SlotValues>,
    /// Bytes of each slot, as they are read.
    lens: Vec<usize>,
}

impl<'a> FieldMaker<'a> {
    /// The field of samples whose elements differ in length.
    pub(super) fn variable(
        &mut self,
        field: FieldRead<'a>,
        located: &[Option<SampleAt>],
    ) -> Result<MadeField> {
        let (column, began) = (field.column, Instant::now());
        let mut found = self.find(column, located)?;
        LoaderCounters::lap(&self.maker.counters.read_ns, began);
        let convert = ConvertSample::of(column);
        let total = found.offsets(column, located).last().map_or(0, |end| to_usize(end.cast_unsigned()));
        let final_len = total.saturating_mul(column.final_len());
        let besides = if convert.is_needed() { found.lens.iter().sum() } else { 0 };
        self.check_len(column, final_len.saturating_add(besides.max(found.read.len())))?;
        let room = self.reserve(column, final_len.saturating_add(besides))?;
        let mut bytes = self.take(column, final_len)?;
        let mut scratch = convert.is_needed().then(|| self.take_scratch(column, besides)).transpose()?;
        drop(room);
        let stored = scratch.as_deref_mut().unwrap_or(&mut bytes);
        let began = Instant::now();
        self.fill(column, located, &found, stored)?;
        LoaderCounters::lap(&self.maker.counters.read_ns, began);
        if column.elements != Some(ValueKind::Number) {
            let len = found.cut_texts(stored, column.elements == Some(ValueKind::Texts));
            bytes.truncate(len);
        }
        let offsets = found.offsets(column, located);
        let shape = vec![offsets.last().map_or(0, |end| end.cast_unsigned())];
        let mut rest = scratch.as_deref().unwrap_or_default();
        for ((at, len), start) in located.iter().zip(&found.lens).zip(&offsets) {
            let (Some(at), true) = (at, convert.is_needed()) else { continue };
            let (own, after) = rest.split_at(*len);
            rest = after;
            let joint = Joint { shape: &shape, axis: 0, start: start.cast_unsigned() };
            convert.joined(column.part(*at), own, joint, &mut bytes, None)?;
        }
        Ok(MadeField::new(column, FieldParts { shape, bytes, mask: None, offsets: Some(offsets) }))
    }

    /// Finds how long each sample is, or reads it where only that tells.
    fn find(&self, column: &Column, located: &[Option<SampleAt>]) -> Result<FoundSamples> {
        let mut wanted: Vec<(usize, SampleAt)> =
            located.iter().enumerate().filter_map(|(slot, at)| Some((slot, (*at)?))).collect();
        wanted.sort_unstable_by_key(|(slot, at)| (*at, *slot));
        let mut found = FoundSamples::new(located.len());
        for same_part in wanted.chunk_by(|(_, one), (_, next)| one.part == next.part) {
            let part = column.part(same_part[0].1);
            let numbers: Vec<u64> = same_part.iter().map(|(_, at)| at.number).collect();
            if let Some(referenced) = references::of(part, &numbers, self.maker.shares.memory)? {
                for ((slot, at), range) in same_part.iter().zip(&referenced.of_samples) {
                    let len = column.referenced_len(part, &referenced.references[range.clone()]);
                    self.check_sample(column, part, *at, (len, false))?;
                    let start = found.references.len();
                    found.slots[*slot] = SlotValues::Referenced(start + range.start..start + range.end);
                    found.lens[*slot] = to_usize(len);
                }
                let asked = referenced.references.len() * part.variable().dtype.stored_len();
                found.references.extend(referenced.references);
                self.count_read(asked as u64);
                continue;
            }
            for group in groups(part, same_part) {
                self.read_group(column, part, &group, &mut found)?;
            }
        }
        if let Some(each) = found.read.len().checked_div(found.read_count) {
            column.read_len.store(each, Relaxed);
        }
        Ok(found)
    }

    /// Reads `group` of `part`, and sets aside the memory it takes.
    fn read_group(
        &self,
        column: &Column,
        part: &ColumnPart,
        group: &RowGroup,
        found: &mut FoundSamples,
    ) -> Result<()> {
        let before = found.read.len();
        let expected = found.expected_len(column, group).min(to_usize(self.maker.shares.memory));
        let mut room = self.reserve(column, expected)?;
        found.append(column, part, group)?;
        for (slot, at) in &group.samples {
            self.check_sample(column, part, *at, (found.lens[*slot] as u64, true))?;
        }
        self.check_len(column, found.read.len())?;
        let len = found.read.len() - before;
        room.shrink_to(len as u64);
        found.rooms.push(room);
        if len > expected {
            found.rooms.push(self.reserve(column, len - expected)?);
        }
        self.count_read(len as u64);
        Ok(())
    }

    /// Refuses a sample of `len` bytes, which are copied or not, that all memory there is cannot hold.
    fn check_sample(
        &self,
        column: &Column,
        part: &ColumnPart,
        at: SampleAt,
        (len, is_copied): (u64, bool),
    ) -> Result<()> {
        let (memory, needed) = (self.maker.shares.memory, column.needed_len(part, len, is_copied));
        if needed <= memory {
            return Ok(());
        }
        let is_sequence = column.elements == Some(ValueKind::Number);
        let noun = if is_sequence { "a sequence" } else { "a text" };
        let place = match part.index.rows(at.number, &part.variable().grid.shape) {
            Some(rows) if rows.end == rows.start + 1 => format!("row {}", rows.start),
            _ => format!("sample {}", at.number),
        };
        let what =
            format!("memory={memory} is less than the {needed} bytes that {noun} of {len} takes at once");
        let error = Error::new(ErrorKind::Full, what).at(place);
        Err(part.named(error.hint("set memory higher, or leave such samples out with on_error='skip'")))
    }

    /// Fills `stored` with the values that were found, slot by slot.
    fn fill(
        &self,
        column: &Column,
        located: &[Option<SampleAt>],
        found: &FoundSamples,
        stored: &mut [u8],
    ) -> Result<()> {
        let mut by_part: BTreeMap<u32, Vec<HeapFill<'_>>> = BTreeMap::new();
        let ends = usize::from(column.elements == Some(ValueKind::Texts));
        let mut rest = &mut *stored;
        for ((at, values), len) in located.iter().zip(&found.slots).zip(&found.lens) {
            let (mut own, after) = std::mem::take(&mut rest).split_at_mut(*len);
            rest = after;
            match (at, values) {
                (Some(at), SlotValues::Referenced(range)) => {
                    let (fills, element_len) =
                        (by_part.entry(at.part).or_default(), column.part(*at).element_len());
                    for reference in &found.references[range.clone()] {
                        let len = to_usize(reference.count()).saturating_mul(element_len);
                        let (into, more) = std::mem::take(&mut own).split_at_mut(len);
                        fills.push(HeapFill { reference: *reference, into });
                        own = &mut more[ends..];
                    }
                }
                (_, SlotValues::Read(range)) => own.copy_from_slice(&found.read[range.clone()]),
                _ => {}
            }
        }
        for (number, fills) in by_part {
            let part = &column.parts[number as usize];
            let heap = part.variable().heap.ok_or_else(|| Error::new(ErrorKind::Bug, "no heap"))?;
            let source = part.opened.source(heap.source)?;
            let asked = fill_from_heap(source, heap, fills).map_err(|error| part.named(error))?;
            self.count_read(asked);
        }
        let mut rest = stored;
        for ((at, values), len) in located.iter().zip(&found.slots).zip(&found.lens) {
            let (own, after) = rest.split_at_mut(*len);
            rest = after;
            if let (Some(at), SlotValues::Referenced(_)) = (at, values) {
                native::make_native(column.part(*at).variable().dtype.values(), own);
            }
        }
        Ok(())
    }

    fn count_read(&self, bytes: u64) {
        LoaderCounters::add(&self.maker.counters.read_bytes, bytes);
        LoaderCounters::add(&self.maker.counters.requests, 1);
    }
}

/// `samples` of `part`, in order, in groups that are read at once: rows that follow each other, and those of one chunk, which is
/// decoded for any of them.
fn groups(part: &ColumnPart, samples: &[(usize, SampleAt)]) -> Vec<RowGroup> {
    let grid = &part.variable().grid;
    let is_chunked = grid.chunk_count() > 1;
    let mut groups: Vec<RowGroup> = Vec::new();
    for (slot, at) in samples {
        let rows = part.index.rows(at.number, &grid.shape).filter(|_| !grid.shape.is_empty());
        if let (Some(rows), Some(RowGroup { rows: Some(before), samples })) = (&rows, groups.last_mut()) {
            let chunk_of = |row: u64| row / grid.chunk[0].max(1);
            let is_near = is_chunked && chunk_of(rows.start) == chunk_of(before.end.saturating_sub(1));
            if rows.start >= before.start && (rows.start <= before.end || is_near) {
                before.end = before.end.max(rows.end);
                samples.push((*slot, *at));
                continue;
            }
        }
        groups.push(RowGroup { rows, samples: vec![(*slot, *at)] });
    }
    groups
}

impl FoundSamples {
    fn new(slot_count: usize) -> Self {
        let (slots, lens) = (vec![SlotValues::None; slot_count], vec![0; slot_count]);
        let (references, read, rooms) = (Vec::new(), Vec::new(), Vec::new());
        Self { references, read, read_count: 0, rooms, slots, lens }
    }

    /// Bytes that the samples of `group` take if they are as long as those before, or as usual.
    fn expected_len(&self, column: &Column, group: &RowGroup) -> usize {
        let before = self.read.len().checked_div(self.read_count).unwrap_or(0);
        let each = match before.max(column.read_len.load(Relaxed)) {
            0 => to_usize(column.usual_items()).saturating_mul(column.element_len),
            each => each,
        };
        each.saturating_mul(group.samples.len())
    }

    /// Where each sample begins in the batch, in numbers or bytes of text, and where the last ends.
    fn offsets(&self, column: &Column, located: &[Option<SampleAt>]) -> Vec<i64> {
        let (mut offsets, mut total) = (vec![0], 0usize);
        for (at, len) in located.iter().zip(&self.lens) {
            // Files may differ in the type of their numbers.
            total += at.map_or(0, |at| len / column.part(at).element_len().max(1));
            offsets.push(i64::try_from(total).unwrap_or(i64::MAX));
        }
        offsets
    }

    /// Reads `group` of `part`, and appends its samples.
    fn append(&mut self, column: &Column, part: &ColumnPart, group: &RowGroup) -> Result<()> {
        let (variable, mut spans) = (part.variable(), Vec::new());
        let shape = &variable.grid.shape;
        part.index.spans(group.samples[0].1.number, shape, &mut spans);
        if let Some(rows) = &group.rows {
            spans[0] = Span::range(rows.clone());
        }
        let array = part.opened.read(variable, &Selection::new(spans))?;
        let inner: u64 = shape.iter().skip(1).product();
        for (slot, at) in &group.samples {
            let elements = match (&group.rows, part.index.rows(at.number, shape)) {
                (Some(rows), Some(own)) => (own.start - rows.start) * inner..(own.end - rows.start) * inner,
                _ => 0..array.element_count(),
            };
            let start = self.read.len();
            let appended = append_elements(column, &array, elements, &mut self.read);
            appended.map_err(|error| part.named(error.at(format!("sample {}", at.number))))?;
            self.read_count += 1;
            self.slots[*slot] = SlotValues::Read(start..self.read.len());
            self.lens[*slot] = self.read.len() - start;
        }
        Ok(())
    }

    /// Ends texts of the heap at their first NUL, where writers have padded them, and moves what follows; with `is_list` each
    /// element has one NUL behind it. Gives the bytes that are left.
    fn cut_texts(&mut self, stored: &mut [u8], is_list: bool) -> usize {
        let (mut from, mut to) = (0, 0);
        for (values, len) in self.slots.iter().zip(&mut self.lens) {
            let begin = to;
            let references = match values {
                SlotValues::Referenced(range) => &self.references[range.clone()],
                SlotValues::None | SlotValues::Read(_) => {
                    stored.copy_within(from..from + *len, to);
                    (from, to) = (from + *len, to + *len);
                    continue;
                }
            };
            for count in references.iter().map(|reference| to_usize(reference.count())) {
                let cut = stored[from..from + count].iter().position(|byte| *byte == 0).unwrap_or(count);
                if from != to {
                    stored.copy_within(from..from + cut, to);
                }
                (from, to) = (from + count, to + cut);
                if is_list {
                    stored[to] = 0;
                    (from, to) = (from + 1, to + 1);
                }
            }
            *len = to - begin;
        }
        to
    }
}

/// Appends the values of `elements` of `array`; texts of which a sample has several each end with a NUL.
fn append_elements(column: &Column, array: &Array, elements: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
    for element in elements {
        let value = array.values.element(element);
        let value = value.ok_or_else(|| Error::new(ErrorKind::Bug, "elements are missing"))?;
        out.extend_from_slice(value);
        if column.elements == Some(ValueKind::Texts) {
            if value.contains(&0) {
                let what = "a text with a NUL in it, among several of a sample";
                return Err(Error::new(ErrorKind::Unsupported, what).hint("take one text as a sample"));
            }
            out.push(0);
        }
    }
    Ok(())
}
