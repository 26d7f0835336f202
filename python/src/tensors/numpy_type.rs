//! From NumPy's types to ours.

use forebay::container::{ByteOrder, Dtype, Field, Member, Number, Padding};
use pyo3::{exceptions::PyTypeError, prelude::*};

/// A type that NumPy described.
pub(crate) struct NumpyType(pub(crate) Dtype);

impl<'py> FromPyObject<'_, 'py> for NumpyType {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        dtype_of(&object).map(Self)
    }
}

/// Our type for `given`, a `numpy.dtype`.
fn dtype_of(given: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    let subdtype = given.getattr("subdtype")?;
    if !subdtype.is_none() {
        let (item, shape): (Bound<'_, PyAny>, Vec<u64>) = subdtype.extract()?;
        return Ok(Dtype::Array { shape, item: Box::new(dtype_of(&item)?) });
    }
    let len: usize = given.getattr("itemsize")?.extract()?;
    if !given.getattr("fields")?.is_none() {
        return compound(given, len);
    }
    let kind: String = given.getattr("kind")?.extract()?;
    let order = match given.getattr("byteorder")?.extract::<String>()?.as_str() {
        ">" => ByteOrder::Big,
        _ => ByteOrder::Little,
    };
    let number = |number: Option<Number>| number.map(|number| Dtype::Number { number, order });
    let found = match kind.as_str() {
        _ if given.str()? == "bfloat16" => number(Some(Number::Bf16)),
        "i" => number(Number::integer(len, true)),
        "u" => number(Number::integer(len, false)),
        "f" => number(float(len)),
        "c" => float(len / 2).map(|part| Dtype::Complex { part, order }),
        "b" => Some(boolean()),
        "S" if len > 0 => Some(Dtype::Text { len, padding: Padding::NulPadded, utf8: true }),
        "V" if len > 0 => Some(Dtype::Opaque { len, tag: String::new() }),
        _ => None,
    };
    found.ok_or_else(|| {
        let remedy = "there are numbers, complex numbers, booleans, bytes ('S8'), and compounds of these";
        PyTypeError::new_err(format!("no variable has elements of NumPy's type {given}; {remedy}"))
    })
}

fn float(len: usize) -> Option<Number> {
    match len {
        2 => Some(Number::F16),
        4 => Some(Number::F32),
        8 => Some(Number::F64),
        _ => None,
    }
}

/// A byte that is 0 or 1, as h5py writes it.
fn boolean() -> Dtype {
    let member = |name: &str, value| Member { name: name.into(), value };
    Dtype::Enum {
        base: Box::new(Dtype::native(Number::I8)),
        members: vec![member("FALSE", 0), member("TRUE", 1)],
    }
}

fn compound(given: &Bound<'_, PyAny>, len: usize) -> PyResult<Dtype> {
    let names: Vec<String> = given.getattr("names")?.extract()?;
    let known = given.getattr("fields")?;
    let field = |name: String| {
        let described = known.get_item(&name)?;
        let (dtype, offset) = (described.get_item(0)?, described.get_item(1)?.extract()?);
        Ok(Field { name, offset, dtype: dtype_of(&dtype)? })
    };
    Ok(Dtype::Compound { len, fields: names.into_iter().map(field).collect::<PyResult<_>>()? })
}
