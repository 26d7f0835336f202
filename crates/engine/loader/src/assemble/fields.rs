//! The fields of one batch: memory for each, and what goes into it.

use std::{cell::Cell, time::Instant};

use forebay_batch::{
    BatchMemory, BatchTurn, Buffer, FieldArray, LoaderCounters, ReservedMemory, nanos, scratch_vec,
};
use forebay_container::{Dtype, cf::ValueKind};
use forebay_process::{Error, ErrorKind, Result};

use super::{
    densify::densify,
    fetch::{Fetch, SampleTarget},
    rows::RowCopies,
    unverified::UnverifiedSources,
};
use crate::{
    assemble::{
        convert_sample::{ConvertSample, Joint, samples_per_read},
        file_maker::FileMaker,
    },
    layout::{Storage, unit_slices::unit_slices, walk::FieldRead},
    memory::{cache::IfBusy, ledger::Now},
    set::column::{Column, SampleAt, SampleForm, others},
    to_usize::to_usize,
};

/// Makes the fields of one batch.
pub(super) struct FieldMaker<'a> {
    pub(super) maker: &'a FileMaker,
    now: Now<'a>,
    turn: &'a dyn BatchTurn,
    memory: BatchMemory<'a>,
    /// What is yet to be verified.
    pub(super) unverified: UnverifiedSources,
}

/// A field, and which of its values are missing where that is asked.
pub(super) struct MadeField {
    pub(super) values: FieldArray,
    pub(super) mask: Option<FieldArray>,
}

thread_local! {
    static LOCATED: Cell<Vec<Option<SampleAt>>> = const { Cell::new(Vec::new()) };
    static TARGETS: Cell<Vec<SampleTarget<'static>>> = const { Cell::new(Vec::new()) };
}

impl<'a> FieldMaker<'a> {
    pub(super) fn new(maker: &'a FileMaker, now: Now<'a>, turn: &'a dyn BatchTurn) -> Self {
        let memory = BatchMemory::new(&maker.arena);
        Self { maker, now, turn, memory, unverified: UnverifiedSources::default() }
    }

    /// The field of the samples `slots`; a slot without a sample is left zero.
    pub(super) fn field(&mut self, field: FieldRead<'a>, slots: &[Option<u64>]) -> Result<MadeField> {
        let column = field.column;
        if let Some(windows) = column.series() {
            return self.pieced(field, windows, slots);
        }
        let mut located = scratch_vec::take(&LOCATED);
        located.extend(slots.iter().map(|slot| slot.map(|sample| column.locate(sample))));
        let made = self.field_of(field, &located);
        scratch_vec::put_back(&LOCATED, located);
        made
    }

    fn field_of(&mut self, field: FieldRead<'a>, located: &[Option<SampleAt>]) -> Result<MadeField> {
        let column = field.column;
        if column.elements.is_some() {
            return self.variable(field, located);
        }
        if let (Some(dense), Some(indices)) = (&column.dense, field.indices()) {
            let values = self.joined(field, located)?.values;
            let numbers = self.joined(indices, located)?.values;
            let values = densify(&self.memory, column, dense, [&values, &numbers], located)?;
            return Ok(MadeField { values, mask: None });
        }
        match &column.form {
            SampleForm::Stacked { shape } => self.stacked(field, shape, located),
            SampleForm::Joined { .. } => self.joined(field, located),
        }
    }

    fn stacked(
        &mut self,
        field: FieldRead<'a>,
        sample_shape: &[u64],
        located: &[Option<SampleAt>],
    ) -> Result<MadeField> {
        let column = field.column;
        let convert = ConvertSample::of(column);
        let count = sample_shape.iter().product::<u64>();
        let final_len = to_usize(count.saturating_mul(column.final_len() as u64));
        if !convert.is_needed() {
            self.maker.tuning.expect_first(field, located);
        }
        let mut bytes = self.take(column, final_len.saturating_mul(located.len()))?;
        let mut mask = self.take_mask(column, to_usize(count).saturating_mul(located.len()))?;
        if convert.is_needed() {
            let len_of = |at: &Option<SampleAt>| {
                at.map_or(0, |at| to_usize(count.saturating_mul(column.part(at).element_len() as u64)))
            };
            let most = to_usize(count.saturating_mul(column.element_len as u64));
            let group = samples_per_read(column);
            let mut scratch = self.take_scratch(column, most.saturating_mul(group.min(located.len())))?;
            let mut masks = mask.as_mut().map(|mask| mask.chunks_exact_mut(to_usize(count).max(1)));
            for (group, out) in located.chunks(group).zip(bytes.chunks_mut((group * final_len).max(1))) {
                self.produce(field, targets(group, |slot| len_of(&group[slot]), &mut [&mut scratch[..]], 1))?;
                let mut rest = &scratch[..];
                for (located, out) in group.iter().zip(out.chunks_exact_mut(final_len.max(1))) {
                    let (sample, after) = rest.split_at(len_of(located));
                    rest = after;
                    let mask = masks.as_mut().and_then(Iterator::next);
                    match located {
                        Some(located) => convert.sample(column.part(*located), sample, out, mask)?,
                        None => out.fill(0),
                    }
                }
            }
        } else {
            self.produce(field, targets(located, |_| final_len, &mut [&mut bytes[..]], 1))?;
        }
        let mut shape = vec![located.len() as u64];
        match &column.convert.axes {
            Some(axes) => shape.extend(axes.iter().map(|axis| sample_shape[*axis])),
            None => shape.extend(sample_shape),
        }
        Ok(MadeField::new(column, FieldParts { shape, bytes, mask, offsets: None }))
    }

    fn joined(&mut self, field: FieldRead<'a>, located: &[Option<SampleAt>]) -> Result<MadeField> {
        let column = field.column;
        let SampleForm::Joined { axis, shape } = &column.form else {
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
        let unit = to_usize(others(&shape, *axis));
        let count = to_usize(total).saturating_mul(unit);
        let mut bytes = self.take(column, count.saturating_mul(column.final_len()))?;
        let mut mask = self.take_mask(column, count)?;
        let convert = ConvertSample::of(column);
        let len_of = |slot: usize| {
            let element_len = located[slot].map_or(0, |at| column.part(at).element_len());
            to_usize((offsets[slot + 1] - offsets[slot]).cast_unsigned()) * unit * element_len
        };
        let lines = if field.layout.has_lines { to_usize(shape[..*axis].iter().product()) } else { 1 };
        let line_len_of = |slot: usize| len_of(slot) / lines.max(1);
        if convert.is_needed() || (*axis > 0 && !field.layout.has_lines) {
            let mut scratch = self.take_scratch(column, count.saturating_mul(column.element_len))?;
            self.produce(field, targets(located, line_len_of, &mut [&mut scratch[..]], lines))?;
            let mut rest = &scratch[..];
            for (slot, start) in offsets[..located.len()].iter().enumerate() {
                let (sample, after) = rest.split_at(len_of(slot));
                rest = after;
                let Some(located) = located[slot] else { continue };
                let joint = Joint { shape: &shape, axis: *axis, start: start.cast_unsigned() };
                convert.joined(column.part(located), sample, joint, &mut bytes, mask.as_deref_mut())?;
            }
        } else {
            let line_len = bytes.len().checked_div(lines).unwrap_or(0);
            let (mut places, mut rest) = (Vec::with_capacity(lines), &mut bytes[..]);
            for _ in 0..lines {
                let (line, after) = rest.split_at_mut(line_len);
                places.push(line);
                rest = after;
            }
            self.produce(field, targets(located, line_len_of, &mut places, lines))?;
        }
        Ok(MadeField::new(column, FieldParts { shape, bytes, mask, offsets: Some(offsets) }))
    }

    /// Memory for the mask of `len` elements, zero, where the field has one.
    pub(super) fn take_mask(&self, column: &Column, len: usize) -> Result<Option<Buffer>> {
        if !column.has_mask() {
            return Ok(None);
        }
        let mut mask = self.take(column, len)?;
        mask.fill(0);
        Ok(Some(mask))
    }

    /// Memory for `len` bytes of one field, which must fit the budget: samples may be longer than they are on average.
    pub(super) fn take(&self, column: &Column, len: usize) -> Result<Buffer> {
        self.check_len(column, len)?;
        self.memory.take(len)
    }

    /// The same for what does not outlive the making of the batch.
    pub(super) fn take_scratch(&self, column: &Column, len: usize) -> Result<Buffer> {
        self.check_len(column, len)?;
        self.maker.scratch.take(len)
    }

    /// Sets `len` bytes aside for a field whose length nobody knew before: a batch made ahead waits until there is room.
    pub(super) fn reserve(&self, column: &Column, len: usize) -> Result<ReservedMemory> {
        self.check_len(column, len)?;
        self.maker.arena.reserve(len as u64, self.turn)
    }

    pub(super) fn check_len(&self, column: &Column, len: usize) -> Result<()> {
        let memory = self.maker.shares.memory;
        if len as u64 > memory {
            let what = format!("memory={memory} is less than the {len} bytes that are needed at once");
            let error = Error::new(ErrorKind::Full, what).hint("set memory higher, or batch_size lower");
            return Err(error.at(format!("field '{}'", column.name)));
        }
        Ok(())
    }

    /// Reads all `targets`, each into its own memory.
    pub(super) fn produce(&mut self, field: FieldRead<'a>, mut targets: Vec<SampleTarget<'_>>) -> Result<()> {
        let began = Instant::now();
        let (maker, now, column) = (self.maker, self.now, field.column);
        let mut rows = RowCopies::new(field, maker.tuning, targets.len());
        let mut postponed = Vec::new();
        let mut other_ns = 0;
        field.each_part(&mut targets, |part, storage, own| {
            let fetch = Fetch { maker, column, part, now };
            match storage {
                Storage::Rows(stored) => rows.add(part, stored, own)?,
                Storage::Boxes => other_ns += fetch.boxes(own)?,
                Storage::Units(units) => {
                    let numbers = own.iter().map(|target| target.located.number);
                    let mut slices = unit_slices(fetch.file(), units, numbers);
                    other_ns += fetch.units(units, &mut slices, IfBusy::Skip, own)?;
                    if !slices.is_empty() {
                        postponed.push((fetch, units, slices, own));
                    }
                }
            }
            Ok(())
        })?;
        rows.run(maker, &mut self.unverified)?;
        // By now the other threads are done with most of it: threads that need the same units share the work.
        for (fetch, units, mut slices, own) in postponed {
            other_ns += fetch.units(units, &mut slices, IfBusy::Wait, own)?;
        }
        scratch_vec::put_back(&TARGETS, targets);
        LoaderCounters::add(&maker.counters.copy_ns, nanos(began.elapsed()).saturating_sub(other_ns));
        Ok(())
    }
}

/// What a field is made of.
pub(super) struct FieldParts {
    pub(super) shape: Vec<u64>,
    pub(super) bytes: Buffer,
    pub(super) mask: Option<Buffer>,
    pub(super) offsets: Option<Vec<i64>>,
}

impl MadeField {
    pub(super) fn new(column: &Column, parts: FieldParts) -> Self {
        let FieldParts { shape, bytes, mask, offsets } = parts;
        let mask = mask.map(|bytes| FieldArray {
            name: column.mask_name(),
            dtype: Dtype::boolean(),
            kind: ValueKind::Bool,
            shape: shape.clone(),
            bytes,
            offsets: offsets.clone(),
        });
        let (name, dtype, kind) = (column.name.clone(), column.final_dtype(), column.kind());
        Self { values: FieldArray { name, dtype, kind, shape, bytes, offsets }, mask }
    }
}

/// The memory of each of the `lines` lines of each sample, where `len_of` says how long a line of a slot is: one after the
/// other in `places`, either all in one place or each line in its own. What no sample fills is made zero.
pub(super) fn targets<'m>(
    located: &[Option<SampleAt>],
    len_of: impl Fn(usize) -> usize,
    places: &mut [&'m mut [u8]],
    lines: usize,
) -> Vec<SampleTarget<'m>> {
    let mut targets = scratch_vec::take(&TARGETS);
    targets.reserve_exact(located.len().saturating_mul(lines));
    let last = places.len().saturating_sub(1);
    for (slot, located) in located.iter().enumerate() {
        let len = len_of(slot);
        for line in 0..lines {
            let Some(place) = places.get_mut(line.min(last)) else { continue };
            let (into, after) = std::mem::take(place).split_at_mut(len);
            *place = after;
            match located {
                Some(located) => targets.push(SampleTarget { located: *located, line: line as u64, into }),
                None => into.fill(0),
            }
        }
    }
    targets
}
