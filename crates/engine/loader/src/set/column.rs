//! One field of a sample, over all files.

use std::{
    ops::Range,
    sync::{Arc, OnceLock, atomic::AtomicUsize},
};

use forebay_container::{
    Dtype, Number, Variable,
    categories::Categories,
    cf::ValueKind,
    recode::Recode,
    sample_index::SampleIndex,
    sample_starts::SampleStarts,
    series::SeriesWindows,
    shape::product,
    unpack::{Unpacked, Unpacker},
};
use forebay_format::Opened;
use forebay_process::Error;

use crate::spec::Convert;

/// One field of a sample, over all files.
#[derive(Debug)]
pub(crate) struct Column {
    /// What it is called in a batch.
    pub(crate) name: String,
    /// The type of its elements in memory, before they are converted; a file that stores others has them recoded or cast.
    pub(crate) dtype: Dtype,
    /// Bytes of the longest element that some file stores.
    pub(crate) element_len: usize,
    /// True when files store elements of different types.
    pub(crate) is_mixed: bool,
    /// True when codes of some file are others in the table of all.
    pub(crate) is_recoded: bool,
    /// The names its values stand for, one table for all files.
    pub(crate) categories: Option<Categories>,
    /// What is done to them.
    pub(crate) convert: Convert,
    /// What they are once they are unpacked, before they are converted; nothing where they are as they are read.
    pub(crate) unpacked: Option<Unpacked>,
    /// How samples stand in a batch.
    pub(crate) form: SampleForm,
    /// One for each file.
    pub(crate) parts: Vec<ColumnPart>,
    /// The first sample of each file, and one past the last of all.
    pub(crate) starts: SampleStarts,
    /// Which columns of a dense row the values of a sparse one stand in.
    pub(crate) dense: Option<DenseColumn>,
    /// True when every group of a file is a part of its own.
    pub(crate) is_grouped: bool,
    /// What its elements consist of, where they differ in length by themselves: numbers of a sequence, or a text.
    pub(crate) elements: Option<ValueKind>,
    /// How many of these a sample usually has, once that was looked at.
    pub(crate) usual_items: OnceLock<u64>,
    /// Bytes of a sample of the last batch that was read, where only reading shows how long they are; 0 before.
    pub(crate) read_len: AtomicUsize,
}

/// Where the values of sparse rows go.
#[derive(Debug)]
pub(crate) struct DenseColumn {
    /// The column of each value.
    pub(crate) indices: Box<Column>,
    /// How many a row has.
    pub(crate) columns: u64,
}

/// Numbers, or bytes of text, that are expected of a sample of which only reading tells how many it has. Groups of a block shuffle
/// follow from it, so that no file need be read for them; memory is taken by what samples really have.
pub(crate) const GUESSED_LEN: u64 = 64;

/// How the samples of a column stand in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SampleForm {
    /// All of one shape, one after the other along an axis of their own.
    Stacked {
        /// The shape of one.
        shape: Vec<u64>,
    },
    /// Joined along an axis they have, each as long as it is.
    Joined {
        /// Which.
        axis: usize,
        /// The shape of one; what stands at `axis` does not count.
        shape: Vec<u64>,
    },
}

/// A column's variable in one file.
#[derive(Debug)]
pub(crate) struct ColumnPart {
    /// The file.
    pub(crate) opened: Arc<Opened>,
    /// Its place among the container's variables.
    pub(crate) variable: usize,
    /// Which of its elements are which sample.
    pub(crate) index: SampleIndex,
    /// How its values are unpacked; nothing where they are as they are read.
    pub(crate) unpacker: Option<Box<Unpacker>>,
    /// What its codes are in the table of all files; nothing where they are the same.
    pub(crate) recode: Option<Box<Recode>>,
    /// Which member of its compound elements is meant; nothing where it is all of them.
    pub(crate) member: Option<Box<MemberPlace>>,
}

/// Where a member of a compound lies in an element.
#[derive(Debug)]
pub(crate) struct MemberPlace {
    pub(crate) offset: usize,
    pub(crate) dtype: Dtype,
}

impl ColumnPart {
    pub(crate) fn variable(&self) -> &Variable {
        &self.opened.container().variables[self.variable]
    }

    /// `error`, with the names of the variable and its file.
    pub(crate) fn named(&self, error: Error) -> Error {
        named(&self.opened, self.variable(), error)
    }

    /// How many samples it has.
    pub(crate) fn sample_count(&self) -> u64 {
        self.index.count()
    }

    /// The type of its values: of a member, of whole elements, or of what elements of any length consist of.
    pub(crate) fn dtype(&self) -> &Dtype {
        self.member.as_ref().map_or(self.variable().dtype.values(), |member| &member.dtype)
    }

    /// Bytes of an element as it is read.
    pub(crate) fn element_len(&self) -> usize {
        self.variable().dtype.values().native_len()
    }

    /// Elements of all samples along the axis they are joined by, each `unit` elements wide.
    pub(crate) fn total_along(&self, axis: usize, unit: u64) -> u64 {
        match &self.index {
            index if self.variable().dtype.is_variable() => index.count().saturating_mul(GUESSED_LEN),
            SampleIndex::Ragged { bounds, .. } => bounds.total(),
            // Rows of one length among ragged ones lie flat.
            SampleIndex::Rows { .. } => product(&self.variable().grid.shape).checked_div(unit).unwrap_or(0),
            SampleIndex::Repeated(own) => own.count.saturating_mul(self.variable().grid.shape[axis]),
            _ => self.variable().grid.shape[axis],
        }
    }
}

/// `error`, with the names of `variable` and its file.
pub(crate) fn named(opened: &Opened, variable: &Variable, error: Error) -> Error {
    let error = error.at(format!("variable '{}'", variable.name));
    match opened.container().sources.first() {
        Some(id) => error.at(&id.locator),
        None => error,
    }
}

/// Where a sample is: in which file, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SampleAt {
    pub(crate) part: u32,
    pub(crate) number: u64,
}

impl Column {
    /// The boxes of samples that go on from file to file.
    pub(crate) fn series(&self) -> Option<&SeriesWindows> {
        match &self.parts.first()?.index {
            SampleIndex::Series(part) => Some(part.windows()),
            _ => None,
        }
    }

    /// Calls `each` with where the pieces of `sample` are, in their order, and how many elements each has.
    pub(crate) fn each_piece(
        &self,
        windows: &SeriesWindows,
        sample: u64,
        mut each: impl FnMut(SampleAt, u64),
    ) {
        let row = match &self.form {
            SampleForm::Stacked { shape } | SampleForm::Joined { shape, .. } => others(shape, 0),
        };
        windows.each_piece(sample, |piece| {
            let part = u32::try_from(piece.file).unwrap_or(u32::MAX);
            each(SampleAt { part, number: piece.number }, piece.rows.saturating_mul(row));
        });
    }

    /// Where sample `sample` of the whole set is; of one in several files, where it begins.
    pub(crate) fn locate(&self, sample: u64) -> SampleAt {
        if let Some(windows) = self.series() {
            let mut first = None;
            self.each_piece(windows, sample, |at, _| first = first.or(Some(at)));
            return first.unwrap_or(SampleAt { part: 0, number: 0 });
        }
        let part = self.starts.part(sample);
        SampleAt { part: u32::try_from(part).unwrap_or(u32::MAX), number: sample - self.starts.of(part) }
    }

    pub(crate) fn part(&self, located: SampleAt) -> &ColumnPart {
        &self.parts[located.part as usize]
    }

    pub(crate) fn len(&self) -> u64 {
        self.starts.total()
    }

    /// The type of an element in a batch.
    pub(crate) fn final_dtype(&self) -> Dtype {
        match self.final_number() {
            Some(_) if self.kind() == ValueKind::Bool => Dtype::boolean(),
            Some(number) => Dtype::native(number),
            None => self.dtype.clone(),
        }
    }

    /// The number type of an element in a batch, where it is not the one it is read as.
    pub(crate) fn final_number(&self) -> Option<Number> {
        self.convert.to.or(self.unpacked.map(|unpacked| unpacked.number))
    }

    /// What values in a batch stand for: plain numbers where the user has them cast or scaled.
    pub(crate) fn kind(&self) -> ValueKind {
        if let Some(text) = self.elements.filter(|kind| *kind != ValueKind::Number) {
            return text;
        }
        let unpacked = self.unpacked.filter(|_| !self.convert.changes_values());
        unpacked.map_or(ValueKind::Number, |unpacked| unpacked.kind)
    }

    /// True when a field of its own tells which values are missing.
    pub(crate) fn has_mask(&self) -> bool {
        self.unpacked.is_some_and(|unpacked| unpacked.has_mask)
    }

    /// What that field is called.
    pub(crate) fn mask_name(&self) -> String {
        format!("{}_mask", self.name)
    }

    /// Elements of one sample, where all have equally many.
    pub(crate) fn stacked_count(&self) -> Option<u64> {
        match &self.form {
            SampleForm::Stacked { shape } => Some(product(shape)),
            SampleForm::Joined { .. } => None,
        }
    }

    /// Elements of the sample, or the piece of one, at `at`, as it is read.
    pub(crate) fn sample_count(&self, at: SampleAt) -> u64 {
        let part = self.part(at);
        if let SampleIndex::Series(_) = &part.index {
            let mut spans = Vec::new();
            part.index.spans(at.number, &part.variable().grid.shape, &mut spans);
            return spans.iter().fold(1, |count: u64, span| count.saturating_mul(span.count));
        }
        match &self.form {
            SampleForm::Stacked { shape } => product(shape),
            SampleForm::Joined { axis, shape } => {
                self.len_along(self.part(at), at.number, *axis).saturating_mul(others(shape, *axis))
            }
        }
    }

    /// Elements of an index along the axis that samples are joined by.
    fn stacked_unit(&self) -> u64 {
        match &self.form {
            SampleForm::Stacked { .. } => 1,
            SampleForm::Joined { axis, shape } => others(shape, *axis),
        }
    }

    /// How long sample `number` of `part` is along the axis it is joined by; what is usual where only reading it tells.
    pub(crate) fn len_along(&self, part: &ColumnPart, number: u64, axis: usize) -> u64 {
        match &part.index {
            _ if self.elements.is_some() => self.usual_items(),
            SampleIndex::Whole | SampleIndex::Repeated(_) => part.variable().grid.shape[axis],
            SampleIndex::Rows { rows, .. } => {
                let unit = self.stacked_unit();
                rows.saturating_mul(product(&part.variable().grid.shape[1..])).checked_div(unit).unwrap_or(0)
            }
            index => index.len_along(number),
        }
    }

    /// The samples of each file.
    pub(crate) fn file_lens(&self) -> Vec<u64> {
        if !self.is_grouped {
            return self.starts.counts();
        }
        let same_file = |one: &ColumnPart, other: &ColumnPart| Arc::ptr_eq(&one.opened, &other.opened);
        let samples = |groups: &[ColumnPart]| groups.iter().map(ColumnPart::sample_count).sum();
        self.parts.chunk_by(same_file).map(samples).collect()
    }

    /// The samples of the whole set that are `numbers` of file `part`.
    pub(crate) fn samples(&self, part: u32, numbers: Range<u64>) -> Range<u64> {
        if let SampleIndex::Series(own) = &self.parts[part as usize].index {
            return own.samples(numbers);
        }
        let start = self.starts.of(part as usize);
        start + numbers.start..start + numbers.end
    }

    /// The usual bytes of one sample in a batch, for planning.
    pub(crate) fn mean_sample_len(&self) -> u64 {
        let count = match &self.dense {
            Some(dense) => dense.columns,
            None => self.mean_count(),
        };
        count.saturating_mul(self.delivered_len() as u64)
    }

    /// Bytes a batch has for each element: those of the mask too.
    pub(crate) fn delivered_len(&self) -> usize {
        self.final_len() + usize::from(self.has_mask())
    }

    /// The usual number of elements of one sample, as it is read.
    pub(crate) fn mean_count(&self) -> u64 {
        let SampleForm::Joined { axis, shape } = &self.form else { return self.stacked_count().unwrap_or(0) };
        let unit = others(shape, *axis);
        let totals = self.parts.iter().map(|part| part.total_along(*axis, unit));
        totals.fold(0u64, u64::saturating_add).saturating_mul(unit) / self.len().max(1)
    }

    /// Bytes of an element in a batch.
    pub(crate) fn final_len(&self) -> usize {
        self.final_number().map_or(self.dtype.native_len(), Number::size)
    }
}

/// The product of `shape` but for `axis`.
pub(crate) fn others(shape: &[u64], axis: usize) -> u64 {
    let rest = shape.iter().enumerate().filter(|(at, _)| *at != axis);
    rest.fold(1, |product: u64, (_, len)| product.saturating_mul(*len))
}
