//! The thread that notes on the board what was drained: other ranks wait for that and must not need this one's help.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use forebay_process::{Error, Result};
use forebay_stage::RedoFile;

use super::{byte_spans::ByteSpans, rank_board::RankBoard};

/// How often the log is asked how far it is while something waits in it.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Ranks of other hosts may wait without being seen: for them a log is drained when it has waited this long.
const UNSEEN_AFTER: Duration = Duration::from_millis(500);

/// A log whose drains are noted.
#[derive(Debug)]
pub(crate) struct DrainWatch {
    watched: Arc<WatchedLog>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct WatchedLog {
    redo: RedoFile,
    board: Arc<RankBoard>,
    state: Mutex<WatchState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WatchState {
    accepted: u64,
    is_ended: bool,
}

impl DrainWatch {
    /// Watches `redo` for `board`; its thread begins with the first write.
    pub(crate) fn new(redo: RedoFile, board: Arc<RankBoard>) -> Self {
        let watched = WatchedLog { redo, board, state: Mutex::default(), changed: Condvar::new() };
        Self { watched: Arc::new(watched), thread: Mutex::default() }
    }

    /// The log.
    pub(crate) fn redo(&self) -> &RedoFile {
        &self.watched.redo
    }

    /// Tells the others of a write of `spans` before the log gets it.
    pub(crate) fn announce(&self, spans: &ByteSpans) {
        self.watched.board.own().announce(spans);
    }

    /// Notes that the log has accepted a write.
    pub(crate) fn accepted(&self) -> Result<()> {
        let accepted = self.watched.board.own().accept();
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

    /// Returns when all that was accepted is in the file.
    pub(crate) fn drain(&self) -> Result<()> {
        let accepted = self.watched.lock().accepted;
        let now = self.watched.board.own().now();
        if now.drained < accepted { self.watched.drain_to(accepted) } else { Ok(()) }
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
            Ok(()) => self.board.own().drained(accepted),
            Err(_) => self.board.own().failed(),
        }
        drained
    }

    /// Waits for writes, and notes when they are in the file.
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
            drop(state);
            let Some(seen) = self.follow() else { return };
            tried = seen;
        }
    }

    /// Follows the log until it is empty or has failed; gives how much it had accepted, or nothing once the file is closed.
    fn follow(&self) -> Option<u64> {
        let has_other_hosts = self.board.has_other_hosts();
        let began = Instant::now();
        loop {
            let state = self.lock();
            let (accepted, is_ended) = (state.accepted, state.is_ended);
            drop(state);
            if is_ended {
                return None;
            }
            if self.redo.is_drained() {
                self.board.own().drained(accepted);
                return Some(accepted);
            }
            // A log that is paused, or waits for more to write at once, is drained when somebody waits for it.
            if self.board.is_awaited() || has_other_hosts && began.elapsed() >= UNSEEN_AFTER {
                // The error comes again when the program flushes or closes the file.
                let _ = self.drain_to(accepted);
                return Some(accepted);
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}
