//! Epochs of batches.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use forebay::{
    Loader, Options,
    loader::{Check, Next, Run, State},
};
use pyo3::prelude::*;

use crate::{
    error::{misread, raised},
    raw_batch::RawBatch,
    samples::SampleReader,
};

/// How long a thread waits before it looks whether the user pressed Ctrl-C.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Gives the batches of a set of samples, epoch after epoch.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct BatchLoader {
    loader: Arc<Loader>,
}

#[pymethods]
impl BatchLoader {
    /// A loader of the samples of `reader`, which works as `options` (JSON) say.
    #[new]
    fn new(py: Python<'_>, reader: &SampleReader, options: &str) -> PyResult<Self> {
        let options: Options = serde_json::from_str(options).map_err(|error| misread(&error))?;
        let set = Arc::clone(reader.set());
        let loader = py.detach(|| Loader::new(set, options)).map_err(raised)?;
        Ok(Self { loader: Arc::new(loader) })
    }

    /// Begins an epoch.
    fn start(&self, py: Python<'_>) -> PyResult<EpochRun> {
        let run = py.detach(|| self.loader.start()).map_err(raised)?;
        Ok(EpochRun { loader: Arc::clone(&self.loader), run: Mutex::new(Some(run)) })
    }

    /// Batches of the epoch that is begun next.
    fn __len__(&self) -> PyResult<usize> {
        let count = self.loader.step_count().map_err(raised)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Where the consumer is, as JSON.
    fn state(&self) -> PyResult<String> {
        serde_json::to_string(&self.loader.state()).map_err(|error| misread(&error))
    }

    /// Goes on from `state` (JSON).
    fn load_state(&self, state: &str, strict: bool) -> PyResult<()> {
        let state: State = serde_json::from_str(state).map_err(|error| misread(&error))?;
        let check = if strict { Check::Strict } else { Check::CountOnly };
        self.loader.load_state(&state, check).map_err(raised)
    }

    /// Makes `epoch` the next one that is begun.
    fn set_epoch(&self, epoch: u64) {
        self.loader.set_epoch(epoch);
    }

    /// What it did so far, as JSON.
    fn stats(&self) -> PyResult<String> {
        let stats = self.loader.stats();
        let mut value = serde_json::to_value(stats).map_err(|error| misread(&error))?;
        value["verdict"] = serde_json::to_value(stats.verdict()).map_err(|error| misread(&error))?;
        Ok(value.to_string())
    }
}

/// One epoch on its way to the consumer.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct EpochRun {
    loader: Arc<Loader>,
    run: Mutex<Option<Run>>,
}

#[pymethods]
impl EpochRun {
    /// The next batch, or `None` when the epoch is over.
    fn next(&self, py: Python<'_>) -> PyResult<Option<RawBatch>> {
        loop {
            let next = py.detach(|| {
                let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
                match run.as_mut() {
                    Some(run) => self.loader.next(run, PATIENCE),
                    None => Ok(Next::End),
                }
            });
            match next.map_err(raised)? {
                Next::Batch(batch) => return RawBatch::new(py, *batch).map(Some),
                Next::End => return Ok(None),
                Next::Waiting => py.check_signals()?,
            }
        }
    }

    /// Ends the threads. May be called more than once.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let run = self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(run);
        });
    }

    /// Leaves the threads be: in a process that was forked there are none.
    fn forget(&self) {
        if let Ok(mut run) = self.run.try_lock() {
            std::mem::forget(run.take());
        }
    }
}
