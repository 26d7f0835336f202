//! A milestone of a staged file that others wait for: staged, durable.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use forebay_process::{Error, Result};

/// A milestone that is reached once, or fails.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    inner: Arc<CompletionState>,
}

#[derive(Debug, Default)]
struct CompletionState {
    outcome: Mutex<Option<Result<()>>>,
    changed: Condvar,
}

impl Completion {
    /// One that is not reached yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits until it is reached: true, or false after `limit`; the error where it failed.
    pub fn wait(&self, limit: Option<Duration>) -> Result<bool> {
        // A limit beyond what clocks have is none.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut outcome = self.inner.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone().map(|()| true);
            }
            outcome = match until {
                None => self.inner.changed.wait(outcome).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(false);
                    }
                    let waited = self.inner.changed.wait_timeout(outcome, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// True once it is reached; false before, and where it failed.
    pub fn is_set(&self) -> bool {
        matches!(*self.inner.outcome.lock().unwrap_or_else(PoisonError::into_inner), Some(Ok(())))
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<Error> {
        let outcome = self.inner.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.as_ref().and_then(|outcome| outcome.as_ref().err().cloned())
    }

    /// Says how it went. A failure may be followed by success, when it is tried again; success is final.
    pub(crate) fn set(&self, reached: Result<()>) {
        let mut outcome = self.inner.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*outcome, Some(Ok(()))) {
            *outcome = Some(reached);
        }
        self.inner.changed.notify_all();
    }
}
