//! What is done to samples once they are read: unpacked, recoded, cast, scaled, transposed.

use forebay_container::{
    Number,
    cast::{Cast, transpose},
};
use forebay_process::Result;

use crate::{
    layout::ColumnLayout,
    set::column::{Column, ColumnPart, SampleForm},
    to_usize::to_usize,
};

/// What is done to the samples of one column.
pub(crate) struct ConvertSample<'a> {
    /// What numbers are multiplied by, and what is then added, once they are unpacked or recoded.
    scale: Option<(f64, f64)>,
    final_number: Option<Number>,
    /// True when numbers of some file change.
    changes: bool,
    /// The shape of a sample and the order its axes shall have.
    transposed: Option<(&'a [u64], &'a [usize])>,
    final_len: usize,
}

/// Where a sample goes in an array that samples are joined in.
#[derive(Clone, Copy)]
pub(crate) struct Joint<'a> {
    /// The shape of the array.
    pub(crate) shape: &'a [u64],
    /// The axis samples are joined along.
    pub(crate) axis: usize,
    /// The first index along it.
    pub(crate) start: u64,
}

/// Makes other numbers of numbers.
type ConvertStep<'a> = dyn Fn(&[u8], &mut [u8]) -> Result<()> + 'a;

/// Numbers that are unpacked and then cast at a time: what lies between stays in the first-level cache.
const NUMBERS_AT_ONCE: usize = 512;

/// Samples that are converted are read in groups of this many bytes: what was read is still in the second-level cache
/// when it is converted.
const GROUP_BYTES: u64 = 256 << 10;

impl<'a> ConvertSample<'a> {
    pub(crate) fn of(column: &'a Column) -> Self {
        let convert = &column.convert;
        let scale = (convert.scale.is_some() || convert.add.is_some())
            .then(|| (convert.scale.unwrap_or(1.0), convert.add.unwrap_or(0.0)));
        let final_number = column.final_number().or(column.dtype.number());
        let is_cast = |from: Number| final_number.is_some_and(|to| cast(from, to, scale).is_some());
        let changes = column.unpacked.is_some()
            || column.is_recoded
            || column.is_mixed
            || column.parts.first().is_some_and(|part| part.member.is_some())
            || column.dtype.number().is_some_and(is_cast);
        let transposed = match (&column.form, &convert.axes) {
            (SampleForm::Stacked { shape }, Some(axes)) if !axes.is_sorted() => Some((&shape[..], &axes[..])),
            _ => None,
        };
        Self { scale, final_number, changes, transposed, final_len: column.final_len() }
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.changes || self.transposed.is_some()
    }

    /// True when a sample is transposed and then converted.
    pub(crate) fn copies_twice(&self) -> bool {
        self.changes && self.transposed.is_some()
    }

    /// One sample of `part`, all of whose elements lie together in the batch.
    pub(crate) fn sample(
        &self,
        part: &ColumnPart,
        from: &[u8],
        to: &mut [u8],
        mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let Some((shape, axes)) = self.transposed else { return self.change(part, from, to, mask) };
        if !self.changes {
            transpose(from, shape, axes, part.element_len(), to);
            return Ok(());
        }
        let mut moved = vec![0; from.len()];
        transpose(from, shape, axes, part.element_len(), &mut moved);
        self.change(part, &moved, to, mask)
    }

    /// One sample whose elements lie together in the batch, of pieces of several files: whose, and how many elements of each.
    pub(crate) fn pieces(
        &self,
        pieces: &[(&ColumnPart, usize)],
        from: &[u8],
        to: &mut [u8],
        mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let Some((shape, axes)) = self.transposed else { return self.change_pieces(pieces, from, to, mask) };
        if !self.changes {
            transpose(from, shape, axes, self.final_len, to);
            return Ok(());
        }
        // Each file has numbers of its own: they are changed first, and then moved.
        let mut changed = vec![0; to.len()];
        let mut missing = mask.as_ref().map(|mask| vec![0; mask.len()]);
        self.change_pieces(pieces, from, &mut changed, missing.as_deref_mut())?;
        transpose(&changed, shape, axes, self.final_len, to);
        if let (Some(missing), Some(mask)) = (missing, mask) {
            transpose(&missing, shape, axes, 1, mask);
        }
        Ok(())
    }

    fn change_pieces(
        &self,
        pieces: &[(&ColumnPart, usize)],
        mut from: &[u8],
        mut to: &mut [u8],
        mut mask: Option<&mut [u8]>,
    ) -> Result<()> {
        for (part, count) in pieces {
            let (own, after) = from.split_at(count * part.element_len());
            let (out, rest) = std::mem::take(&mut to).split_at_mut(count * self.final_len);
            let missing = mask.take().map(|mask| mask.split_at_mut(*count));
            let (missing, beyond) = missing.map_or((None, None), |(own, beyond)| (Some(own), Some(beyond)));
            self.change(part, own, out, missing)?;
            (from, to, mask) = (after, rest, beyond);
        }
        Ok(())
    }

    /// One sample of `part` that is joined to others.
    pub(crate) fn joined(
        &self,
        part: &ColumnPart,
        from: &[u8],
        joint: Joint<'_>,
        to: &mut [u8],
        mut mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let Joint { shape, axis, start } = joint;
        let outer = to_usize(shape[..axis].iter().product());
        let inner = to_usize(shape[axis + 1..].iter().product());
        let (row, skip) = (to_usize(shape[axis]) * inner, to_usize(start) * inner);
        let Some(run) = from.len().checked_div(outer).filter(|run| *run > 0) else { return Ok(()) };
        let count = run / part.element_len().max(1);
        for (number, from) in from.chunks_exact(run).enumerate() {
            let at = number * row + skip;
            let to = &mut to[at * self.final_len..(at + count) * self.final_len];
            self.change(part, from, to, mask.as_mut().map(|mask| &mut mask[at..at + count]))?;
        }
        Ok(())
    }

    /// Unpacks or recodes numbers of `part`, and casts them; of compounds, those of the member that is meant.
    fn change(&self, part: &ColumnPart, from: &[u8], to: &mut [u8], mask: Option<&mut [u8]>) -> Result<()> {
        let Some(member) = &part.member else { return self.change_values(part, from, to, mask) };
        let within = member.offset..member.offset + member.dtype.native_len();
        let elements = from.chunks_exact(part.element_len().max(1));
        let values: Vec<u8> = elements.flat_map(|element| &element[within.clone()]).copied().collect();
        self.change_values(part, &values, to, mask)
    }

    fn change_values(
        &self,
        part: &ColumnPart,
        from: &[u8],
        to: &mut [u8],
        mut mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let cast = |from: Number| self.final_number.and_then(|to| cast(from, to, self.scale));
        let Some(unpacker) = &part.unpacker else {
            let stored = part.dtype().number();
            match (&part.recode, stored.and_then(cast)) {
                (Some(recode), _) => {
                    let step = |from: &[u8], to: &mut [u8]| recode.run(from, to);
                    self.change_and_cast(part, (recode.to(), cast(recode.to())), &step, from, to)?;
                }
                (None, Some(cast)) => cast.run(from, to),
                (None, None) => to.copy_from_slice(from),
            }
            return Ok(());
        };
        if let Some(mask) = mask.as_deref_mut() {
            unpacker.mask(from, mask);
        }
        let cast = cast(unpacker.to());
        let step = |from: &[u8], to: &mut [u8]| unpacker.run(from, to);
        self.change_and_cast(part, (unpacker.to(), cast), &step, from, to)?;
        if let (Some(mask), Some(_)) = (mask, cast) {
            // An offset has moved the zeros that stand for missing values.
            let missing =
                mask.iter().zip(to.chunks_exact_mut(self.final_len)).filter(|(gone, _)| **gone == 1);
            missing.for_each(|(_, value)| value.fill(0));
        }
        Ok(())
    }

    /// Numbers of `part` that `step` makes others of, which are then cast if they have to be.
    fn change_and_cast(
        &self,
        part: &ColumnPart,
        (number, cast): (Number, Option<Cast>),
        step: &ConvertStep<'_>,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let step = |from: &[u8], to: &mut [u8]| step(from, to).map_err(|error| part.named(error));
        let Some(cast) = cast else { return step(from, to) };
        let mut block = [0; 8 * NUMBERS_AT_ONCE];
        let element_len = part.dtype().native_len().max(1);
        let blocks =
            from.chunks(NUMBERS_AT_ONCE * element_len).zip(to.chunks_mut(NUMBERS_AT_ONCE * self.final_len));
        for (from, to) in blocks {
            let changed = &mut block[..from.len() / element_len * number.size()];
            step(from, changed)?;
            cast.run(changed, to);
        }
        Ok(())
    }
}

/// What makes numbers of type `to` of those of type `from`; nothing where they stay as they are.
fn cast(from: Number, to: Number, scale: Option<(f64, f64)>) -> Option<Cast> {
    (to != from || scale.is_some()).then_some(Cast { from, to, scale })
}

/// How many samples of `column` are read together: those of a batch, or fewer where they are converted.
pub(crate) fn samples_per_read(column: &Column) -> usize {
    match column.stacked_count() {
        Some(count) if column.dense.is_none() && ConvertSample::of(column).is_needed() => {
            let read_len = count.saturating_mul(column.element_len as u64);
            to_usize(GROUP_BYTES.checked_div(read_len).unwrap_or(0).max(1))
        }
        _ => usize::MAX,
    }
}

/// Bytes that a thread needs besides a batch of `batch` samples to make `column` of it, which is read as `layout` says.
pub(crate) fn scratch_len(column: &Column, layout: &ColumnLayout, batch: u64) -> u64 {
    let sample_len = column.mean_count().saturating_mul(column.element_len as u64);
    if let Some(dense) = &column.dense {
        let numbers = dense.indices.mean_count().saturating_mul(dense.indices.element_len as u64);
        return sample_len.saturating_mul(2).saturating_add(numbers).saturating_mul(batch);
    }
    let convert = ConvertSample::of(column);
    match &column.form {
        SampleForm::Stacked { .. } if convert.is_needed() => {
            let together = (samples_per_read(column) as u64).min(batch);
            let transposed = if convert.copies_twice() { sample_len } else { 0 };
            sample_len.saturating_mul(together).saturating_add(transposed)
        }
        SampleForm::Joined { axis, .. } if convert.is_needed() || (*axis > 0 && !layout.has_lines) => {
            sample_len.saturating_mul(batch)
        }
        _ => 0,
    }
}
