//! Work on a thread of its own, so that Ctrl-C need not wait for it.

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

/// How long a thread waits before it looks whether the user pressed Ctrl-C.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// What `work` gives, done without the interpreter's lock.
///
/// Who presses Ctrl-C leaves the thread behind; it ends when its work does.
pub(crate) fn patiently<T: Send + 'static>(
    py: Python<'_>,
    work: impl Fn() -> Result<T> + Send + Sync + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    let work = Arc::new(work);
    let on_thread = Arc::clone(&work);
    let started = thread::Builder::new().name("forebay-read".into()).spawn(move || {
        let done = on_thread();
        // Before the caller goes on, who may count on what the work holds being left then.
        drop(on_thread);
        // Nobody listens any more once the user has pressed Ctrl-C.
        drop(sender.send(done));
    });
    if started.is_err() {
        return py.detach(|| work()).map_err(raised);
    }
    drop(work);
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(PATIENCE)) {
            Ok(done) => return done.map_err(raised),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raised(Error::new(ErrorKind::Bug, "a thread that reads panicked")));
            }
        }
    }
}
