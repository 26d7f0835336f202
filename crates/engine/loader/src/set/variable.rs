//! Variables whose elements differ in length by themselves: which of them are fields, and how their samples stand in a batch.

use forebay_container::{Dtype, cf::ValueKind};
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    set::column::{ColumnPart, SampleForm},
    spec::{Boundary, FieldSpec},
};

/// Refuses elements of any length that are neither texts nor sequences of numbers, and those that would lie in several files.
pub(crate) fn check(dtype: &Dtype, samples: &Boundary) -> Result<()> {
    let refused = |what: String| Err(Error::new(ErrorKind::Unsupported, format!("holds {dtype}, {what}")));
    if dtype.is_variable() && kind_of(dtype).is_none() {
        let refused = refused("whose elements differ in length".into());
        return refused.map_err(|error| error.hint("texts and sequences of numbers can be fields"));
    }
    if dtype.is_variable() && matches!(samples, Boundary::Series(_)) {
        return refused("and boxes that go on from file to file need elements of one length".into());
    }
    Ok(())
}

/// What elements of any length consist of, where they can be fields.
fn kind_of(dtype: &Dtype) -> Option<ValueKind> {
    match dtype {
        Dtype::VarText { .. } => Some(ValueKind::Text),
        Dtype::Sequence { item, .. } => {
            let is_number = item.number().is_some() || matches!(**item, Dtype::Complex { .. });
            is_number.then_some(ValueKind::Number)
        }
        _ => None,
    }
}

/// What the elements of `parts` consist of, where they differ in length: the same in all files.
pub(crate) fn elements(field: &FieldSpec, parts: &[ColumnPart]) -> Result<Option<ValueKind>> {
    let dtype = |part: &ColumnPart| part.variable().dtype.clone();
    let kind = kind_of(&dtype(&parts[0]));
    if let Some(other) = parts.iter().find(|part| kind_of(&dtype(part)) != kind) {
        let what = format!("holds {}, the first file {}", dtype(other), dtype(&parts[0]));
        return Err(other.named(Error::new(ErrorKind::Invalid, what)));
    }
    if kind.is_some() && field.dense.is_some() {
        let what = format!("holds {}, which are no values of sparse rows", dtype(&parts[0]));
        return Err(parts[0].named(Error::new(ErrorKind::Invalid, what)));
    }
    Ok(kind)
}

/// How samples of elements of `kind` stand in a batch, where samples of one length would stand as `form` says.
pub(crate) fn form(kind: Option<ValueKind>, form: SampleForm) -> Result<(SampleForm, Option<ValueKind>)> {
    let is_single = matches!(&form, SampleForm::Stacked { shape } if shape.is_empty());
    let kind = match kind {
        None => return Ok((form, None)),
        Some(ValueKind::Number) if !is_single => {
            let what = "a sample would have several sequences";
            return Err(Error::new(ErrorKind::Unsupported, what).hint("take one element as a sample"));
        }
        Some(ValueKind::Text) if !is_single => ValueKind::Texts,
        Some(kind) => kind,
    };
    Ok((SampleForm::Joined { axis: 0, shape: vec![0] }, Some(kind)))
}
