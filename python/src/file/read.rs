//! One variable's values, for NumPy.

use forebay::{
    Array, Error, ErrorKind, Opened, Result, Selection, Values, Variable,
    container::unpack::{Unpack, UnpackedArray, unpack},
    container::{Dtype, Number, cf::ValueKind},
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyDict},
};

use crate::{
    interruptible::interruptible,
    plain::Plain,
    tensors::{dtype, memory::interface},
};

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
    /// What the elements stand for.
    kind: ValueKind,
    /// A byte for each element that is 1 where it is missing, where that was asked for.
    mask: Option<Vec<u8>>,
}

impl RawArray {
    pub(crate) fn new(array: Array) -> Self {
        Self::unpacked(UnpackedArray { array, kind: ValueKind::Number, mask: None })
    }

    pub(crate) fn unpacked(unpacked: UnpackedArray) -> Self {
        let UnpackedArray { array: Array { dtype, shape, values }, kind, mask } = unpacked;
        let (offsets, mut bytes) = match values {
            Values::Fixed(bytes) => (None, bytes),
            Values::Variable { offsets, bytes } => (Some(offsets), bytes),
        };
        let address = bytes.as_mut_ptr() as usize;
        Self { dtype, shape, offsets, address, bytes, kind, mask }
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
        let interface = interface(py, &self.dtype, &self.shape, self.address)?;
        if let Some((code, _)) = dtype::kind_code(self.kind) {
            interface.set_item("typestr", code)?;
        }
        Ok(interface)
    }

    /// A byte for each element that is 1 where it is missing, where that was asked for.
    #[getter]
    fn mask<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        Some(PyBytes::new(py, self.mask.as_deref()?))
    }
}

/// The part `selection` of a variable of the file at `path`, unpacked as `how` says, if it says anything.
#[pyfunction]
#[pyo3(signature = (path, variable, selection, how = None))]
pub(crate) fn read_variable(
    py: Python<'_>,
    path: String,
    variable: String,
    selection: String,
    how: Option<Plain<Unpack>>,
) -> PyResult<RawArray> {
    let how = how.map(|Plain(how)| how);
    let read = move || {
        let file = forebay::open_file(&path)?;
        let found = file.variable(&variable)?;
        values(&file, found, &select(&path, found, &selection)?, how)
    };
    interruptible(py, read).map(RawArray::unpacked)
}

/// The part `selection` of `variable`, unpacked as `how` asks.
pub(crate) fn values(
    file: &Opened,
    variable: &Variable,
    selection: &Selection,
    how: Option<Unpack>,
) -> Result<UnpackedArray> {
    let array = file.read(variable, selection)?;
    let Some(how) = how else { return Ok(UnpackedArray { array, kind: ValueKind::Number, mask: None }) };
    unpack(variable, array, how).map_err(|error| {
        let error = error.at(format!("variable '{}'", variable.name));
        match file.container().sources.first() {
            Some(id) => error.at(&id.locator),
            None => error,
        }
    })
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
