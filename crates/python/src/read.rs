//! One variable's values, for NumPy.

use forebay::{Array, Error, ErrorKind, Result, Selection, Values, Variable, format::Dtype, format::Number};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{dtype, memory::interface, patience::patiently};

/// Values of one variable or attribute.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawArray {
    dtype: Dtype,
    shape: Vec<u64>,
    /// Of elements that differ in length: where each begins, and where the last ends.
    offsets: Option<Vec<u64>>,
    /// Where `bytes` lie: NumPy writes to them by this address alone.
    address: usize,
    bytes: Vec<u8>,
}

impl RawArray {
    pub(crate) fn new(array: Array) -> Self {
        let Array { dtype, shape, values } = array;
        let (offsets, mut bytes) = match values {
            Values::Fixed(bytes) => (None, bytes),
            Values::Variable { offsets, bytes } => (Some(offsets), bytes),
        };
        let address = bytes.as_mut_ptr() as usize;
        Self { dtype, shape, offsets, address, bytes }
    }
}

#[pymethods]
impl RawArray {
    /// What `numpy.dtype` makes the type of an element of.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(dtype::describe(py, &self.dtype)?.0)
    }

    /// True when the elements are bfloat16, which NumPy does not know.
    #[getter]
    fn is_bfloat16(&self) -> bool {
        matches!(self.dtype, Dtype::Number { number: Number::Bf16, .. })
    }

    /// True when the elements are text.
    #[getter]
    fn is_text(&self) -> bool {
        matches!(self.dtype, Dtype::Text { .. } | Dtype::VarText { .. })
    }

    /// Elements per dimension.
    #[getter]
    fn shape(&self) -> Vec<u64> {
        self.shape.clone()
    }

    /// How an element that differs in length from others is put together.
    #[getter]
    fn layout<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dtype::layout(py, &self.dtype)
    }

    /// Where elements that differ in length begin and end.
    #[getter]
    fn offsets(&self) -> Option<Vec<u64>> {
        self.offsets.clone()
    }

    /// The elements, end to end.
    fn packed<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.bytes)
    }

    /// How NumPy finds the elements.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        interface(py, &self.dtype, &self.shape, self.address)
    }
}

/// The part `selection` of a variable of the file at `path`.
#[pyfunction]
pub(crate) fn read_variable(
    py: Python<'_>,
    path: String,
    variable: String,
    selection: String,
) -> PyResult<RawArray> {
    let read = move || {
        let file = forebay::open_file(&path)?;
        let found = file.variable(&variable)?;
        file.read(found, &select(&path, found, &selection)?)
    };
    patiently(py, read).map(RawArray::new)
}

/// The part of `variable`, of the file at `path`, that `text` chooses.
pub(crate) fn select(path: &str, variable: &Variable, text: &str) -> Result<Selection> {
    let shape = &variable.grid.shape;
    let selection = with_ellipsis(text, shape.len()).and_then(|text| Selection::parse(&text, shape));
    selection.map_err(|error| error.at(format!("variable '{}'", variable.name)).at(path))
}

/// `text` with `...` written out for an array of `ndim` axes.
fn with_ellipsis(text: &str, ndim: usize) -> Result<String> {
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    let Some(at) = items.iter().position(|item| *item == "...") else { return Ok(text.to_owned()) };
    if items.iter().filter(|item| **item == "...").count() > 1 {
        let what = "... stands for all axes that are not named, so it can stand only once";
        return Err(Error::new(ErrorKind::Invalid, what).at(format!("slice '{text}'")));
    }
    let unnamed = vec![":"; (ndim + 1).saturating_sub(items.len())];
    Ok([&items[..at], &unnamed, &items[at + 1..]].concat().join(","))
}
