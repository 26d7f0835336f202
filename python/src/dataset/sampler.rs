//! Subsets of a set of samples, and how samples are drawn.

use std::{ops::Range, sync::Arc};

use forebay::{
    Error, Options,
    plan::{BucketDraws, Draws, RoundDraws, Sampler, Subset, WeightedDraws},
};
use pyo3::{prelude::*, types::PyBytes};

use crate::error::raised;

/// A subset: from its numbers to those of the whole set.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawSubset {
    subset: Arc<Subset>,
}

impl RawSubset {
    fn of(subset: Result<Subset, Error>) -> PyResult<Self> {
        Ok(Self { subset: Arc::new(subset.map_err(raised)?) })
    }

    /// The subset itself.
    pub(crate) fn shared(&self) -> Arc<Subset> {
        Arc::clone(&self.subset)
    }
}

#[pymethods]
impl RawSubset {
    /// `len` samples of `whole_len`, from `start` on in steps of `step`.
    #[staticmethod]
    fn slice(whole_len: u64, start: u64, step: i64, len: u64) -> PyResult<Self> {
        Self::of(Subset::slice(whole_len, start, step, len))
    }

    /// The listed samples of `whole_len`, as the bytes of unsigned 64-bit integers.
    #[staticmethod]
    fn listed(whole_len: u64, samples: &[u8]) -> PyResult<Self> {
        Self::of(Subset::listed(whole_len, words(samples)))
    }

    /// The samples at the places `start` to `end` of a shuffle of `len` by `seed`.
    #[staticmethod]
    fn split(py: Python<'_>, len: u64, seed: u64, start: u64, end: u64) -> PyResult<Self> {
        Self::of(py.detach(|| Subset::split(len, seed, Range { start, end })))
    }

    /// The subset of this one that `inner` is.
    fn then(&self, py: Python<'_>, inner: &Self) -> PyResult<Self> {
        Self::of(py.detach(|| self.subset.then(&inner.subset)))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.subset.len()).unwrap_or(usize::MAX)
    }

    /// Which samples these are, in a word.
    #[getter]
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| self.subset.digest())
    }

    /// The samples of the whole set that have `numbers` here, or all; both as the bytes of 64-bit integers.
    #[pyo3(signature = (numbers=None))]
    fn samples<'py>(&self, py: Python<'py>, numbers: Option<&[u8]>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = py.detach(|| {
            let sample = |number: u64| self.subset.sample(number).unwrap_or(u64::MAX).to_ne_bytes();
            match numbers {
                Some(numbers) => words(numbers).into_iter().flat_map(sample).collect(),
                None => (0..self.subset.len()).flat_map(sample).collect(),
            }
        });
        PyBytes::new(py, &bytes)
    }
}

/// How the samples of an epoch are drawn.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawDraws {
    draws: Arc<Draws>,
}

impl RawDraws {
    fn of(draws: Result<Draws, Error>) -> PyResult<Self> {
        Ok(Self { draws: Arc::new(draws.map_err(raised)?) })
    }
}

#[pymethods]
impl RawDraws {
    /// `len` draws by `weights`, the bytes of 64-bit floats.
    #[staticmethod]
    fn weighted(weights: &[u8], len: u64, replacement: bool) -> PyResult<Self> {
        let weights: Vec<f64> = words(weights).into_iter().map(f64::from_bits).collect();
        Self::of(WeightedDraws::new(&weights, len, replacement).map(Draws::Weighted))
    }

    /// `len` draws in rounds of `shares` samples of each of several sources, which have `lens` samples.
    #[staticmethod]
    fn rounds(lens: Vec<u64>, shares: Vec<u64>, len: u64) -> PyResult<Self> {
        Self::of(RoundDraws::of_sources(&lens, &shares, len).map(Draws::Rounds))
    }

    /// `len` draws in rounds of one sample of each class; `classes` are the bytes of unsigned 32-bit integers.
    #[staticmethod]
    fn balanced(classes: &[u8], len: u64) -> PyResult<Self> {
        let (classes, _) = classes.as_chunks();
        let classes: Vec<u32> = classes.iter().map(|class| u32::from_ne_bytes(*class)).collect();
        Self::of(RoundDraws::balanced(&classes, len).map(Draws::Rounds))
    }

    /// Runs of `run_len` samples of similar length; `lens` are the bytes of unsigned 64-bit integers.
    #[staticmethod]
    fn buckets(lens: &[u8], run_len: u64) -> PyResult<Self> {
        Self::of(BucketDraws::new(words(lens), run_len).map(Draws::Buckets))
    }

    /// How many samples an epoch has.
    fn __len__(&self) -> usize {
        usize::try_from(self.draws.len()).unwrap_or(usize::MAX)
    }
}

/// `options` of a loader that draws by `draws` from `subset`.
pub(crate) fn sampled(options: Options, subset: Option<&RawSubset>, draws: Option<&RawDraws>) -> Options {
    let sampler = Sampler {
        subset: subset.map(|raw| Arc::clone(&raw.subset)),
        draws: draws.map(|raw| Arc::clone(&raw.draws)),
    };
    Options { sampler, ..options }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}
