//! Statistics of a set, computed step by step so that Ctrl-C and a progress bar have their turn.

use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay::{
    Error, Options, StatisticsRun, saved_statistics,
    transform::{ChannelStatistics, FieldStatistics, StatisticsSpec},
};
use pyo3::prelude::*;

use crate::{
    closable::end,
    dataset::{
        sampler::{RawSubset, sampled},
        samples::SampleReader,
    },
    error::raised,
    interruptible::SIGNAL_INTERVAL,
    plain::Plain,
    store::{MeasuredMaker, RawStore, concat::RawStoreConcat},
};

/// A field: its name, its axis, and of each channel the count, the missing values, and mean, deviation, bounds and quantiles.
type StatisticsRow = (String, Option<usize>, Vec<(u64, u64, Vec<f64>)>);

/// Statistics that are being computed, or were found.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawStatistics {
    state: Mutex<StatisticsState>,
}

enum StatisticsState {
    Running(Box<StatisticsRun>),
    Done(Vec<FieldStatistics>),
    Closed,
}

#[pymethods]
impl RawStatistics {
    /// Begins to compute what `spec` says of the samples of `reader`, or of a `subset` of them, by `options`; with
    /// `saves`, what was computed before is taken as it is, and what is computed is kept.
    #[new]
    #[pyo3(signature = (reader, spec, options, saves, subset=None))]
    fn new(
        py: Python<'_>,
        reader: &SampleReader,
        spec: Plain<StatisticsSpec>,
        options: Plain<Options>,
        saves: bool,
        subset: Option<&RawSubset>,
    ) -> PyResult<Self> {
        let Plain(spec) = spec;
        let options = sampled(options.0, subset, None);
        let (set, _, _) = reader.loader_parts()?;
        let saved = saves.then(|| saved_statistics(&set, &spec, &options)).flatten();
        let state = match saved {
            Some(found) => StatisticsState::Done(found),
            None => {
                let run = py.detach(|| StatisticsRun::start(set, &spec, &options, saves)).map_err(raised)?;
                StatisticsState::Running(Box::new(run))
            }
        };
        Ok(Self { state: Mutex::new(state) })
    }

    /// The same of the samples of `store`, of which nothing is saved.
    #[staticmethod]
    #[pyo3(signature = (store, spec, options, subset=None))]
    fn of_store(
        store: &RawStore,
        spec: Plain<StatisticsSpec>,
        options: Plain<Options>,
        subset: Option<&RawSubset>,
    ) -> PyResult<Self> {
        Self::of_maker(spec.0, options.0, subset, |names| store.measured(names))
    }

    /// The same of the samples of several stores.
    #[staticmethod]
    #[pyo3(signature = (stores, spec, options, subset=None))]
    fn of_stores(
        stores: &RawStoreConcat,
        spec: Plain<StatisticsSpec>,
        options: Plain<Options>,
        subset: Option<&RawSubset>,
    ) -> PyResult<Self> {
        Self::of_maker(spec.0, options.0, subset, |names| stores.measured(names))
    }

    /// Goes on for a moment: samples done, and of how many; `None` when all is done.
    fn advance(&self, py: Python<'_>) -> PyResult<Option<(u64, u64)>> {
        let advanced: Result<Option<(u64, u64)>, Error> = py.detach(|| {
            let mut state = self.lock();
            let StatisticsState::Running(run) = &mut *state else { return Ok(None) };
            if !run.advance(SIGNAL_INTERVAL)? {
                return Ok(Some(run.progress()));
            }
            if let StatisticsState::Running(run) = std::mem::replace(&mut *state, StatisticsState::Closed) {
                *state = StatisticsState::Done(run.finish());
            }
            Ok(None)
        });
        py.check_signals()?;
        advanced.map_err(raised)
    }

    /// What came out.
    fn result(&self) -> Vec<StatisticsRow> {
        let state = self.lock();
        let found: &[FieldStatistics] = match &*state {
            StatisticsState::Done(found) => found,
            StatisticsState::Running(_) | StatisticsState::Closed => &[],
        };
        let channel = |one: &ChannelStatistics| {
            let values = [one.mean, one.std, one.min, one.max];
            (one.count, one.missing, [&values[..], &one.quantiles].concat())
        };
        let row = |field: &FieldStatistics| {
            (field.name.clone(), field.axis, field.channels.iter().map(channel).collect())
        };
        found.iter().map(row).collect()
    }

    /// Ends the threads. May be called more than once.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let mut state = self.lock();
            if matches!(*state, StatisticsState::Running(_)) {
                drop(std::mem::replace(&mut *state, StatisticsState::Closed));
            }
        });
    }
}

impl RawStatistics {
    /// Begins to compute what `spec` says of what `maker` gives for the fields it names.
    fn of_maker(
        spec: StatisticsSpec,
        options: Options,
        subset: Option<&RawSubset>,
        maker: impl FnOnce(&[String]) -> PyResult<MeasuredMaker>,
    ) -> PyResult<Self> {
        let options = sampled(options, subset, None);
        let names: Vec<String> = spec.fields.iter().map(|(name, _)| name.clone()).collect();
        let (maker, forms, sample_len) = maker(&names)?;
        let run = StatisticsRun::of_maker(maker, &forms, sample_len, &spec, &options).map_err(raised)?;
        Ok(Self { state: Mutex::new(StatisticsState::Running(Box::new(run))) })
    }

    fn lock(&self) -> MutexGuard<'_, StatisticsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RawStatistics {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let StatisticsState::Running(run) = std::mem::replace(state, StatisticsState::Closed) {
            end(run);
        }
    }
}
