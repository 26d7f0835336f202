//! Plain data across the border: dicts, lists, strings and numbers of Python, read and written by serde.

use pyo3::{exceptions::PyTypeError, prelude::*};
use pythonize::{PythonizeError, depythonize, pythonize};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::error::{misread, raised};

/// An argument that Python gives as plain data.
///
/// It is read by way of a [`Value`], whose types are strict: serde alone would take `True` for a number and any object for a bool.
pub(crate) struct Plain<T>(pub(crate) T);

impl<'py, T: DeserializeOwned> FromPyObject<'_, 'py> for Plain<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let value: Value = depythonize(&given).map_err(|error| refused(given.py(), error))?;
        serde_json::from_value(value).map(Self).map_err(|error| misread(&error))
    }
}

/// Writes `value` as plain data of Python.
pub(crate) fn plain<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    pythonize(py, value).map_err(|error| refused(py, error))
}

/// Makes the exception for what is no plain data: a `TypeError` where an object has no such type, else invalid.
fn refused(py: Python<'_>, error: PythonizeError) -> PyErr {
    let text = error.to_string();
    let error = PyErr::from(error);
    if error.is_instance_of::<PyTypeError>(py) { error } else { raised(forebay::Error::invalid(text)) }
}
