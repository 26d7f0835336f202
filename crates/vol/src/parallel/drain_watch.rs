//! The thread that notes on the board what was drained: other ranks wait for that and must not need this one's help.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use forebay_source::{Error, Result};
use forebay_stage::RedoFile;

use super::rank_board::OwnWords;

/// A log whose drains are noted.
#[derive(Debug)]
pub(crate) struct DrainWatch {
    watched: Arc<WatchedLog>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct WatchedLog {
    redo: RedoFile,
    words: OwnWords,
    state: Mutex<WatchState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WatchState {
    accepted: u64,
    is_ended: bool,
}

impl DrainWatch {
    /// Watches `redo` for the board of `words`; its thread begins with the first write.
    pub(crate) fn new(redo: RedoFile, words: OwnWords) -> Self {
        let state = Mutex::default();
        let watched = WatchedLog { redo, words, state, changed: Condvar::new() };
        Self { watched: Arc::new(watched), thread: Mutex::default() }
    }

    /// The log.
    pub(crate) fn redo(&self) -> &RedoFile {
        &self.watched.redo
    }

    /// Notes that the log has accepted a write.
    pub(crate) fn accepted(&self) -> Result<()> {
        let accepted = self.watched.words.accept();
        self.watched.lock().accepted = accepted;
        self.watched.changed.notify_one();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let watched = Arc::clone(&self.watched);
            let named = thread::Builder::new().name("forebay-drained".into());
            *thread = Some(named.spawn(move || watched.run()).map_err(Error::from_io)?);
        }
        Ok(())
    }

    /// True while something was accepted that is not in the file.
    pub(crate) fn is_pending(&self) -> bool {
        let now = self.watched.words.now();
        now.drained < now.accepted
    }

    /// Returns when all that was accepted is in the file.
    pub(crate) fn drain(&self) -> Result<()> {
        let accepted = self.watched.lock().accepted;
        if self.is_pending() {
            self.watched.drain_to(accepted)?;
        }
        Ok(())
    }

    /// Ends the thread; gives the log back.
    pub(crate) fn end(self) -> Option<RedoFile> {
        self.watched.lock().is_ended = true;
        self.watched.changed.notify_one();
        if let Some(thread) = self.thread.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // A thread that panicked has nothing that is needed.
            let _ = thread.join();
        }
        Arc::into_inner(self.watched).map(|watched| watched.redo)
    }
}

impl WatchedLog {
    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain_to(&self, accepted: u64) -> Result<()> {
        let drained = self.redo.drain();
        match &drained {
            Ok(()) => self.words.drained(accepted),
            Err(_) => self.words.failed(),
        }
        drained
    }

    fn run(&self) {
        let mut tried = 0;
        loop {
            let mut state = self.lock();
            while state.accepted == tried && !state.is_ended {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_ended {
                return;
            }
            tried = state.accepted;
            drop(state);
            // The error comes again when the program flushes or closes the file.
            let _ = self.drain_to(tried);
        }
    }
}
