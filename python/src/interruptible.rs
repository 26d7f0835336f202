//! Work on a thread of its own, so that Ctrl-C interrupts the wait for it.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use forebay::{Error, ErrorKind, Result};
use pyo3::prelude::*;

use crate::error::raised;

/// How long a thread waits before it looks for signals, such as that of Ctrl-C.
pub(crate) const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// What `work` gives, done on another thread and without the interpreter's lock, so that a signal ends the wait.
///
/// After Ctrl-C the thread goes on until its work is done, and its result is dropped.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl Fn() -> Result<T> + Send + Sync + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    let work = Arc::new(work);
    let on_thread = Arc::clone(&work);
    let started = thread::Builder::new().name("forebay-read".into()).spawn(move || {
        let done = on_thread();
        // Before the caller goes on: it may rely on what the work held being dropped.
        drop(on_thread);
        // After Ctrl-C nothing receives it.
        drop(sender.send(done));
    });
    if started.is_err() {
        return py.detach(|| work()).map_err(raised);
    }
    drop(work);
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(SIGNAL_INTERVAL)) {
            Ok(done) => return done.map_err(raised),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raised(Error::new(ErrorKind::Bug, "a thread that reads panicked")));
            }
        }
    }
}
