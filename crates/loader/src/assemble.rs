//! From sample numbers to the memory of a batch: each source asked once, each unit touched once.

mod doubt;
mod fetch;
mod finish;
mod making;
mod rows;
mod spare;

use std::sync::Arc;

use forebay_source::{Error, ErrorKind, Grant, ProcessIdentity, Result, current_process};

use crate::{
    arena::Arena,
    batch::FieldArray,
    cache::{Now, UnitCache},
    column::{Column, Form},
    layout::{ColumnLayout, Layout},
    set::SampleSet,
    spill_folder::SpillFolder,
    stats::Counters,
};
pub(crate) use doubt::Doubts;
pub(crate) use fetch::{MOST_SPILL_READS, pieces};
use finish::Finish;
use making::{Field, Made, Making};

/// Puts samples side by side. Many threads may do so at once.
#[derive(Debug)]
pub(crate) struct Assembler {
    pub(crate) set: Arc<SampleSet>,
    pub(crate) layout: Arc<Layout>,
    /// Memory of batches, which consumers hold on to.
    pub(crate) arena: Arc<Arena>,
    pub(crate) cache: Arc<UnitCache>,
    /// True when memory and the spill have room for all units.
    pub(crate) keeps_units: bool,
    pub(crate) counters: Arc<Counters>,
    /// The most bytes that are taken at once.
    pub(crate) memory: u64,
    /// Where the spill lies.
    pub(crate) place: Option<SpillFolder>,
    /// The process it belongs to.
    pub(crate) process: ProcessIdentity,
    /// The memory that was granted; last, so that it is free again only when all of it is.
    pub(crate) grant: Grant,
}

/// Samples that are changed on their way are read in groups of this many bytes: what was read is still in the nearest
/// cache when it is changed.
const GROUP_BYTES: u64 = 256 << 10;

impl Assembler {
    /// All fields of the samples `slots`; a slot without a sample is left zero.
    pub(crate) fn assemble(&self, slots: &[Option<u64>], now: Now<'_>) -> Result<Vec<FieldArray>> {
        let (fields, doubts) = self.copy(slots, now)?;
        self.vouch(&doubts)?;
        Ok(fields)
    }

    /// All fields of the samples `slots`, to be believed once the sources they came from have vouched for them.
    pub(crate) fn copy(&self, slots: &[Option<u64>], now: Now<'_>) -> Result<(Vec<FieldArray>, Doubts)> {
        if self.process != current_process() {
            // Its locks may be held for ever, and its units are not here.
            let error = Error::new(ErrorKind::Invalid, "a data set that is in use does not survive a fork");
            return Err(error.hint("make it anew in the child"));
        }
        if let Some(sample) = slots.iter().flatten().find(|sample| **sample >= self.set.len()) {
            let what = format!("sample {sample} of {}", self.set.len());
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let mut making = Making::new(self, now);
        let mut made: Vec<Option<Made>> = self.set.columns.iter().map(|_| None).collect();
        for number in self.layout.short_first.iter().copied() {
            let (column, layout) = (&self.set.columns[number], &self.layout.columns[number]);
            made[number] = Some(making.field(Field { number, is_indices: false, column, layout }, slots)?);
        }
        let fields = made.into_iter().flatten().flat_map(|Made { values, mask }| [Some(values), mask]);
        Ok((fields.flatten().collect(), making.doubts))
    }
}

/// Bytes that a thread needs besides a batch of `batch` samples to make `column` of it, which is read as `layout` says.
pub(crate) fn scratch_len(column: &Column, layout: &ColumnLayout, batch: u64) -> u64 {
    let sample_len = column.mean_count().saturating_mul(column.element_len as u64);
    if let Some(dense) = &column.dense {
        let numbers = dense.indices.mean_count().saturating_mul(dense.indices.element_len as u64);
        return sample_len.saturating_mul(2).saturating_add(numbers).saturating_mul(batch);
    }
    let finish = Finish::of(column);
    match &column.form {
        Form::Stacked { .. } if finish.is_needed() => {
            let together = (group_len(column) as u64).min(batch);
            let turned = if finish.copies_twice() { sample_len } else { 0 };
            sample_len.saturating_mul(together).saturating_add(turned)
        }
        Form::Joined { axis, .. } if finish.is_needed() || (*axis > 0 && !layout.has_lines) => {
            sample_len.saturating_mul(batch)
        }
        _ => 0,
    }
}

/// How many samples of `column` are read together: those of a batch, or fewer where they are changed on their way.
pub(crate) fn group_len(column: &Column) -> usize {
    match column.stacked_count() {
        Some(count) if column.dense.is_none() && Finish::of(column).is_needed() => {
            let read_len = index(count.saturating_mul(column.element_len as u64));
            index(GROUP_BYTES).checked_div(read_len).unwrap_or(0).max(1)
        }
        _ => usize::MAX,
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
