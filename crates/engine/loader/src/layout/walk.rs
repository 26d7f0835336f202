//! The walk over the samples of a batch that reading, the estimate and the schedule have in common: field by field, group
//! by group, file by file.

use forebay_process::Result;

use crate::{
    assemble::convert_sample::samples_per_read,
    layout::{ColumnLayout, SetLayout, Storage},
    set::{
        SampleSet,
        column::{Column, SampleAt},
    },
};

/// One field and how it is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRead<'a> {
    /// Its place among the fields of the set.
    pub(crate) number: usize,
    /// True for the column numbers of its sparse rows.
    pub(crate) is_indices: bool,
    pub(crate) column: &'a Column,
    pub(crate) layout: &'a ColumnLayout,
}

/// Something that is wanted of one sample.
pub(crate) trait InPart {
    /// Where the sample is.
    fn located(&self) -> SampleAt;
}

impl InPart for SampleAt {
    fn located(&self) -> SampleAt {
        *self
    }
}

/// What is called with the samples of one field in one file, and how they are stored.
type VisitPart<'v, 'a> = dyn FnMut(FieldRead<'a>, &'a Storage, &mut [SampleAt]) -> Result<()> + 'v;

impl<'a> FieldRead<'a> {
    /// Field `number` of `set`.
    pub(crate) fn of(set: &'a SampleSet, layout: &'a SetLayout, number: usize) -> Self {
        Self { number, is_indices: false, column: &set.columns[number], layout: &layout.columns[number] }
    }

    /// All fields of `set`, in the order they are read.
    pub(crate) fn all(set: &'a SampleSet, layout: &'a SetLayout) -> impl Iterator<Item = Self> {
        layout.short_first.iter().map(|number| Self::of(set, layout, *number))
    }

    /// The column numbers of sparse rows, where the field has them.
    pub(crate) fn indices(self) -> Option<Self> {
        let column = &*self.column.dense.as_ref()?.indices;
        Some(Self { is_indices: true, column, layout: self.layout.indices.as_deref()?, ..self })
    }

    /// Calls `visit` with every group of `samples` that is read at once, as [`each_part`](Self::each_part) does, also with
    /// those of the column numbers of sparse rows.
    pub(crate) fn each_group(
        self,
        samples: impl Iterator<Item = u64>,
        visit: &mut VisitPart<'_, 'a>,
    ) -> Result<()> {
        if let Some(windows) = self.column.series() {
            let samples: Vec<u64> = samples.collect();
            for group in samples.chunks(samples_per_read(self.column)) {
                let mut pieces = Vec::with_capacity(group.len());
                for sample in group {
                    self.column.each_piece(windows, *sample, |at, _| pieces.push(at));
                }
                self.each_part(&mut pieces, |_, storage, same_part| visit(self, storage, same_part))?;
            }
            return Ok(());
        }
        let mut located: Vec<SampleAt> = samples.map(|sample| self.column.locate(sample)).collect();
        for group in located.chunks_mut(samples_per_read(self.column)) {
            self.each_part(group, |_, storage, same_part| visit(self, storage, same_part))?;
        }
        let Some(indices) = self.indices() else { return Ok(()) };
        indices.each_part(&mut located, |_, storage, same_part| visit(indices, storage, same_part))
    }

    /// Sorts `items` by file, so that each is asked once, and calls `visit` with those of each.
    pub(crate) fn each_part<'t, T: InPart>(
        self,
        items: &'t mut [T],
        mut visit: impl FnMut(u32, &'a Storage, &'t mut [T]) -> Result<()>,
    ) -> Result<()> {
        if self.column.parts.len() > 1 {
            items.sort_unstable_by_key(|item| item.located().part);
        }
        for same_part in items.chunk_by_mut(|one, next| one.located().part == next.located().part) {
            let part = same_part[0].located().part;
            visit(part, &self.layout.parts[part as usize], same_part)?;
        }
        Ok(())
    }
}
