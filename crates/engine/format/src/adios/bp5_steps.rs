//! BP5's table of steps: which bytes of `md.0` describe a step, and where each writer's values begin.

use std::sync::Arc;

use forebay_process::{Error, Result};

use super::head::Head;
use forebay_container::ByteOrder;
use forebay_filter::ByteCursor;

/// A step of the table.
#[derive(Debug)]
pub(super) struct StepEntry {
    /// Where its records begin in `md.0`.
    pub(super) at: u64,
    /// How many bytes they take.
    pub(super) len: u64,
    pub(super) writers: Writers,
}

/// Where the writers of a step put their values.
#[derive(Debug)]
pub(super) struct Writers {
    /// The data file of each writer.
    files: Arc<Vec<u64>>,
    /// For each writer, (place, length) of what it flushed before the end of the step, then the place of the rest.
    places: Vec<u64>,
    flush_count: u64,
}

impl Writers {
    /// How many writers there are.
    pub(super) fn count(&self) -> u64 {
        self.files.len() as u64
    }

    /// The data file and the place in it of byte `offset` of all that `writer` put.
    pub(super) fn locate(&self, writer: u64, offset: u64) -> Result<(u64, u64)> {
        let width = usize::try_from(2 * self.flush_count + 1).unwrap_or(usize::MAX);
        let index = usize::try_from(writer).unwrap_or(usize::MAX);
        let places = self.places.chunks_exact(width).nth(index);
        let (Some(file), Some(places)) = (self.files.get(index), places) else {
            return Err(Error::corrupt(format!("no writer {writer}")));
        };
        let mut rest = offset;
        let (flushed, last) = places.split_at(places.len() - 1);
        for flush in flushed.chunks_exact(2) {
            if rest < flush[1] {
                return end(flush[0], rest).map(|at| (*file, at));
            }
            rest -= flush[1];
        }
        end(last[0], rest).map(|at| (*file, at))
    }
}

fn end(place: u64, offset: u64) -> Result<u64> {
    place.checked_add(offset).ok_or_else(|| Error::corrupt("values beyond any file"))
}

/// The steps of `table`, the contents of `md.idx`.
pub(super) fn parse(table: &[u8], order: ByteOrder) -> Result<Vec<StepEntry>> {
    let mut cursor = ByteCursor::new(table, order);
    cursor.take(Head::LEN)?;
    let mut files = Arc::new(Vec::new());
    let mut steps = Vec::new();
    while cursor.left() > 0 {
        let at = cursor.position();
        let kind = cursor.u8()?;
        let len = cursor.u64()?;
        let mut record = cursor.inner(len)?;
        let read = match kind {
            b'w' => writer_files(&mut record).map(|read| files = Arc::new(read)),
            b's' => step(&mut record, &files).map(|step| steps.push(step)),
            _ => Err(Error::corrupt(format!("no such record: {kind}"))),
        };
        read.map_err(|error| error.at(format!("record at {at:#x}")))?;
    }
    Ok(steps)
}

fn writer_files(record: &mut ByteCursor<'_>) -> Result<Vec<u64>> {
    let count = record.u64()?;
    record.take(16)?;
    rest_of(record, Some(count))
}

fn step(record: &mut ByteCursor<'_>, files: &Arc<Vec<u64>>) -> Result<StepEntry> {
    let (at, len, flush_count) = (record.u64()?, record.u64()?, record.u64()?);
    let each = flush_count.checked_mul(2).and_then(|flushed| flushed.checked_add(1));
    let count = each.and_then(|each| each.checked_mul(files.len() as u64));
    let places = rest_of(record, count)?;
    Ok(StepEntry { at, len, writers: Writers { files: Arc::clone(files), places, flush_count } })
}

/// The numbers that are left, which must be `count`.
fn rest_of(record: &mut ByteCursor<'_>, count: Option<u64>) -> Result<Vec<u64>> {
    if count.and_then(|count| count.checked_mul(8)) != Some(record.left() as u64) {
        return Err(Error::corrupt(format!(
            "{} bytes of numbers, where another count belongs",
            record.left()
        )));
    }
    (0..record.left() / 8).map(|_| record.u64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_flushed_lies_before_the_rest() {
        let places = vec![100, 10, 300, 5, 500, 0, 1, 2, 3, 4];
        let writers = Writers { files: Arc::new(vec![7, 8]), places, flush_count: 2 };
        let at = |offset| writers.locate(0, offset).unwrap();
        assert_eq!(
            [at(0), at(9), at(10), at(14), at(15)],
            [(7, 100), (7, 109), (7, 300), (7, 304), (7, 500)]
        );
        assert_eq!(writers.locate(1, 5).unwrap(), (8, 5));
        assert!(writers.locate(2, 0).is_err());
    }
}
