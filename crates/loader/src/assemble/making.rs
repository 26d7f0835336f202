//! One batch in the making: memory for each field, and what goes into it.

use std::{cell::Cell, time::Instant};

use forebay_container::{Dtype, cf::ValueKind};
use forebay_source::{ByteRange, Error, ErrorKind, Result};

use super::{
    Assembler,
    doubt::Doubts,
    fetch::{Fetch, Target},
    finish::{self, Finish, Joint},
    group_len, index,
    rows::Rows,
    spare,
};
use crate::{
    arena::Buffer,
    batch::FieldArray,
    cache::{IfBusy, Now},
    column::{Column, Form, Located, others},
    layout::{ColumnLayout, Storage},
    stats::Counters,
};

/// One batch in the making.
pub(super) struct Making<'a> {
    assembler: &'a Assembler,
    now: Now<'a>,
    /// What is yet to be vouched for.
    pub(super) doubts: Doubts,
}

/// One field of the samples of a batch.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    /// Its place among the fields of the set.
    pub(super) number: usize,
    /// True for the column numbers of its sparse rows.
    pub(super) is_indices: bool,
    pub(super) column: &'a Column,
    pub(super) layout: &'a ColumnLayout,
}

/// A field, and which of its values are missing where that is asked.
pub(super) struct Made {
    pub(super) values: FieldArray,
    pub(super) mask: Option<FieldArray>,
}

/// Bytes of a batch that are asked for before there is memory for them. 8 KiB samples with none, 16, 32 and 64 KiB: 0.75,
/// 0.77, 0.78 and 0.83 of a mapped copy.
const BYTES_AHEAD: u64 = 64 << 10;

/// Bytes that a source is sure to prepare for when it expects a range.
const BYTES_EXPECTED: usize = 512;

thread_local! {
    static LOCATED: Cell<Vec<Option<Located>>> = const { Cell::new(Vec::new()) };
    static TARGETS: Cell<Vec<Target<'static>>> = const { Cell::new(Vec::new()) };
}

impl<'a> Making<'a> {
    pub(super) fn new(assembler: &'a Assembler, now: Now<'a>) -> Self {
        Self { assembler, now, doubts: Doubts::default() }
    }

    /// The field of the samples `slots`; a slot without a sample is left zero.
    pub(super) fn field(&mut self, field: Field<'a>, slots: &[Option<u64>]) -> Result<Made> {
        let column = field.column;
        let mut located = spare::take(&LOCATED);
        located.extend(slots.iter().map(|slot| slot.map(|sample| column.locate(sample))));
        let made = self.field_of(field, &located);
        spare::put_back(&LOCATED, located);
        made
    }

    fn field_of(&mut self, field: Field<'a>, located: &[Option<Located>]) -> Result<Made> {
        let Field { column, layout, .. } = field;
        if let (Some(dense), Some(indices)) = (&column.dense, &layout.indices) {
            let values = self.joined(field, located)?.values;
            let indices = Field { is_indices: true, column: &dense.indices, layout: indices, ..field };
            let numbers = self.joined(indices, located)?.values;
            let values = finish::densify(&self.assembler.arena, column, dense, [&values, &numbers], located)?;
            return Ok(Made { values, mask: None });
        }
        match &column.form {
            Form::Stacked { shape } => self.stacked(field, shape, located),
            Form::Joined { .. } => self.joined(field, located),
        }
    }

    fn stacked(
        &mut self,
        field: Field<'a>,
        sample_shape: &[u64],
        located: &[Option<Located>],
    ) -> Result<Made> {
        let column = field.column;
        let finish = Finish::of(column);
        let count = sample_shape.iter().product::<u64>();
        let final_len = index(count.saturating_mul(column.final_len() as u64));
        if !finish.is_needed() {
            self.ask_ahead(field, located);
        }
        let mut bytes = self.take(column, final_len.saturating_mul(located.len()))?;
        let mut mask = self.take_mask(column, index(count).saturating_mul(located.len()))?;
        if finish.is_needed() {
            let len_of = |at: &Option<Located>| {
                at.map_or(0, |at| index(count.saturating_mul(column.part(at).element_len() as u64)))
            };
            let most = index(count.saturating_mul(column.element_len as u64));
            let group = group_len(column);
            let mut scratch = self.take(column, most.saturating_mul(group.min(located.len())))?;
            let mut masks = mask.as_mut().map(|mask| mask.chunks_exact_mut(index(count).max(1)));
            for (group, out) in located.chunks(group).zip(bytes.chunks_mut((group * final_len).max(1))) {
                self.produce(field, targets(group, |slot| len_of(&group[slot]), &mut [&mut scratch[..]], 1))?;
                let mut rest = &scratch[..];
                for (located, out) in group.iter().zip(out.chunks_exact_mut(final_len.max(1))) {
                    let (sample, after) = rest.split_at(len_of(located));
                    rest = after;
                    let mask = masks.as_mut().and_then(Iterator::next);
                    match located {
                        Some(located) => finish.sample(column.part(*located), sample, out, mask)?,
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
        Ok(Made::new(column, Parts { shape, bytes, mask, offsets: None }))
    }

    fn joined(&mut self, field: Field<'a>, located: &[Option<Located>]) -> Result<Made> {
        let column = field.column;
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
        let unit = index(others(&shape, *axis));
        let count = index(total).saturating_mul(unit);
        let mut bytes = self.take(column, count.saturating_mul(column.final_len()))?;
        let mut mask = self.take_mask(column, count)?;
        let finish = Finish::of(column);
        let len_of = |slot: usize| {
            let element_len = located[slot].map_or(0, |at| column.part(at).element_len());
            index((offsets[slot + 1] - offsets[slot]).cast_unsigned()) * unit * element_len
        };
        let lines = if field.layout.has_lines { index(shape[..*axis].iter().product()) } else { 1 };
        let line_len_of = |slot: usize| len_of(slot) / lines.max(1);
        if finish.is_needed() || (*axis > 0 && !field.layout.has_lines) {
            let mut scratch = self.take(column, count.saturating_mul(column.element_len))?;
            self.produce(field, targets(located, line_len_of, &mut [&mut scratch[..]], lines))?;
            let mut rest = &scratch[..];
            for (slot, start) in offsets[..located.len()].iter().enumerate() {
                let (sample, after) = rest.split_at(len_of(slot));
                rest = after;
                let Some(located) = located[slot] else { continue };
                let joint = Joint { shape: &shape, axis: *axis, start: start.cast_unsigned() };
                finish.joined(column.part(located), sample, joint, &mut bytes, mask.as_deref_mut())?;
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
        Ok(Made::new(column, Parts { shape, bytes, mask, offsets: Some(offsets) }))
    }

    /// Asks for the first samples of a batch before there is memory for them. A consumer that was just given a batch gives
    /// back the one it had: if that is taken next, the processor still has it in its cache.
    fn ask_ahead(&self, field: Field<'a>, located: &[Option<Located>]) {
        let ([part], [Storage::Rows(stretch)]) = (&field.column.parts[..], &field.layout.parts[..]) else {
            return;
        };
        let Some(source) = stretch.source() else { return };
        let mut left = BYTES_AHEAD;
        for located in located.iter().flatten() {
            let Some(range) = stretch.range(part, located.number, 0) else { return };
            let asked = range.len().min(left);
            for start in (range.start..range.start + asked).step_by(BYTES_EXPECTED) {
                source.expect(ByteRange { start, end: range.end });
            }
            left -= asked;
            if left == 0 {
                return;
            }
        }
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
        let Assembler { memory, arena, .. } = self.assembler;
        if len as u64 > *memory {
            let what = format!("{len} bytes at once, the memory budget is {memory}");
            let error = Error::new(ErrorKind::Full, what).hint("allow more memory, or take smaller batches");
            return Err(error.at(format!("field '{}'", column.name)));
        }
        arena.take(len)
    }

    /// Reads all `targets`, each into its own memory.
    fn produce(&mut self, field: Field<'a>, mut targets: Vec<Target<'_>>) -> Result<()> {
        let began = Instant::now();
        let (assembler, now, column) = (self.assembler, self.now, field.column);
        // File by file, so that each is asked once.
        if column.parts.len() > 1 {
            targets.sort_unstable_by_key(|target| target.located.part);
        }
        let mut rows = Rows::new(field, targets.len());
        let mut rest = &mut targets[..];
        let mut postponed = Vec::new();
        let mut other_ns = 0;
        while let Some(first) = rest.first() {
            let part = first.located.part;
            let count = rest.iter().position(|target| target.located.part != part).unwrap_or(rest.len());
            let (own, after) = rest.split_at_mut(count);
            rest = after;
            let fetch = Fetch { assembler, column, part, now };
            match &field.layout.parts[part as usize] {
                Storage::Rows(stretch) => rows.add(part, stretch, own)?,
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
        rows.run(&assembler.counters, &mut self.doubts)?;
        // By now the other threads are done with most of it: threads that need the same units share the work.
        for (fetch, units, mut pieces, own) in postponed {
            other_ns += fetch.units(units, &mut pieces, IfBusy::Wait, own)?;
        }
        spare::put_back(&TARGETS, targets);
        let spent = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Counters::add(&assembler.counters.copy_ns, spent.saturating_sub(other_ns));
        Ok(())
    }
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
fn targets<'m>(
    located: &[Option<Located>],
    len_of: impl Fn(usize) -> usize,
    places: &mut [&'m mut [u8]],
    lines: usize,
) -> Vec<Target<'m>> {
    let mut targets = spare::take(&TARGETS);
    targets.reserve_exact(located.len().saturating_mul(lines));
    let last = places.len().saturating_sub(1);
    for (slot, located) in located.iter().enumerate() {
        let len = len_of(slot);
        for line in 0..lines {
            let Some(place) = places.get_mut(line.min(last)) else { continue };
            let (into, after) = std::mem::take(place).split_at_mut(len);
            *place = after;
            match located {
                Some(located) => targets.push(Target { located: *located, line: line as u64, into }),
                None => into.fill(0),
            }
        }
    }
    targets
}
