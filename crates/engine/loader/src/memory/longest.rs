//! Samples that are longer than all memory there is for them: known beforehand where offsets say how long each is.

use forebay_plan::Sampler;
use forebay_process::{Error, ErrorKind, Event, EventKind, Result};

use crate::{
    options::{OnError, Options},
    set::{
        SampleSet,
        column::{Column, ColumnPart, SampleForm, others},
    },
};

/// The longest sample of a field.
#[derive(Debug, PartialEq, Eq)]
struct Longest<'a> {
    column: &'a str,
    sample: u64,
    bytes: u64,
}

impl SampleSet {
    /// The most bytes that one field of `sample` takes at once, where no more than `memory` bytes are taken to find out.
    pub(crate) fn most_bytes(&self, sample: u64, memory: u64) -> u64 {
        let bytes = |column: &Column| {
            let located = column.locate(sample);
            let part = column.part(located);
            match column.elements {
                Some(_) => column.needed_alone(part, located.number, memory).unwrap_or(0),
                None => column.bytes_of(part, located.number),
            }
        };
        self.columns.iter().flat_map(Column::with_indices).map(bytes).max().unwrap_or(0)
    }

    /// Says of a sample that is longer than `memory` bytes, before any is read: a run would meet it in the middle of an epoch.
    pub(crate) fn check_longest(&self, memory: u64, options: &Options) -> Result<()> {
        // How long texts and sequences are is found when they are read.
        let known = self.columns.iter().filter(|column| column.elements.is_none());
        let columns = known.flat_map(Column::with_indices);
        let Some(Longest { column, sample, bytes }) = columns
            .filter_map(|column| column.longest_beyond(memory, &options.sampler))
            .max_by_key(|longest| longest.bytes)
        else {
            return Ok(());
        };
        let what = format!(
            "memory={memory} is less than the {bytes} bytes that sample {sample} of field '{column}' takes at once"
        );
        if options.on_error == OnError::Raise {
            let error = Error::new(ErrorKind::Full, what);
            return Err(error.hint("set memory higher, or leave such samples out with on_error='skip'"));
        }
        Event::new(EventKind::Sample, format!("{what}: it counts as one that cannot be read")).emit();
        Ok(())
    }
}

impl Column {
    /// The field itself, and the column numbers of its sparse rows.
    fn with_indices(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.dense.as_ref().map(|dense| &*dense.indices))
    }

    /// Bytes of sample `number` of `part`, as it is read or as it is delivered, whichever are more.
    fn bytes_of(&self, part: &ColumnPart, number: u64) -> u64 {
        let count = match &self.form {
            SampleForm::Stacked { .. } => self.stacked_count().unwrap_or(0),
            SampleForm::Joined { axis, shape } => {
                self.len_along(part, number, *axis).saturating_mul(others(shape, *axis))
            }
        };
        count.saturating_mul(self.element_len.max(self.final_len()) as u64)
    }

    /// The longest of the samples that take more than `memory` bytes, where they differ in length.
    fn longest_beyond(&self, memory: u64, sampler: &Sampler) -> Option<Longest<'_>> {
        let SampleForm::Joined { axis, shape } = &self.form else { return None };
        let unit = others(shape, *axis);
        let each = unit.saturating_mul(self.element_len.max(self.final_len()) as u64);
        let mut longest: Option<Longest<'_>> = None;
        for (number, part) in (0u32..).zip(&self.parts) {
            // Most files hold less than memory in all: only the others are looked at sample by sample.
            if part.total_along(*axis, unit).saturating_mul(each) <= memory {
                continue;
            }
            let samples = self.samples(number, 0..part.sample_count());
            for (sample, at) in samples.zip(0..) {
                let bytes = self.bytes_of(part, at);
                if bytes > longest.as_ref().map_or(memory, |longest| longest.bytes) && sampler.has(sample) {
                    longest = Some(Longest { column: &self.name, sample, bytes });
                }
            }
        }
        longest
    }
}
