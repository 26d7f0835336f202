//! Files on their way to the tiers, in the background.

use std::{
    num::NonZeroUsize,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use forebay::{
    Error, ErrorKind, Locator,
    tier::{Tiered, Warmed, warm},
};
use pyo3::prelude::*;

use crate::{error::raised, interruptible::SIGNAL_INTERVAL, plain::plain};

/// Files on their way to the tiers.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct WarmingRun {
    progress: Arc<Progress>,
}

/// How far it is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    is_cancelled: AtomicBool,
    state: Mutex<WarmingState>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct WarmingState {
    warmed: Warmed,
    is_done: bool,
    /// What ended it.
    error: Option<Error>,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, WarmingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, warmed: Warmed) -> bool {
        self.lock().warmed = warmed;
        !self.is_cancelled.load(Relaxed)
    }

    fn finish(&self, result: Result<Warmed, Error>) {
        let mut state = self.lock();
        match result {
            Ok(warmed) => state.warmed = warmed,
            Err(error) => state.error = Some(error),
        }
        state.is_done = true;
        self.change.notify_all();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_done
    }

    /// Waits until it is over, at most `patience`; false when that was not enough.
    fn wait(&self, patience: Duration) -> bool {
        let state = self.lock();
        let waited = self.change.wait_timeout_while(state, patience, |state| !state.is_done);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_done
    }

    /// Ends it, and waits a little for that.
    pub(crate) fn cancel(&self, patience: Duration) {
        self.is_cancelled.store(true, Relaxed);
        self.wait(patience);
    }
}

impl WarmingRun {
    /// Begins to copy `sources` to the tiers of `tiered`.
    pub(crate) fn start(tiered: Arc<Tiered>, sources: Vec<Locator>, threads: NonZeroUsize) -> PyResult<Self> {
        let progress = Arc::new(Progress::default());
        let reported = Arc::clone(&progress);
        let work = move || {
            let copy = || warm(&tiered, &sources, threads, |warmed| reported.tell(warmed));
            let result = panic::catch_unwind(AssertUnwindSafe(copy)).unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Bug, "a thread that copies to the tiers panicked"))
            });
            // Before the result is reported: a thread that waits for it may remove the tiers next.
            drop(tiered);
            reported.finish(result);
        };
        let thread = thread::Builder::new().name("forebay-warm".into());
        thread.spawn(work).map_err(|error| raised(Error::from_io(error)))?;
        Ok(Self { progress })
    }

    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

#[pymethods]
impl WarmingRun {
    /// Waits until it is over, at most so many seconds; false when that was not enough.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let limit = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = until.map_or(SIGNAL_INTERVAL, |until| until.saturating_duration_since(Instant::now()));
            if py.detach(|| self.progress.wait(left.min(SIGNAL_INTERVAL))) {
                let error = self.progress.lock().error.clone();
                return error.map_or(Ok(true), |error| Err(raised(error)));
            }
            py.check_signals()?;
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// How far it is.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let warmed = self.progress.lock().warmed;
        plain(py, &warmed)
    }

    /// Ends it: what was placed stays.
    fn cancel(&self) {
        self.progress.is_cancelled.store(true, Relaxed);
    }

    /// True when it is over.
    #[getter]
    fn done(&self) -> bool {
        self.progress.is_done()
    }
}
