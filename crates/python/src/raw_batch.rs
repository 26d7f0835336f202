//! What a batch is made of, as it crosses the border.

use forebay::{Batch, loader::FieldArray};
use pyo3::prelude::*;

use crate::memory::Memory;

/// Fields, sample numbers and seeds.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawBatch {
    #[pyo3(get)]
    fields: Vec<Py<Memory>>,
    samples: Vec<Option<u64>>,
    seeds: Vec<u64>,
    #[pyo3(get)]
    epoch: u64,
    #[pyo3(get)]
    step: u64,
    troubles: Vec<(u64, String)>,
}

impl RawBatch {
    pub(crate) fn new(py: Python<'_>, batch: Batch) -> PyResult<Self> {
        let Batch { fields, samples, seeds, epoch, step, troubles, .. } = batch;
        let troubles = troubles.into_iter().map(|trouble| (trouble.sample, trouble.why)).collect();
        Ok(Self { fields: lend(py, fields)?, samples, seeds, epoch, step, troubles })
    }

    pub(crate) fn of_samples(py: Python<'_>, fields: Vec<FieldArray>, numbers: &[u64]) -> PyResult<Self> {
        let samples = numbers.iter().map(|number| Some(*number)).collect();
        Ok(Self {
            fields: lend(py, fields)?,
            samples,
            seeds: Vec::new(),
            epoch: 0,
            step: 0,
            troubles: Vec::new(),
        })
    }
}

fn lend(py: Python<'_>, fields: Vec<FieldArray>) -> PyResult<Vec<Py<Memory>>> {
    fields.into_iter().map(|field| Py::new(py, Memory::new(field))).collect()
}

#[pymethods]
impl RawBatch {
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

    /// Samples that could not be read, and why.
    fn troubles(&self) -> Vec<(u64, String)> {
        self.troubles.clone()
    }
}
