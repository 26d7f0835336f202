//! What a batch is made of, as it crosses the border.

use std::{
    iter::once,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use forebay::{
    Batch, Error, ErrorKind, SampleSet,
    batch::FieldArray,
    loader::{AxisOrigins, Receipt},
    plan::Subset,
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use crate::{
    error::raised,
    tensors::{
        dlpack,
        joint_fields::{JointFields, joint_fields, offsets_field},
        memory::Memory,
        texts,
    },
};

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
    /// Seconds that the consumer waited for it.
    #[pyo3(get)]
    wait_seconds: f64,
    /// Seconds that a thread took to make it.
    #[pyo3(get)]
    make_seconds: f64,
    failed: Vec<(u64, String)>,
    /// By what it is committed; nothing for samples that were asked for by number.
    pub(crate) receipt: Option<Receipt>,
    /// What its samples are numbers of, where they come from files.
    set: Option<NumberedSet>,
    /// Their numbers there, where they were given others.
    renumbered: Option<Vec<Option<u64>>>,
}

/// A set, or a subset of it, that samples are numbers of.
#[derive(Clone)]
pub(crate) struct NumberedSet {
    /// A batch that is kept does not keep files and tiers open.
    pub(crate) set: Weak<SampleSet>,
    pub(crate) subset: Option<Arc<Subset>>,
}

impl RawBatch {
    pub(crate) fn new(batch: Batch) -> Self {
        let receipt = Some(batch.receipt());
        let (wait_seconds, make_seconds) = (batch.waited.as_secs_f64(), batch.took.as_secs_f64());
        let Batch { fields, samples, seeds, epoch, step, failed, .. } = batch;
        let failed = failed.into_iter().map(|one| (one.sample, one.why)).collect();
        Self {
            fields: Mutex::new(fields),
            samples,
            seeds,
            epoch,
            step,
            wait_seconds,
            make_seconds,
            failed,
            receipt,
            set: None,
            renumbered: None,
        }
    }

    pub(crate) fn of_samples(fields: Vec<FieldArray>, numbers: &[u64]) -> Self {
        let samples = numbers.iter().map(|number| Some(*number)).collect();
        let (fields, seeds, failed) = (Mutex::new(fields), Vec::new(), Vec::new());
        Self {
            fields,
            samples,
            seeds,
            epoch: 0,
            step: 0,
            wait_seconds: 0.0,
            make_seconds: 0.0,
            failed,
            receipt: None,
            set: None,
            renumbered: None,
        }
    }

    /// The batch, whose samples are numbers of `set`.
    pub(crate) fn of_set(self, set: Option<NumberedSet>) -> Self {
        Self { set, ..self }
    }
}

/// An axis, by name or by position.
#[derive(IntoPyObject)]
pub(crate) enum AxisKey {
    Name(String),
    Position(usize),
}

#[pymethods]
impl RawBatch {
    /// The fields, once: from then on they are the caller's alone.
    fn take_fields(&self, py: Python<'_>) -> PyResult<Vec<Py<Memory>>> {
        let fields = std::mem::take(&mut *self.fields.lock().unwrap_or_else(PoisonError::into_inner));
        fields.into_iter().map(|field| Py::new(py, Memory::new(field))).collect()
    }

    /// Puts the fields into `batch`, once, each as `tensor_of` makes it of a DLPack capsule and `more` arguments, or `other` of its memory
    /// where DLPack has no type for it; gives the offsets of those whose samples differ in length, as tensors too.
    #[pyo3(signature = (batch, tensor_of, other, more=None))]
    fn fill<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, PyDict>,
        tensor_of: &Bound<'py, PyAny>,
        other: &Bound<'py, PyAny>,
        more: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let tensor_of = |capsule: Bound<'py, PyAny>| match more {
            None => tensor_of.call1((capsule,)),
            Some(more) => tensor_of.call1(PyTuple::new(py, once(capsule).chain(more).collect::<Vec<_>>())?),
        };
        let fields = std::mem::take(&mut *self.fields.lock().unwrap_or_else(PoisonError::into_inner));
        let offsets_of = PyDict::new(py);
        for field in fields {
            let field = Arc::new(field);
            let name = PyString::intern(py, &field.name);
            if let Some(texts) = texts::of(py, &field)? {
                batch.set_item(name, texts)?;
                continue;
            }
            if let Some(offsets) = &field.offsets {
                let offsets = Arc::new(offsets_field(&field.bytes, offsets)?);
                offsets_of.set_item(&name, tensor_of(dlpack::plain_capsule(py, &offsets)?)?)?;
            }
            let tensor = match dlpack::plain_capsule(py, &field).and_then(tensor_of) {
                Ok(tensor) => tensor,
                // An older PyTorch lacks types that DLPack has.
                Err(_) => other.call1((Py::new(py, Memory::shared(field))?,))?,
            };
            batch.set_item(name, tensor)?;
        }
        Ok(offsets_of)
    }

    /// The fields side by side, once: the memory in as few pieces as it has blocks, and of each field where it lies.
    fn take_joint(&self, py: Python<'_>) -> PyResult<JointFields> {
        let fields = std::mem::take(&mut *self.fields.lock().unwrap_or_else(PoisonError::into_inner));
        joint_fields(py, fields)
    }

    /// Where the consumer is once this batch was used: the epoch, and positions of its order over all ranks; nothing for samples that
    /// were asked for by number.
    #[getter]
    fn position(&self) -> Option<(u64, u64)> {
        self.receipt.map(|receipt| receipt.position_after(self.epoch))
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
        let renumbered = Some(self.samples.clone());
        Self { set: self.set.clone(), renumbered, ..Self::of_samples(fields, &numbers) }
    }

    /// Samples that could not be read, and why.
    fn troubles(&self) -> Vec<(u64, String)> {
        self.failed.clone()
    }

    /// By axis, by its name or position, the bytes of where samples begin, as 64-bit integers.
    fn origins(&self) -> PyResult<Vec<(AxisKey, Vec<u8>)>> {
        let Some(NumberedSet { set, subset }) = &self.set else { return Ok(Vec::new()) };
        let set = set.upgrade().ok_or_else(|| {
            let gone =
                Error::new(ErrorKind::Invalid, "the data set of this batch is gone, and with it its origins");
            raised(gone.hint("ask for batch.origins while the data set or its loader is there"))
        })?;
        let whole = |number: u64| match subset {
            Some(subset) => subset.sample(number).unwrap_or(number),
            None => number,
        };
        let samples = self.renumbered.as_ref().unwrap_or(&self.samples);
        let numbers: Vec<u64> = samples.iter().flatten().copied().map(whole).collect();
        let of_axis = |origins: AxisOrigins| {
            let mut starts = origins.starts.iter().map(|start| i64::try_from(*start).unwrap_or(i64::MAX));
            let start = |sample: &Option<u64>| sample.and_then(|_| starts.next()).unwrap_or(-1);
            let bytes = self.samples.iter().map(start).flat_map(i64::to_ne_bytes).collect();
            let position = AxisKey::Position(origins.axis.unwrap_or(0));
            (origins.name.map_or(position, AxisKey::Name), bytes)
        };
        Ok(set.origins(&numbers).into_iter().map(of_axis).collect())
    }
}
