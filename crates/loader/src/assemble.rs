//! From sample numbers to the memory of a batch: each source asked once, each unit touched once.

mod fetch;
mod finish;
mod rows;

use std::{sync::Arc, time::Instant};

use forebay_format::Dtype;
use forebay_source::{Error, ErrorKind, Result};

use crate::{
    arena::{Arena, Buffer},
    batch::FieldArray,
    cache::{IfBusy, Now, UnitCache},
    column::{Column, Form, Located},
    layout::{ColumnLayout, Layout, Storage},
    set::SampleSet,
    stats::Counters,
};
use fetch::{Fetch, Target};
pub(crate) use fetch::{MOST_SPILL_READS, pieces};
use finish::{Finish, Joint};
use rows::Rows;

/// Puts samples side by side. Many threads may do so at once.
#[derive(Debug)]
pub(crate) struct Assembler {
    pub(crate) set: Arc<SampleSet>,
    pub(crate) layout: Arc<Layout>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) cache: UnitCache,
    /// True when memory and the spill have room for all units.
    pub(crate) keeps_units: bool,
    pub(crate) counters: Arc<Counters>,
    /// The most bytes that are taken at once.
    pub(crate) memory: u64,
}

/// Samples that are changed on their way are read in groups of this many bytes: what was read is still in the nearest
/// cache when it is changed.
const GROUP_BYTES: u64 = 256 << 10;

impl Assembler {
    /// All fields of the samples `slots`; a slot without a sample is left zero.
    pub(crate) fn assemble(&self, slots: &[Option<u64>], now: Now<'_>) -> Result<Vec<FieldArray>> {
        if let Some(sample) = slots.iter().flatten().find(|sample| **sample >= self.set.len()) {
            let what = format!("sample {sample} of {}", self.set.len());
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let columns = self.set.columns.iter().zip(&self.layout.columns);
        let mut fields = Vec::with_capacity(self.set.columns.len());
        for (column, layout) in columns {
            let Made { values, mask } = self.field(column, layout, slots, now)?;
            fields.push(values);
            fields.extend(mask);
        }
        Ok(fields)
    }

    fn field(
        &self,
        column: &Column,
        layout: &ColumnLayout,
        slots: &[Option<u64>],
        now: Now<'_>,
    ) -> Result<Made> {
        let located: Vec<Option<Located>> =
            slots.iter().map(|slot| slot.map(|sample| column.locate(sample))).collect();
        if let (Some(dense), Some(indices)) = (&column.dense, &layout.indices) {
            let values = self.joined(column, layout, &located, now)?.values;
            let numbers = self.joined(&dense.indices, indices, &located, now)?.values;
            let values = finish::densify(&self.arena, column, dense, &values, &numbers)?;
            return Ok(Made { values, mask: None });
        }
        match &column.form {
            Form::Stacked { shape } => self.stacked(column, layout, shape, &located, now),
            Form::Joined { .. } => self.joined(column, layout, &located, now),
        }
    }

    fn stacked(
        &self,
        column: &Column,
        layout: &ColumnLayout,
        sample_shape: &[u64],
        located: &[Option<Located>],
        now: Now<'_>,
    ) -> Result<Made> {
        let finish = Finish::of(column);
        let count = sample_shape.iter().product::<u64>();
        let final_len = index(count.saturating_mul(column.final_len() as u64));
        let mut bytes = self.take(column, final_len.saturating_mul(located.len()))?;
        let mut mask = self.take_mask(column, index(count).saturating_mul(located.len()))?;
        if finish.is_needed() {
            let read_len = index(count.saturating_mul(column.element_len() as u64));
            let group = group_len(column);
            let mut scratch = self.take(column, read_len.saturating_mul(group.min(located.len())))?;
            let mut masks = mask.as_mut().map(|mask| mask.chunks_exact_mut(index(count).max(1)));
            for (group, out) in located.chunks(group).zip(bytes.chunks_mut((group * final_len).max(1))) {
                self.produce(column, layout, targets(group, |_| read_len, &mut scratch), now)?;
                let read = scratch.chunks_exact(read_len.max(1)).zip(group);
                for ((sample, located), out) in read.zip(out.chunks_exact_mut(final_len.max(1))) {
                    let mask = masks.as_mut().and_then(Iterator::next);
                    match located {
                        Some(located) => finish.sample(column.part(*located), sample, out, mask)?,
                        None => out.fill(0),
                    }
                }
            }
        } else {
            self.produce(column, layout, targets(located, |_| final_len, &mut bytes), now)?;
        }
        let mut shape = vec![located.len() as u64];
        match &column.convert.axes {
            Some(axes) => shape.extend(axes.iter().map(|axis| sample_shape[*axis])),
            None => shape.extend(sample_shape),
        }
        Ok(Made::new(column, Parts { shape, bytes, mask, offsets: None }))
    }

    fn joined(
        &self,
        column: &Column,
        layout: &ColumnLayout,
        located: &[Option<Located>],
        now: Now<'_>,
    ) -> Result<Made> {
        let Form::Joined { axis, shape } = &column.form else {
            return Err(Error::new(ErrorKind::Bug, "samples of one shape joined"));
        };
        let mut offsets = Vec::with_capacity(located.len() + 1);
        let mut total = 0u64;
        offsets.push(0i64);
        for located in located {
            let along = located.map_or(0, |at| column.len_along(column.part(at), at.number, *axis));
            total = total.saturating_add(along);
            offsets.push(i64::try_from(total).unwrap_or(i64::MAX));
        }
        let mut shape = shape.clone();
        shape[*axis] = total;
        let unit = index(crate::column::others(&shape, *axis));
        let (element_len, final_len) = (column.element_len(), column.final_len());
        let mut bytes = self.take(column, index(total).saturating_mul(unit).saturating_mul(final_len))?;
        let mut mask = self.take_mask(column, index(total).saturating_mul(unit))?;
        let finish = Finish::of(column);
        let len_of =
            |slot: usize| index((offsets[slot + 1] - offsets[slot]).cast_unsigned()) * unit * element_len;
        if finish.is_needed() || *axis > 0 {
            let mut scratch =
                self.take(column, index(total).saturating_mul(unit).saturating_mul(element_len))?;
            self.produce(column, layout, targets(located, len_of, &mut scratch), now)?;
            let mut rest = &scratch[..];
            for (slot, start) in offsets[..located.len()].iter().enumerate() {
                let (sample, after) = rest.split_at(len_of(slot));
                rest = after;
                let Some(located) = located[slot] else { continue };
                let joint = Joint { shape: &shape, axis: *axis, start: start.cast_unsigned() };
                finish.joined(column.part(located), sample, joint, &mut bytes, mask.as_deref_mut())?;
            }
        } else {
            self.produce(column, layout, targets(located, len_of, &mut bytes), now)?;
        }
        Ok(Made::new(column, Parts { shape, bytes, mask, offsets: Some(offsets) }))
    }

    /// Memory for the mask of `len` elements, zero, where the field has one.
    fn take_mask(&self, column: &Column, len: usize) -> Result<Option<Buffer>> {
        if !column.has_mask() {
            return Ok(None);
        }
        let mut mask = self.take(column, len)?;
        mask.fill(0);
        Ok(Some(mask))
    }

    /// Memory for `len` bytes of one field, which must fit the budget: samples may be longer than they are on average.
    fn take(&self, column: &Column, len: usize) -> Result<Buffer> {
        if len as u64 > self.memory {
            let what = format!("{len} bytes at once, the memory budget is {}", self.memory);
            let error = Error::new(ErrorKind::Full, what).hint("allow more memory, or take smaller batches");
            return Err(error.at(format!("field '{}'", column.name)));
        }
        self.arena.take(len)
    }

    /// Reads all `targets`, each into its own memory.
    fn produce(
        &self,
        column: &Column,
        layout: &ColumnLayout,
        mut targets: Vec<Target<'_>>,
        now: Now<'_>,
    ) -> Result<()> {
        let began = Instant::now();
        // In file order, so that each file is asked once.
        if column.parts.len() > 1 {
            targets.sort_unstable_by_key(|target| target.located);
        }
        let mut rows = Rows::with_capacity(targets.len());
        let mut rest = &mut targets[..];
        let mut postponed = Vec::new();
        let mut other_ns = 0;
        while let Some(first) = rest.first() {
            let part = first.located.part;
            let count = rest.iter().position(|target| target.located.part != part).unwrap_or(rest.len());
            let (own, after) = rest.split_at_mut(count);
            rest = after;
            let fetch = Fetch { assembler: self, column, part, now };
            match &layout.parts[part as usize] {
                Storage::Rows(stretch) => rows.add(&column.parts[part as usize], stretch, own)?,
                Storage::Boxes => other_ns += fetch.boxes(own)?,
                Storage::Units(units) => {
                    let mut pieces = fetch.pieces(units, own);
                    other_ns += fetch.units(units, &mut pieces, IfBusy::Skip, own)?;
                    if !pieces.is_empty() {
                        postponed.push((fetch, units, pieces, own));
                    }
                }
            }
        }
        rows.run(&self.counters)?;
        // By now the other threads are done with most of it: threads that need the same units share the work.
        for (fetch, units, mut pieces, own) in postponed {
            other_ns += fetch.units(units, &mut pieces, IfBusy::Wait, own)?;
        }
        let spent = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Counters::add(&self.counters.copy_ns, spent.saturating_sub(other_ns));
        Ok(())
    }
}

/// A field, and which of its values are missing where that is asked.
struct Made {
    values: FieldArray,
    mask: Option<FieldArray>,
}

/// What a field is made of.
struct Parts {
    shape: Vec<u64>,
    bytes: Buffer,
    mask: Option<Buffer>,
    offsets: Option<Vec<i64>>,
}

impl Made {
    fn new(column: &Column, parts: Parts) -> Self {
        let Parts { shape, bytes, mask, offsets } = parts;
        let mask = mask.map(|bytes| FieldArray {
            name: column.mask_name(),
            dtype: Dtype::boolean(),
            is_time: false,
            shape: shape.clone(),
            bytes,
            offsets: offsets.clone(),
        });
        let (name, dtype, is_time) = (column.name.clone(), column.final_dtype(), column.is_time());
        Self { values: FieldArray { name, dtype, is_time, shape, bytes, offsets }, mask }
    }
}

/// Bytes that a thread needs besides a batch of `batch` samples to make `column` of it.
pub(crate) fn scratch_len(column: &Column, batch: u64) -> u64 {
    let sample_len = column.mean_count().saturating_mul(column.element_len() as u64);
    if let Some(dense) = &column.dense {
        let numbers = dense.indices.mean_count().saturating_mul(dense.indices.element_len() as u64);
        return sample_len.saturating_mul(2).saturating_add(numbers).saturating_mul(batch);
    }
    let finish = Finish::of(column);
    match &column.form {
        Form::Stacked { .. } if finish.is_needed() => {
            let together = (group_len(column) as u64).min(batch);
            let turned = if finish.copies_twice() { sample_len } else { 0 };
            sample_len.saturating_mul(together).saturating_add(turned)
        }
        Form::Joined { axis, .. } if finish.is_needed() || *axis > 0 => sample_len.saturating_mul(batch),
        _ => 0,
    }
}

/// How many samples of `column` are read together: those of a batch, or fewer where they are changed on their way.
pub(crate) fn group_len(column: &Column) -> usize {
    match column.stacked_count() {
        Some(count) if column.dense.is_none() && Finish::of(column).is_needed() => {
            let read_len = index(count.saturating_mul(column.element_len() as u64));
            index(GROUP_BYTES).checked_div(read_len).unwrap_or(0).max(1)
        }
        _ => usize::MAX,
    }
}

/// The memory of each sample in `memory`, one after the other; what no sample fills is made zero.
fn targets<'a>(
    located: &[Option<Located>],
    len_of: impl Fn(usize) -> usize,
    memory: &'a mut [u8],
) -> Vec<Target<'a>> {
    let mut targets = Vec::with_capacity(located.len());
    let mut rest = memory;
    for (slot, located) in located.iter().enumerate() {
        let (into, after) = rest.split_at_mut(len_of(slot));
        rest = after;
        match located {
            Some(located) => targets.push(Target { located: *located, into }),
            None => into.fill(0),
        }
    }
    targets
}

fn index(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
