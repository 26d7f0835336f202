//! What a batch is made of, as it crosses the border.

use std::sync::{Mutex, PoisonError};

use forebay::{Batch, batch::FieldArray, loader::Receipt};
use pyo3::prelude::*;

use crate::memory::Memory;

/// Fields, sample numbers and seeds.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawBatch {
    fields: Mutex<Vec<FieldArray>>,
    samples: Vec<Option<u64>>,
    seeds: Vec<u64>,
    #[pyo3(get)]
    epoch: u64,
    #[pyo3(get)]
    step: u64,
    failed: Vec<(u64, String)>,
    /// By what it is committed; nothing for samples that were asked for by number.
    pub(crate) receipt: Option<Receipt>,
}

impl RawBatch {
    pub(crate) fn new(batch: Batch) -> Self {
        let receipt = Some(batch.receipt());
        let Batch { fields, samples, seeds, epoch, step, failed, .. } = batch;
        let failed = failed.into_iter().map(|one| (one.sample, one.why)).collect();
        Self { fields: Mutex::new(fields), samples, seeds, epoch, step, failed, receipt }
    }

    pub(crate) fn of_samples(fields: Vec<FieldArray>, numbers: &[u64]) -> Self {
        let samples = numbers.iter().map(|number| Some(*number)).collect();
        let (fields, seeds, failed) = (Mutex::new(fields), Vec::new(), Vec::new());
        Self { fields, samples, seeds, epoch: 0, step: 0, failed, receipt: None }
    }
}

#[pymethods]
impl RawBatch {
    /// The fields, once: from then on they are the caller's alone.
    fn take_fields(&self, py: Python<'_>) -> PyResult<Vec<Py<Memory>>> {
        let fields = std::mem::take(&mut *self.fields.lock().unwrap_or_else(PoisonError::into_inner));
        fields.into_iter().map(|field| Py::new(py, Memory::new(field))).collect()
    }

    /// The bytes of the sample numbers as 64-bit integers, -1 where padding stands.
    fn index_bytes(&self) -> Vec<u8> {
        let number =
            |sample: &Option<u64>| sample.map_or(-1, |sample| i64::try_from(sample).unwrap_or(i64::MAX));
        self.samples.iter().flat_map(|sample| number(sample).to_ne_bytes()).collect()
    }

    /// The bytes of the seeds as unsigned 64-bit integers.
    fn seed_bytes(&self) -> Vec<u8> {
        self.seeds.iter().flat_map(|seed| seed.to_ne_bytes()).collect()
    }

    /// The same samples under other numbers; the fields are taken from this one.
    fn renumbered(&self, numbers: Vec<u64>) -> Self {
        let fields = std::mem::take(&mut *self.fields.lock().unwrap_or_else(PoisonError::into_inner));
        Self::of_samples(fields, &numbers)
    }

    /// Samples that could not be read, and why.
    fn troubles(&self) -> Vec<(u64, String)> {
        self.failed.clone()
    }
}
