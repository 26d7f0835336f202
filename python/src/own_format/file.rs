//! What `describe` is given: a file's path, length and bytes.

use std::sync::Arc;

use forebay::{
    Error, ErrorKind,
    source::{ByteRange, Source, SourceExt},
};
use pyo3::{prelude::*, types::PyBytes};

use crate::error::raised;

/// A file, or a folder, that is to be described.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct FormatFile {
    path: String,
    source: Option<Arc<dyn Source>>,
}

impl FormatFile {
    pub(super) fn new(path: &str, source: Option<Arc<dyn Source>>) -> Self {
        Self { path: path.to_owned(), source }
    }
}

#[pymethods]
impl FormatFile {
    /// Its path or URL.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// Its bytes; 0 for a folder.
    #[getter]
    fn size(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.id().len)
    }

    /// True for a folder, which has no bytes of its own.
    #[getter]
    fn is_folder(&self) -> bool {
        self.source.is_none()
    }

    /// `length` bytes from `offset` on; an error where the file is shorter.
    fn read<'py>(&self, py: Python<'py>, offset: u64, length: u64) -> PyResult<Bound<'py, PyBytes>> {
        let Some(source) = &self.source else {
            return Err(raised(Error::new(ErrorKind::Invalid, "is a folder").at(&self.path)));
        };
        let fetch = || source.fetch_one(ByteRange::checked(offset, length, source.id().len)?);
        let bytes = py.detach(fetch).map_err(|error| raised(error.at(&self.path)))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __repr__(&self) -> String {
        format!("<{} of {} bytes>", self.path, self.size())
    }
}
