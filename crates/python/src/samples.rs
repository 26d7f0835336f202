//! A set of samples, by number.

use std::sync::Arc;

use forebay::{IndexCache, Options, SampleSet, Samples, SetSpec};
use pyo3::prelude::*;

use crate::{
    dtype,
    error::{misread, raised},
    raw_batch::RawBatch,
};

/// A set of samples, by number.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct SampleReader {
    samples: Samples,
}

impl SampleReader {
    pub(crate) fn set(&self) -> &Arc<SampleSet> {
        self.samples.set()
    }
}

#[pymethods]
impl SampleReader {
    /// Opens the files of `spec` (JSON), read as `options` (JSON) say.
    #[new]
    fn new(py: Python<'_>, spec: &str, options: &str) -> PyResult<Self> {
        let spec: SetSpec = serde_json::from_str(spec).map_err(|error| misread(&error))?;
        let options: Options = serde_json::from_str(options).map_err(|error| misread(&error))?;
        py.detach(|| {
            let set = forebay::open_set(spec, IndexCache::of_user().as_ref())?;
            Samples::new(Arc::new(set), &options)
        })
        .map(|samples| Self { samples })
        .map_err(raised)
    }

    /// The same files with nothing shared: for a process that was forked.
    fn reopened(&self, py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: Options = serde_json::from_str(options).map_err(|error| misread(&error))?;
        let set = Arc::clone(self.samples.set());
        py.detach(|| Samples::new(set, &options)).map(|samples| Self { samples }).map_err(raised)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.samples.set().len()).unwrap_or(usize::MAX)
    }

    /// The samples `numbers`, side by side.
    fn get(&self, py: Python<'_>, numbers: Vec<u64>) -> PyResult<RawBatch> {
        let fields = py.detach(|| self.samples.get(&numbers)).map_err(raised)?;
        RawBatch::of_samples(py, fields, &numbers)
    }

    /// Differs when the files, or what a sample is, are not the same.
    #[getter]
    fn fingerprint(&self) -> &str {
        self.samples.set().fingerprint()
    }

    /// Name, type and shape of one sample of each field; `None` along the axis whose length differs.
    fn fields<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<(String, Bound<'py, PyAny>, Vec<Option<u64>>, String)>> {
        let facts = self.samples.set().fields();
        facts
            .into_iter()
            .map(|field| {
                let (code, inner) = dtype::describe(py, &field.dtype)?;
                let mut shape = field.sample_shape;
                shape.extend(inner.into_iter().map(Some));
                Ok((field.name, code, shape, field.dtype.to_string()))
            })
            .collect()
    }

    /// The files, each once.
    fn files(&self) -> Vec<String> {
        let files = self.samples.set().files();
        files.iter().filter_map(|file| Some(file.container().sources.first()?.locator.to_string())).collect()
    }

    /// Bytes of all samples as they are delivered.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.samples.set().delivered_len()
    }

    /// What was read so far, as JSON.
    fn stats(&self) -> String {
        serde_json::to_string(&self.samples.stats()).unwrap_or_default()
    }
}
