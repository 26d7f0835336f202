//! Fields of texts, as Python has them: a `str` for each sample, or a list of them.

use forebay::{batch::FieldArray, container::cf::ValueKind};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyList, PyString},
};

/// True when the samples of `field` are texts.
pub(crate) fn are(field: &FieldArray) -> bool {
    matches!(field.kind, ValueKind::Text | ValueKind::Texts)
}

/// The texts of each sample of `field`, or the one it is; nothing where samples are no texts.
pub(crate) fn of<'py>(py: Python<'py>, field: &FieldArray) -> PyResult<Option<Bound<'py, PyList>>> {
    if !are(field) {
        return Ok(None);
    }
    let offsets = field.offsets.as_deref().unwrap_or_default();
    let texts = PyList::empty(py);
    for two in offsets.windows(2) {
        let at = |offset: i64| usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = field.bytes.get(at(two[0])..at(two[1])).unwrap_or_default();
        if field.kind == ValueKind::Text {
            texts.append(text(py, bytes)?)?;
            continue;
        }
        let each = bytes.strip_suffix(b"\0").map(|bytes| bytes.split(|byte| *byte == 0));
        let each = each.into_iter().flatten().map(|one| text(py, one)).collect::<PyResult<Vec<_>>>()?;
        texts.append(PyList::new(py, each)?)?;
    }
    Ok(Some(texts))
}

/// `bytes` as a text; those that are no UTF-8 become lone surrogates, as Python does with file names.
fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => {
            let decoded = PyBytes::new(py, bytes).call_method1("decode", ("utf-8", "surrogateescape"))?;
            Ok(decoded.cast_into::<PyString>()?)
        }
    }
}
