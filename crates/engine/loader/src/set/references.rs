//! How long texts and sequences are, as the references say that stand in their place: known before any value is read.

use std::ops::Range;

use forebay_container::{Extents, Selection, Values, cf::ValueKind, shape::product};
use forebay_format::HeapReference;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    assemble::convert_sample::ConvertSample,
    set::column::{Column, ColumnPart, GUESSED_LEN},
    to_usize::to_usize,
};

/// References of some samples of one file.
pub(crate) struct SampleReferences {
    pub(crate) references: Vec<HeapReference>,
    /// Of each sample, which of them are its elements.
    pub(crate) of_samples: Vec<Range<usize>>,
}

/// Bytes of references that are read at a time where those of a whole file are.
const AT_ONCE_BYTES: u64 = 1 << 20;

/// The most bytes of references that are read for lengths alone; those of one sample may be more than are read at a time.
const MOST_BYTES: u64 = 256 << 20;

/// Neighbours that are looked at for how long samples usually are, in each of a few places.
const LOOKED_AT: u64 = 16;

/// The references of samples `numbers` of `part`, of at most `most` bytes; nothing where only reading the values shows how long
/// they are.
pub(crate) fn of(part: &ColumnPart, numbers: &[u64], most: u64) -> Result<Option<SampleReferences>> {
    let variable = part.variable();
    let heap = variable.heap.filter(|_| !matches!(variable.extents, Extents::Opaque(_)));
    let Some(heap) = heap else { return Ok(None) };
    let (stored, counts) = match stored(part, numbers, most) {
        // A library reads what forebay cannot.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(None),
        stored => stored?,
    };
    let references = stored.chunks_exact(variable.dtype.stored_len().max(1));
    let references = references.map(|stored| HeapReference::read(heap, stored)).collect::<Result<Vec<_>>>();
    let mut end = 0;
    let of_samples = counts.iter().map(|count| {
        let start = end;
        end += count;
        start..end
    });
    let of_samples = of_samples.collect();
    let references = references.map_err(|error| part.named(error))?;
    Ok(Some(SampleReferences { references, of_samples }))
}

/// The stored references of samples `numbers`, one after the other, and how many each has.
fn stored(part: &ColumnPart, numbers: &[u64], most: u64) -> Result<(Vec<u8>, Vec<usize>)> {
    let variable = part.variable();
    let (shape, each) = (&variable.grid.shape, variable.dtype.stored_len());
    let (mut stored, mut counts, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    let rows_of = |number: &u64| part.index.rows(*number, shape).filter(|_| !shape.is_empty());
    if let Some(ranges) = numbers.iter().map(rows_of).collect::<Option<Vec<_>>>() {
        let inner = product(shape.get(1..).unwrap_or_default());
        let row_len = inner.saturating_mul(each as u64);
        let count = ranges.iter().fold(0, |sum: u64, rows| sum.saturating_add(rows.end - rows.start));
        // A row of nothing has a number too.
        check_len(part, count.saturating_mul(row_len.max(size_of::<u64>() as u64)), most)?;
        grow(part, &mut stored, to_usize(count.saturating_mul(row_len)))?;
        counts.extend(ranges.iter().map(|rows| to_usize((rows.end - rows.start).saturating_mul(inner))));
        let rows: Vec<u64> = ranges.into_iter().flatten().collect();
        part.opened.read_rows(variable, &rows, &mut stored)?;
        return Ok((stored, counts));
    }
    for number in numbers {
        part.index.spans(*number, shape, &mut spans);
        let count = spans.iter().fold(1, |count: u64, span| count.saturating_mul(span.count));
        let len = count.saturating_mul(each as u64);
        check_len(part, len.saturating_add(stored.len() as u64), most)?;
        let sample = part.opened.read_stored(variable, &Selection::new(std::mem::take(&mut spans)))?;
        counts.push(sample.len() / each.max(1));
        let start = stored.len();
        grow(part, &mut stored, sample.len())?;
        stored[start..].copy_from_slice(&sample);
    }
    Ok((stored, counts))
}

/// Refuses `len` bytes of references where that is more than `most`: a damaged file may say anything of its shape.
fn check_len(part: &ColumnPart, len: u64, most: u64) -> Result<()> {
    if len <= most {
        return Ok(());
    }
    let what = format!("{len} bytes of references are needed at once, and there is memory for {most}");
    Err(part.named(Error::new(ErrorKind::Full, what).hint("set memory higher, or batch_size lower")))
}

/// Adds `len` zeros to `bytes`.
fn grow(part: &ColumnPart, bytes: &mut Vec<u8>, len: usize) -> Result<()> {
    let full = |error| {
        part.named(
            Error::new(ErrorKind::Full, format!("no memory for {len} bytes of references")).because(error),
        )
    };
    bytes.try_reserve(len).map_err(full)?;
    bytes.resize(bytes.len() + len, 0);
    Ok(())
}

impl Column {
    /// Bytes of the elements that `references` lead to, as they are read; of several texts each ends with a NUL.
    pub(crate) fn referenced_len(&self, part: &ColumnPart, references: &[HeapReference]) -> u64 {
        let element_len = part.element_len() as u64;
        let ends = u64::from(self.elements == Some(ValueKind::Texts));
        references.iter().fold(0, |sum: u64, reference| {
            sum.saturating_add(reference.count().saturating_mul(element_len)).saturating_add(ends)
        })
    }

    /// Bytes that a sample of `part` takes at once whose elements are `len` bytes as they are read: with `is_copied`, or where
    /// they are converted, as they are read and as they are delivered.
    pub(crate) fn needed_len(&self, part: &ColumnPart, len: u64, is_copied: bool) -> u64 {
        let delivered = (len / part.element_len().max(1) as u64).saturating_mul(self.final_len() as u64);
        let is_twice = is_copied || ConvertSample::of(self).is_needed();
        if is_twice { delivered.saturating_add(len) } else { delivered }
    }

    /// The same of sample `number` of `part`; more than there can be where it is too long to be read in `memory` bytes.
    pub(crate) fn needed_alone(&self, part: &ColumnPart, number: u64, memory: u64) -> Result<u64> {
        match self.read_alone(part, number, memory) {
            Err(error) if error.kind() == ErrorKind::Full => Ok(u64::MAX),
            needed => needed,
        }
    }

    fn read_alone(&self, part: &ColumnPart, number: u64, memory: u64) -> Result<u64> {
        if let Some(found) = of(part, &[number], memory)? {
            return Ok(self.needed_len(part, self.referenced_len(part, &found.references), false));
        }
        let (variable, mut spans) = (part.variable(), Vec::new());
        part.index.spans(number, &variable.grid.shape, &mut spans);
        let array = part.opened.read(variable, &Selection::new(spans))?;
        let ends = if self.elements == Some(ValueKind::Texts) { array.element_count() } else { 0 };
        let (Values::Fixed(bytes) | Values::Variable { bytes, .. }) = &array.values;
        Ok(self.needed_len(part, ends.saturating_add(bytes.len() as u64), true))
    }

    /// How many numbers, or bytes of texts, samples `numbers` of `part` have by their references; nothing where only reading the
    /// values shows it. Of texts it may be too many: what a writer has padded ends at its first NUL.
    fn item_counts(&self, part: &ColumnPart, numbers: Range<u64>) -> Result<Option<Vec<u64>>> {
        let numbers: Vec<u64> = numbers.collect();
        let Some(found) = of(part, &numbers, MOST_BYTES)? else { return Ok(None) };
        let items = |range: &Range<usize>| {
            self.referenced_len(part, &found.references[range.clone()]) / part.element_len().max(1) as u64
        };
        Ok(Some(found.of_samples.iter().map(items).collect()))
    }

    /// The same of all samples.
    pub(crate) fn all_item_counts(&self) -> Result<Option<Vec<u64>>> {
        let mut counts = Vec::new();
        for part in &self.parts {
            let (samples, variable) = (part.sample_count(), part.variable());
            let len = product(&variable.grid.shape).saturating_mul(variable.dtype.stored_len() as u64);
            let step = (AT_ONCE_BYTES / (len / samples.max(1)).max(1)).max(1);
            for start in (0..samples).step_by(to_usize(step)) {
                let Some(more) = self.item_counts(part, start..samples.min(start + step))? else {
                    return Ok(None);
                };
                let full =
                    |error| Error::new(ErrorKind::Full, "no memory for lengths of samples").because(error);
                counts.try_reserve(more.len()).map_err(full)?;
                counts.extend(more);
            }
        }
        Ok(Some(counts))
    }

    /// How many numbers, or bytes of texts, a sample usually has whose elements differ in length: those of a few samples, without
    /// the longest of them, or a guess.
    pub(crate) fn usual_items(&self) -> u64 {
        *self.usual_items.get_or_init(|| {
            let mut counts = Vec::new();
            let ends = [self.parts.first(), self.parts.last()];
            for part in ends.into_iter().flatten().take(self.parts.len()) {
                let (count, middle) = (part.sample_count(), part.sample_count() / 2);
                for place in [0..middle.min(LOOKED_AT), middle..count.min(middle + LOOKED_AT)] {
                    counts.extend(self.item_counts(part, place).ok().flatten().unwrap_or_default());
                }
            }
            counts.sort_unstable();
            // One that is much longer than others would be taken for many.
            counts.truncate(counts.len() - counts.len().div_ceil(8).min(counts.len().saturating_sub(1)));
            let sum = counts.iter().copied().fold(0, u64::saturating_add);
            sum.checked_div(counts.len() as u64).unwrap_or(GUESSED_LEN)
        })
    }
}
