//! What Python may close while other threads use it.

use std::sync::{Arc, PoisonError, RwLock};

use forebay::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::error::raised;

/// Something that is there until it is closed.
///
/// It ends without the interpreter's lock: threads that end with it may be waiting for that, to ask a policy.
pub(crate) struct Closable<T: Send + Sync> {
    what: &'static str,
    held: RwLock<Option<Arc<T>>>,
}

impl<T: Send + Sync> Closable<T> {
    /// `held`, which people call `what`.
    pub(crate) fn new(what: &'static str, held: T) -> Self {
        Self { what, held: RwLock::new(Some(Arc::new(held))) }
    }

    /// What is held; an error once it was closed.
    pub(crate) fn get(&self) -> PyResult<Arc<T>> {
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner).clone();
        held.ok_or_else(|| raised(Error::new(ErrorKind::Invalid, format!("this {} was closed", self.what))))
    }

    /// Drops it, once no other thread uses it. May be called more than once.
    pub(crate) fn close(&self) {
        let held = self.held.write().unwrap_or_else(PoisonError::into_inner).take();
        end(held);
    }
}

impl<T: Send + Sync> Drop for Closable<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Drops `value` without the interpreter's lock.
pub(crate) fn end<T: Send>(value: T) {
    // Where the interpreter is gone, the closure is dropped with what it holds.
    let _ = Python::try_attach(move |py| py.detach(move || drop(value)));
}
