//! A set of samples, by number.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
};

use forebay::{Error, ErrorKind, IndexCache, Options, SampleSet, Samples, SetSpec, loader::FieldArray};
use pyo3::prelude::*;

use crate::{
    dtype,
    error::{misread, raised},
    loader::PATIENCE,
    raw_batch::RawBatch,
};

/// Name, type for NumPy, shape and stored type of a field.
type FieldRow<'py> = (String, Bound<'py, PyAny>, Vec<Option<u64>>, String);

/// A set of samples, by number.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct SampleReader {
    samples: Arc<Samples>,
    /// Bytes of a sample, on average.
    mean_len: u64,
}

/// Requests below both are read on the caller's thread: they are over before anybody loses patience.
const QUICK_COUNT: usize = 16;
const QUICK_BYTES: u64 = 1 << 20;

impl SampleReader {
    fn of(samples: Samples) -> Self {
        let set = samples.set();
        let mean_len = set.delivered_len() / set.len().max(1);
        Self { samples: Arc::new(samples), mean_len }
    }

    pub(crate) fn set(&self) -> &Arc<SampleSet> {
        self.samples.set()
    }

    fn is_quick(&self, count: usize) -> bool {
        count < QUICK_COUNT && self.mean_len.saturating_mul(count as u64) < QUICK_BYTES
    }

    /// Reads on a thread of its own, so that Ctrl-C need not wait for it.
    fn get_patiently(&self, py: Python<'_>, numbers: &[u64]) -> PyResult<Vec<FieldArray>> {
        let (sender, mut receiver) = mpsc::channel();
        let (samples, asked) = (Arc::clone(&self.samples), numbers.to_vec());
        let thread = thread::Builder::new().name("forebay-get".into());
        // Nobody listens any more once the user has pressed Ctrl-C.
        let started = thread.spawn(move || drop(sender.send(samples.get(&asked))));
        if started.is_err() {
            return py.detach(|| self.samples.get(numbers)).map_err(raised);
        }
        loop {
            let receiver = &mut receiver;
            match py.detach(move || receiver.recv_timeout(PATIENCE)) {
                Ok(fields) => return fields.map_err(raised),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(raised(Error::new(ErrorKind::Bug, "a thread that reads samples panicked")));
                }
            }
        }
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
        .map(Self::of)
        .map_err(raised)
    }

    /// The same files with nothing shared: for a process that was forked.
    fn reopened(&self, py: Python<'_>, options: &str) -> PyResult<Self> {
        let options: Options = serde_json::from_str(options).map_err(|error| misread(&error))?;
        let set = Arc::clone(self.samples.set());
        py.detach(|| Samples::new(set, &options)).map(Self::of).map_err(raised)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.samples.set().len()).unwrap_or(usize::MAX)
    }

    /// The samples `numbers`, side by side.
    fn get(&self, py: Python<'_>, numbers: Vec<u64>) -> PyResult<RawBatch> {
        let fields = if self.is_quick(numbers.len()) {
            py.detach(|| self.samples.get(&numbers)).map_err(raised)?
        } else {
            self.get_patiently(py, &numbers)?
        };
        RawBatch::of_samples(py, fields, &numbers)
    }

    /// Differs when the files, or what a sample is, are not the same.
    #[getter]
    fn fingerprint(&self) -> &str {
        self.samples.set().fingerprint()
    }

    /// Name, type and shape of one sample of each field; `None` along the axis whose length differs.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Vec<FieldRow<'py>>> {
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
