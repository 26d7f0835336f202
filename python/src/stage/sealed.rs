//! A file that is sealed, and how far it is on its way.

use std::time::{Duration, Instant};

use forebay::{
    Error,
    stage::{Completion, Sealed},
};
use pyo3::prelude::*;

use crate::{error::raised, interruptible::SIGNAL_INTERVAL};

/// A file that is sealed: two events tell how far it is.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct RawSealed {
    sealed: Sealed,
}

impl RawSealed {
    pub(crate) fn new(sealed: Sealed) -> Self {
        Self { sealed }
    }

    fn event(&self, name: &str) -> PyResult<&Completion> {
        match name {
            "staged" => Ok(self.sealed.staged()),
            "durable" => Ok(self.sealed.durable()),
            _ => Err(raised(Error::invalid(format!("'{name}' is neither staged nor durable")))),
        }
    }
}

#[pymethods]
impl RawSealed {
    /// Waits until the event has happened or failed, at most so many seconds; false when that was not enough.
    #[pyo3(signature = (event, timeout=None))]
    fn wait(&self, py: Python<'_>, event: &str, timeout: Option<f64>) -> PyResult<bool> {
        let event = self.event(event)?;
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = until.map_or(SIGNAL_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
            // The error is asked for by itself.
            if py.detach(|| event.wait(Some(left.min(SIGNAL_INTERVAL)))).unwrap_or(true) {
                return Ok(true);
            }
            py.check_signals()?;
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// True when the event has happened, or failed.
    fn is_set(&self, event: &str) -> PyResult<bool> {
        let event = self.event(event)?;
        Ok(event.is_set() || event.error().is_some())
    }

    /// The exception that the event failed with, if it did.
    fn error(&self, py: Python<'_>, event: &str) -> PyResult<Option<Py<PyAny>>> {
        let error = self.event(event)?.error();
        Ok(error.map(|error| raised(error).into_value(py).into_any()))
    }
}
