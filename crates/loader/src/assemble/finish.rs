//! What is done to samples once they are read: cast, scaled, turned, put in their places.

use std::sync::Arc;

use forebay_format::Number;
use forebay_source::{Error, ErrorKind, Result};

use crate::{
    arena::Arena,
    batch::FieldArray,
    column::{Column, DenseColumn, Form, number_of},
    convert::{Cast, to_unsigned, transpose},
};

/// What is done to the samples of one column.
pub(super) struct Finish<'a> {
    cast: Option<Cast>,
    /// The shape of a sample and the order its axes shall have.
    turn: Option<(&'a [u64], &'a [usize])>,
    element_len: usize,
    final_len: usize,
}

impl<'a> Finish<'a> {
    pub(super) fn of(column: &'a Column) -> Self {
        let convert = &column.convert;
        let scale = (convert.scale.is_some() || convert.add.is_some())
            .then(|| (convert.scale.unwrap_or(1.0), convert.add.unwrap_or(0.0)));
        let cast = number_of(&column.dtype).and_then(|from| {
            let to = convert.to.unwrap_or(from);
            (to != from || scale.is_some()).then_some(Cast { from, to, scale })
        });
        let turn = match (&column.form, &convert.axes) {
            (Form::Stacked { shape }, Some(axes)) if !axes.is_sorted() => Some((&shape[..], &axes[..])),
            _ => None,
        };
        Self { cast, turn, element_len: column.element_len(), final_len: column.final_len() }
    }

    pub(super) fn is_needed(&self) -> bool {
        self.cast.is_some() || self.turn.is_some()
    }

    /// True when a sample is turned and then cast.
    pub(super) fn copies_twice(&self) -> bool {
        self.cast.is_some() && self.turn.is_some()
    }

    /// One sample, all of whose elements lie together in the batch.
    pub(super) fn sample(&self, from: &[u8], to: &mut [u8]) {
        match (&self.cast, self.turn) {
            (None, None) => to.copy_from_slice(from),
            (Some(cast), None) => cast.run(from, to),
            (None, Some((shape, axes))) => transpose(from, shape, axes, self.element_len, to),
            (Some(cast), Some((shape, axes))) => {
                let mut turned = vec![0; from.len()];
                transpose(from, shape, axes, self.element_len, &mut turned);
                cast.run(&turned, to);
            }
        }
    }

    /// One sample of those that are joined along `axis` of an array of `shape`, from index `start` on.
    pub(super) fn joined(&self, from: &[u8], shape: &[u64], axis: usize, start: u64, to: &mut [u8]) {
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let outer = index(shape[..axis].iter().product());
        let inner = index(shape[axis + 1..].iter().product());
        let (row, skip) =
            (index(shape[axis]) * inner * self.final_len, index(start) * inner * self.final_len);
        let Some(run) = from.len().checked_div(outer).filter(|run| *run > 0) else { return };
        let final_run = run / self.element_len * self.final_len;
        for (number, from) in from.chunks_exact(run).enumerate() {
            let at = number * row + skip;
            let to = &mut to[at..at + final_run];
            match &self.cast {
                Some(cast) => cast.run(from, to),
                None => to.copy_from_slice(from),
            }
        }
    }
}

/// Makes whole rows of sparse ones.
pub(super) fn densify(
    arena: &Arc<Arena>,
    column: &Column,
    dense: &DenseColumn,
    values: &FieldArray,
    numbers: &FieldArray,
) -> Result<FieldArray> {
    let offsets = values.offsets.as_deref().unwrap_or_default();
    let row_count = offsets.len().saturating_sub(1);
    let element_len = column.final_len();
    let columns = usize::try_from(dense.columns).unwrap_or(usize::MAX);
    let mut bytes = arena.take(row_count.saturating_mul(columns).saturating_mul(element_len))?;
    bytes.fill(0);
    let number = number_of(&dense.indices.dtype).unwrap_or(Number::U64);
    let at = to_unsigned(number, &numbers.bytes).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, "a negative column").at(format!("field '{}'", column.name))
    })?;
    for row in 0..row_count {
        let range = index(offsets[row])..index(offsets[row + 1]);
        for value in range {
            let Some(to) = at.get(value).and_then(|at| usize::try_from(*at).ok()).filter(|at| *at < columns)
            else {
                let what = format!("column {} of {columns}", at.get(value).copied().unwrap_or(0));
                return Err(Error::new(ErrorKind::Corrupt, what).at(format!("field '{}'", column.name)));
            };
            let to = (row * columns + to) * element_len;
            bytes[to..to + element_len]
                .copy_from_slice(&values.bytes[value * element_len..(value + 1) * element_len]);
        }
    }
    Ok(FieldArray {
        name: column.name.clone(),
        dtype: column.final_dtype(),
        shape: vec![row_count as u64, dense.columns],
        bytes,
        offsets: None,
    })
}

fn index(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}
