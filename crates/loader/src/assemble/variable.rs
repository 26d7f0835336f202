//! Samples whose elements differ in length by themselves, texts and sequences: read first, and laid out once their lengths are known.

use std::{ops::Range, time::Instant};

use forebay_batch::LoaderCounters;
use forebay_container::{Array, Selection, Span, cf::ValueKind};
use forebay_source::{Error, ErrorKind, Result};

use super::fields::{FieldMaker, FieldParts, MadeField};
use crate::{
    column::{Column, ColumnPart, SampleAt},
    convert_sample::{ConvertSample, Joint},
    walk::FieldRead,
};

/// Samples of one file that are read at once, by slot, and the rows they lie in; no rows where it is one box.
struct RowGroup {
    rows: Option<Range<u64>>,
    samples: Vec<(usize, SampleAt)>,
}

/// What was read, and which part of it is the sample of each slot.
struct ReadSamples {
    bytes: Vec<u8>,
    of_slots: Vec<Range<usize>>,
}

impl<'a> FieldMaker<'a> {
    /// The field of samples whose elements differ in length.
    pub(super) fn variable(
        &mut self,
        field: FieldRead<'a>,
        located: &[Option<SampleAt>],
    ) -> Result<MadeField> {
        let column = field.column;
        let read = self.read_variable(column, located)?;
        let mut offsets = Vec::with_capacity(located.len() + 1);
        let mut total = 0usize;
        offsets.push(0i64);
        for (at, range) in located.iter().zip(&read.of_slots) {
            // Files may differ in the type of their numbers.
            total += at.map_or(0, |at| range.len() / column.part(at).element_len().max(1));
            offsets.push(i64::try_from(total).unwrap_or(i64::MAX));
        }
        let mut bytes = self.take(column, total.saturating_mul(column.final_len()))?;
        let (convert, shape) = (ConvertSample::of(column), vec![total as u64]);
        for ((at, range), start) in located.iter().zip(&read.of_slots).zip(&offsets) {
            let Some(at) = at else { continue };
            let joint = Joint { shape: &shape, axis: 0, start: start.cast_unsigned() };
            convert.joined(column.part(*at), &read.bytes[range.clone()], joint, &mut bytes, None)?;
        }
        Ok(MadeField::new(column, FieldParts { shape, bytes, mask: None, offsets: Some(offsets) }))
    }

    fn read_variable(&self, column: &Column, located: &[Option<SampleAt>]) -> Result<ReadSamples> {
        let mut wanted: Vec<(usize, SampleAt)> =
            located.iter().enumerate().filter_map(|(slot, at)| Some((slot, (*at)?))).collect();
        wanted.sort_unstable_by_key(|(slot, at)| (*at, *slot));
        let mut read = ReadSamples { bytes: Vec::new(), of_slots: vec![0..0; located.len()] };
        let began = Instant::now();
        let mut requests = 0;
        for same_part in wanted.chunk_by(|(_, one), (_, next)| one.part == next.part) {
            let part = column.part(same_part[0].1);
            for group in groups(part, same_part) {
                read.append(column, part, &group)?;
                self.check_len(column, read.bytes.len())?;
                requests += 1;
            }
        }
        let counters = &self.maker.counters;
        LoaderCounters::add(&counters.read_bytes, read.bytes.len() as u64);
        LoaderCounters::add(&counters.requests, requests);
        LoaderCounters::lap(&counters.read_ns, began);
        Ok(read)
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

impl ReadSamples {
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
            let start = self.bytes.len();
            let appended = append_elements(column, &array, elements, &mut self.bytes);
            appended.map_err(|error| part.named(error.at(format!("sample {}", at.number))))?;
            self.of_slots[*slot] = start..self.bytes.len();
        }
        Ok(())
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
