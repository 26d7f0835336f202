//! Sparse rows (CSR) as whole ones.

use forebay_batch::{BatchMemory, FieldArray};
use forebay_container::{Number, cast::to_unsigned};
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::column::{Column, DenseColumn, SampleAt},
    to_usize::to_usize,
};

/// Makes whole rows of sparse ones.
pub(super) fn densify(
    memory: &BatchMemory<'_>,
    column: &Column,
    dense: &DenseColumn,
    [values, numbers]: [&FieldArray; 2],
    located: &[Option<SampleAt>],
) -> Result<FieldArray> {
    let offsets = values.offsets.as_deref().unwrap_or_default();
    let row_count = offsets.len().saturating_sub(1);
    let element_len = column.final_len();
    let columns = to_usize(dense.columns);
    let mut bytes = memory.take(row_count.saturating_mul(columns).saturating_mul(element_len))?;
    bytes.fill(0);
    let number = dense.indices.dtype.number().unwrap_or(Number::U64);
    let at = to_unsigned(number, &numbers.bytes).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "a negative column").at(format!("field '{}'", column.name))
    })?;
    for row in 0..row_count {
        let range = to_usize(offsets[row].cast_unsigned())..to_usize(offsets[row + 1].cast_unsigned());
        for value in range {
            let Some(to) = at.get(value).and_then(|at| usize::try_from(*at).ok()).filter(|at| *at < columns)
            else {
                let what = format!("column {} of {columns}", at.get(value).copied().unwrap_or(0));
                let error = Error::new(ErrorKind::Corrupt, what).hint("`columns` says how many a row has");
                let error = match located[row] {
                    Some(located) => {
                        let part = dense.indices.part(located);
                        part.named(error.at(format!("sample {}", located.number)))
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
