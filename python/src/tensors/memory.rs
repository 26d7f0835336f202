//! One field of a batch, lent to NumPy and other libraries without a copy.

use std::sync::Arc;

use forebay::{
    batch::{DL_CPU, FieldArray},
    container::Dtype,
    container::Number,
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

use crate::tensors::{
    array_struct,
    dlpack::{self, ExportRequest},
    dtype, texts,
};

/// Memory that NumPy may use as long as it holds on to this object, and others until they drop their tensor.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct Memory {
    field: Arc<FieldArray>,
}

impl Memory {
    pub(crate) fn new(field: FieldArray) -> Self {
        Self { field: Arc::new(field) }
    }

    pub(crate) fn shared(field: Arc<FieldArray>) -> Self {
        Self { field }
    }

    /// What NumPy makes the type of, and the shape of one element.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Vec<u64>)> {
        if let Some((code, _)) = dtype::kind_code(self.field.kind) {
            return Ok((code.into_pyobject(py)?.into_any(), Vec::new()));
        }
        dtype::describe(py, &self.field.dtype)
    }
}

#[pymethods]
impl Memory {
    /// The name of the field.
    #[getter]
    fn name(&self) -> &str {
        &self.field.name
    }

    /// What `numpy.dtype` makes the type of an element of.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.describe(py)?.0)
    }

    /// True when the elements are bfloat16, which NumPy does not know.
    #[getter]
    fn is_bfloat16(&self) -> bool {
        matches!(self.field.dtype, Dtype::Number { number: Number::Bf16, .. })
    }

    /// The texts of each sample, or the one it is; nothing where samples are no texts.
    #[getter]
    fn texts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        texts::of(py, &self.field)
    }

    /// The bytes of where samples of different lengths begin and end, as 64-bit integers; nothing for texts.
    #[getter]
    fn offset_bytes(&self) -> Option<Vec<u8>> {
        let offsets = self.field.offsets.as_ref().filter(|_| !texts::are(&self.field))?;
        Some(offsets.iter().flat_map(|offset| offset.to_ne_bytes()).collect())
    }

    /// How NumPy finds the elements.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Nobody else has this memory: NumPy may write to it.
        let address = self.field.bytes.address() as usize;
        let interface = interface(py, &self.field.dtype, &self.field.shape, address)?;
        if let Some((code, _)) = dtype::kind_code(self.field.kind) {
            interface.set_item("typestr", code)?;
        }
        Ok(interface)
    }

    /// The same for numbers, without a dict to make and to take apart.
    #[getter]
    fn __array_struct__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let FieldArray { dtype, shape, bytes, kind, .. } = &*self.field;
        let code = match (dtype::kind_code(*kind), dtype) {
            (Some((code, _)), _) => code,
            (None, Dtype::Number { number, .. }) => dtype::number_code(*number),
            (None, dtype) if dtype.is_bool() => dtype::BOOL_CODE,
            // The dict tells what this is.
            _ => "",
        };
        array_struct::capsule(py, code, shape, bytes.address().expose_provenance())
    }

    /// The field as a DLPack tensor, bfloat16 as such; `stream` is ignored: the memory is the host's.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Py<PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(stream);
        dlpack::capsule(py, &self.field, &ExportRequest { max_version, dl_device, copy })
    }

    /// The device of the tensor: the host.
    fn __dlpack_device__(&self) -> (i32, i32) {
        (DL_CPU.device_type, DL_CPU.device_id)
    }
}

/// How NumPy finds elements of `dtype` at `address`, to which it may write.
pub(crate) fn interface<'py>(
    py: Python<'py>,
    dtype: &Dtype,
    shape: &[u64],
    address: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (code, inner) = dtype::describe(py, dtype)?;
    // Of an array type only its items are elements to NumPy.
    let item_count = inner.iter().product::<u64>().max(1);
    let item_len = dtype.native_len() as u64 / item_count;
    let mut shape = shape.to_vec();
    shape.extend(inner);
    let interface = PyDict::new(py);
    interface.set_item("shape", PyTuple::new(py, shape)?)?;
    match code.extract::<String>() {
        Ok(code) => interface.set_item("typestr", code)?,
        Err(_) => interface.set_item("typestr", format!("|V{item_len}"))?,
    }
    interface.set_item("data", (address, false))?;
    interface.set_item("version", 3)?;
    Ok(interface)
}
