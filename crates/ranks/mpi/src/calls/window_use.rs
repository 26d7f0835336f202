//! Who reads through a window, so that it is not freed under them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use forebay_process::{Error, Result};
use forebay_store::Wait;

use crate::calls::polling::Polling;

/// Whether a window is open, and what is under way in it.
#[derive(Debug, Default)]
pub(crate) struct WindowUse {
    is_closed: AtomicBool,
    readers: AtomicUsize,
    /// Slabs whose gets had not ended when their reader gave them up.
    pub(crate) late: AtomicUsize,
}

/// A reader of a window that was open when it began.
#[derive(Debug)]
pub(crate) struct WindowReader<'a>(&'a WindowUse);

impl WindowUse {
    /// Begins to read, or is an error where the window is closed.
    pub(crate) fn enter(&self) -> Result<WindowReader<'_>> {
        // Counted before it looks: who closes the window sees either the count or no reader that goes on.
        self.readers.fetch_add(1, SeqCst);
        let reader = WindowReader(self);
        self.check_open().map(|()| reader)
    }

    /// An error where the window is closed. Readers ask while they wait.
    pub(crate) fn check_open(&self) -> Result<()> {
        match self.is_closed.load(SeqCst) {
            false => Ok(()),
            true => Err(Error::invalid("the window is closed")),
        }
    }

    /// Lets nobody read any more; true for the first that says so.
    pub(crate) fn close(&self) -> bool {
        !self.is_closed.swap(true, SeqCst)
    }

    /// Returns when nobody reads.
    pub(crate) fn await_readers(&self, wait: &Wait<'_>) -> Result<()> {
        let mut polling = Polling::for_ranks();
        while self.readers.load(SeqCst) > 0 {
            if polling.rest() {
                wait.go_on(|| "a read of another thread from the closed window does not end".to_owned())?;
            }
        }
        Ok(())
    }
}

impl Drop for WindowReader<'_> {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_closed_window_lets_nobody_in_and_waits_for_its_readers() {
        let usage = WindowUse::default();
        let reader = usage.enter().expect("it is open");
        assert!(usage.close() && !usage.close());
        assert!(usage.enter().is_err() && usage.check_open().is_err());
        assert!(usage.await_readers(&Wait::at_most(Duration::from_millis(20))).is_err());
        drop(reader);
        usage.await_readers(&Wait::at_most(Duration::from_secs(20))).expect("nobody reads");
    }
}
