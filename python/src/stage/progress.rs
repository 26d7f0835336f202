//! Waits that tell Python how far they are, and that an exception of Python ends.

use std::{
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
};

use forebay::{Result, stage::DrainProgress};
use pyo3::prelude::*;

/// The first exception that a callback raised: what it was called by can only be told to stop.
#[derive(Default)]
pub(crate) struct KeptError(Mutex<Option<PyErr>>);

impl KeptError {
    /// True for a result that is good; the exception of one that is not is kept.
    pub(crate) fn keep(&self, told: PyResult<()>) -> bool {
        let Err(error) = told else { return true };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        false
    }

    /// Raises what was kept.
    pub(crate) fn raise(self) -> PyResult<()> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// What `work` gives, done without the interpreter's lock; signals are looked for whenever it tells how far it is, and `report` is called
/// with items and bytes that are left, and bytes done.
///
/// An exception of Python is the outer error, one of the work the inner.
pub(crate) fn with_progress<T: Send>(
    py: Python<'_>,
    report: Option<Py<PyAny>>,
    work: impl FnOnce(&dyn Fn(DrainProgress) -> ControlFlow<()>) -> Result<T> + Send,
) -> PyResult<Result<T>> {
    let kept = KeptError::default();
    let tell = |left: DrainProgress| {
        let told = Python::attach(|py| {
            py.check_signals()?;
            match &report {
                Some(report) => {
                    report.call1(py, (left.items_left, left.bytes_left, left.bytes_done)).map(drop)
                }
                None => Ok(()),
            }
        });
        if kept.keep(told) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let done = py.detach(|| work(&tell));
    kept.raise()?;
    Ok(done)
}
