//! Element types as NumPy writes them.

use forebay::container::{Dtype, Number, cf::ValueKind, native};
use pyo3::{prelude::*, types::PyDict};

/// What NumPy makes a type of: a short text, or a dict with the members of a compound; and the shape of one element.
pub(crate) fn describe<'py>(py: Python<'py>, dtype: &Dtype) -> PyResult<(Bound<'py, PyAny>, Vec<u64>)> {
    let text = |text: String| -> PyResult<_> { Ok(text.into_pyobject(py)?.into_any()) };
    let plain = match dtype {
        Dtype::Number { number, .. } | Dtype::Bits { number, .. } | Dtype::Nonstandard { number, .. } => {
            text(number_code(*number).to_owned())?
        }
        dtype if dtype.is_bool() => text(BOOL_CODE.to_owned())?,
        Dtype::Enum { base, .. } => return describe(py, base),
        Dtype::Complex { part: Number::F32, .. } => text("<c8".to_owned())?,
        Dtype::Complex { part: Number::F64, .. } => text("<c16".to_owned())?,
        Dtype::Complex { part, .. } => {
            let code = text(number_code(*part).to_owned())?;
            compound(py, vec![("r", code.clone(), 0), ("i", code, part.size())], 2 * part.size())?
        }
        Dtype::Text { len, .. } => text(format!("|S{len}"))?,
        Dtype::Array { shape, item } => {
            let (item, mut inner) = describe(py, item)?;
            let mut whole = shape.clone();
            whole.append(&mut inner);
            return Ok((item, whole));
        }
        Dtype::Compound { len, fields } => {
            let mut members = Vec::with_capacity(fields.len());
            for field in fields {
                let (member, shape) = describe(py, &field.dtype)?;
                let member =
                    if shape.is_empty() { member } else { (member, shape).into_pyobject(py)?.into_any() };
                members.push((field.name.as_str(), member, field.offset));
            }
            compound(py, members, *len)?
        }
        other => text(format!("|V{}", other.native_len()))?,
    };
    Ok((plain, Vec::new()))
}

/// How an element that differs in length from others is put together, as nested tuples.
///
/// `("text",)`, `("sequence", item)`, `("compound", [(name, member)])`, `("array", shape, item)`; and for what is of
/// fixed length `("fixed", code, shape, len)`, without the gaps that a compound may have.
pub(crate) fn layout<'py>(py: Python<'py>, dtype: &Dtype) -> PyResult<Bound<'py, PyAny>> {
    Ok(match dtype {
        Dtype::VarText { .. } => ("text",).into_pyobject(py)?.into_any(),
        Dtype::Sequence { item, .. } => ("sequence", layout(py, item)?).into_pyobject(py)?.into_any(),
        Dtype::Compound { fields, .. } => {
            let members = fields.iter().map(|field| Ok((field.name.as_str(), layout(py, &field.dtype)?)));
            ("compound", members.collect::<PyResult<Vec<_>>>()?).into_pyobject(py)?.into_any()
        }
        Dtype::Array { shape, item } if dtype.is_variable() || matches!(**item, Dtype::Compound { .. }) => {
            ("array", shape.clone(), layout(py, item)?).into_pyobject(py)?.into_any()
        }
        dtype => {
            let (code, shape) = describe(py, dtype)?;
            ("fixed", code, shape, native::packed_len(dtype).unwrap_or(0)).into_pyobject(py)?.into_any()
        }
    })
}

fn compound<'py>(
    py: Python<'py>,
    members: Vec<(&str, Bound<'py, PyAny>, usize)>,
    len: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let dict = PyDict::new(py);
    dict.set_item("names", members.iter().map(|(name, ..)| *name).collect::<Vec<_>>())?;
    dict.set_item("offsets", members.iter().map(|(.., offset)| *offset).collect::<Vec<_>>())?;
    dict.set_item("formats", members.into_iter().map(|(_, member, _)| member).collect::<Vec<_>>())?;
    dict.set_item("itemsize", len)?;
    Ok(dict.into_any())
}

/// NumPy's code of truth values.
pub(crate) const BOOL_CODE: &str = "|b1";

/// NumPy's code of values of `kind`, where they are more than numbers, and what people call it.
pub(crate) fn kind_code(kind: ValueKind) -> Option<(&'static str, &'static str)> {
    match kind {
        ValueKind::Datetime => Some(("<M8[ns]", "datetime64[ns]")),
        ValueKind::Timedelta => Some(("<m8[ns]", "timedelta64[ns]")),
        ValueKind::Number | ValueKind::Bool | ValueKind::Days(_) | ValueKind::Text | ValueKind::Texts => None,
    }
}

/// NumPy's code of a number; it has none for bfloat16, whose bits go as an integer.
pub(crate) fn number_code(number: Number) -> &'static str {
    match number {
        Number::I8 => "|i1",
        Number::I16 => "<i2",
        Number::I32 => "<i4",
        Number::I64 => "<i8",
        Number::U8 => "|u1",
        Number::U16 | Number::Bf16 => "<u2",
        Number::U32 => "<u4",
        Number::U64 => "<u8",
        Number::F16 => "<f2",
        Number::F32 => "<f4",
        Number::F64 => "<f8",
    }
}
