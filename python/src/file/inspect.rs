//! What is in a file, for Python.

use forebay::{Variable, container::Attribute, file_facts};
use pyo3::prelude::*;

use crate::{file::read::RawArray, interruptible::interruptible, plain::plain, tensors::dtype};

/// Facts, types for NumPy by variable, and attributes.
type InspectedFacts<'py> =
    (Bound<'py, PyAny>, Vec<Option<Bound<'py, PyAny>>>, Vec<(bool, String, String, Py<PyAny>)>);

/// What is in the file at `path`: facts, types for NumPy by variable, and attributes.
#[pyfunction]
pub(crate) fn inspect_file<'py>(py: Python<'py>, path: String) -> PyResult<InspectedFacts<'py>> {
    let asked = path.clone();
    let file = interruptible(py, move || forebay::open_file(&asked))?;
    let container = file.container();
    let types = container.variables.iter().map(|variable| numpy_type(py, variable));
    let mut attributes = Vec::new();
    for group in &container.groups {
        let rows = attribute_rows(py, &group.attributes)?;
        attributes.extend(rows.into_iter().map(|(name, value)| (true, group.name.clone(), name, value)));
    }
    for variable in &container.variables {
        let rows = attribute_rows(py, &variable.attributes)?;
        attributes.extend(rows.into_iter().map(|(name, value)| (false, variable.name.clone(), name, value)));
    }
    Ok((plain(py, &file_facts(&path, container))?, types.collect::<PyResult<_>>()?, attributes))
}

/// The name of the format of what lies at `path`, or nothing where this build has none for it.
#[pyfunction]
pub(crate) fn format_at(py: Python<'_>, path: String) -> PyResult<Option<String>> {
    interruptible(py, move || {
        let origins = forebay::Origins::new();
        let at = origins.locate(&path)?;
        let found = forebay::format::Found::look(&**origins.of(&at), &at)?;
        Ok(forebay::format::format_of(&found)?.map(|format| format.name().to_owned()))
    })
}

/// What `numpy.dtype` makes the type of an element of `variable` of; nothing where NumPy has no such type.
pub(crate) fn numpy_type<'py>(py: Python<'py>, variable: &Variable) -> PyResult<Option<Bound<'py, PyAny>>> {
    let dtype = &variable.dtype;
    if dtype.is_variable() || dtype.refusal().is_some() {
        return Ok(None);
    }
    let (code, inner) = dtype::describe(py, dtype)?;
    Ok(Some(if inner.is_empty() { code } else { (code, inner).into_pyobject(py)?.into_any() }))
}

/// Names and values of attributes.
pub(crate) type AttributeRows = Vec<(String, Py<PyAny>)>;

/// Names and values of `attributes`; a value that cannot be read is a text that says why.
pub(crate) fn attribute_rows(py: Python<'_>, attributes: &[Attribute]) -> PyResult<AttributeRows> {
    let row = |attribute: &Attribute| {
        let value = match &attribute.value {
            Ok(array) => Py::new(py, RawArray::new(array.clone()))?.into_any(),
            Err(why) => why.into_pyobject(py)?.into_any().unbind(),
        };
        Ok((attribute.name.clone(), value))
    };
    attributes.iter().map(row).collect()
}
