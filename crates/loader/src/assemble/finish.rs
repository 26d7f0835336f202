//! What is done to samples once they are read: cast, scaled, turned, put in their places.

use std::sync::Arc;

use forebay_container::Number;
use forebay_source::{Error, ErrorKind, Result};

use crate::{
    arena::Arena,
    batch::FieldArray,
    column::{Column, ColumnPart, DenseColumn, Form, Located},
    convert::{Cast, to_unsigned, transpose},
    set::place,
};

/// What is done to the samples of one column.
pub(super) struct Finish<'a> {
    /// What numbers are multiplied by, and what is then added, once they are unpacked or recoded.
    scale: Option<(f64, f64)>,
    final_number: Option<Number>,
    /// True when numbers of some file change.
    changes: bool,
    /// The shape of a sample and the order its axes shall have.
    turn: Option<(&'a [u64], &'a [usize])>,
    final_len: usize,
}

/// Where a sample goes in an array that samples are joined in.
#[derive(Clone, Copy)]
pub(super) struct Joint<'a> {
    /// The shape of the array.
    pub(super) shape: &'a [u64],
    /// The axis samples are joined along.
    pub(super) axis: usize,
    /// The first index along it.
    pub(super) start: u64,
}

/// Makes other numbers of numbers.
type Step<'a> = dyn Fn(&[u8], &mut [u8]) -> Result<()> + 'a;

/// Numbers that are unpacked and then cast go through the nearest cache in blocks of so many.
const BLOCK: usize = 512;

impl<'a> Finish<'a> {
    pub(super) fn of(column: &'a Column) -> Self {
        let convert = &column.convert;
        let scale = (convert.scale.is_some() || convert.add.is_some())
            .then(|| (convert.scale.unwrap_or(1.0), convert.add.unwrap_or(0.0)));
        let final_number = column.final_number().or(column.dtype.number());
        let is_cast = |from: Number| final_number.is_some_and(|to| cast(from, to, scale).is_some());
        let changes = column.unpacked.is_some()
            || column.is_recoded
            || column.is_mixed
            || column.dtype.number().is_some_and(is_cast);
        let turn = match (&column.form, &convert.axes) {
            (Form::Stacked { shape }, Some(axes)) if !axes.is_sorted() => Some((&shape[..], &axes[..])),
            _ => None,
        };
        Self { scale, final_number, changes, turn, final_len: column.final_len() }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.changes || self.turn.is_some()
    }

    /// True when a sample is turned and then changed.
    pub(super) fn copies_twice(&self) -> bool {
        self.changes && self.turn.is_some()
    }

    /// One sample of `part`, all of whose elements lie together in the batch.
    pub(super) fn sample(
        &self,
        part: &ColumnPart,
        from: &[u8],
        to: &mut [u8],
        mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let Some((shape, axes)) = self.turn else { return self.change(part, from, to, mask) };
        if !self.changes {
            transpose(from, shape, axes, part.element_len(), to);
            return Ok(());
        }
        let mut turned = vec![0; from.len()];
        transpose(from, shape, axes, part.element_len(), &mut turned);
        self.change(part, &turned, to, mask)
    }

    /// One sample of `part` that is joined to others.
    pub(super) fn joined(
        &self,
        part: &ColumnPart,
        from: &[u8],
        joint: Joint<'_>,
        to: &mut [u8],
        mut mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let Joint { shape, axis, start } = joint;
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let outer = index(shape[..axis].iter().product());
        let inner = index(shape[axis + 1..].iter().product());
        let (row, skip) = (index(shape[axis]) * inner, index(start) * inner);
        let Some(run) = from.len().checked_div(outer).filter(|run| *run > 0) else { return Ok(()) };
        let count = run / part.element_len().max(1);
        for (number, from) in from.chunks_exact(run).enumerate() {
            let at = number * row + skip;
            let to = &mut to[at * self.final_len..(at + count) * self.final_len];
            self.change(part, from, to, mask.as_mut().map(|mask| &mut mask[at..at + count]))?;
        }
        Ok(())
    }

    /// Unpacks or recodes numbers of `part`, and casts them.
    fn change(
        &self,
        part: &ColumnPart,
        from: &[u8],
        to: &mut [u8],
        mut mask: Option<&mut [u8]>,
    ) -> Result<()> {
        let at_place = |error: Error| place(&part.opened, part.variable(), error);
        let cast = |from: Number| self.final_number.and_then(|to| cast(from, to, self.scale));
        let Some(unpacker) = &part.unpacker else {
            let stored = part.variable().dtype.number();
            match (&part.recode, stored.and_then(cast)) {
                (Some(recode), _) => {
                    let step = |from: &[u8], to: &mut [u8]| recode.run(from, to);
                    self.change_and_cast(part, (recode.to(), cast(recode.to())), &step, from, to)
                        .map_err(at_place)?;
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
        self.change_and_cast(part, (unpacker.to(), cast), &step, from, to).map_err(at_place)?;
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
        step: &Step<'_>,
        from: &[u8],
        to: &mut [u8],
    ) -> Result<()> {
        let Some(cast) = cast else { return step(from, to) };
        let mut block = [0; 8 * BLOCK];
        let element_len = part.element_len().max(1);
        let blocks = from.chunks(BLOCK * element_len).zip(to.chunks_mut(BLOCK * self.final_len));
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

/// Makes whole rows of sparse ones.
pub(super) fn densify(
    arena: &Arc<Arena>,
    column: &Column,
    dense: &DenseColumn,
    [values, numbers]: [&FieldArray; 2],
    located: &[Option<Located>],
) -> Result<FieldArray> {
    let offsets = values.offsets.as_deref().unwrap_or_default();
    let row_count = offsets.len().saturating_sub(1);
    let element_len = column.final_len();
    let columns = usize::try_from(dense.columns).unwrap_or(usize::MAX);
    let mut bytes = arena.take(row_count.saturating_mul(columns).saturating_mul(element_len))?;
    bytes.fill(0);
    let number = dense.indices.dtype.number().unwrap_or(Number::U64);
    let at = to_unsigned(number, &numbers.bytes).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "a negative column").at(format!("field '{}'", column.name))
    })?;
    for row in 0..row_count {
        let range = index(offsets[row])..index(offsets[row + 1]);
        for value in range {
            let Some(to) = at.get(value).and_then(|at| usize::try_from(*at).ok()).filter(|at| *at < columns)
            else {
                let what = format!("column {} of {columns}", at.get(value).copied().unwrap_or(0));
                let error = Error::new(ErrorKind::Corrupt, what).hint("`columns` says how many a row has");
                let error = match located[row] {
                    Some(located) => {
                        let part = dense.indices.part(located);
                        place(&part.opened, part.variable(), error.at(format!("sample {}", located.number)))
                    }
                    None => error,
                };
                return Err(error.at(format!("field '{}'", column.name)));
            };
            let to = (row * columns + to) * element_len;
            bytes[to..to + element_len]
                .copy_from_slice(&values.bytes[value * element_len..(value + 1) * element_len]);
        }
    }
    Ok(FieldArray {
        name: column.name.clone(),
        dtype: column.final_dtype(),
        kind: column.kind(),
        shape: vec![row_count as u64, dense.columns],
        bytes,
        offsets: None,
    })
}

fn index(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}
