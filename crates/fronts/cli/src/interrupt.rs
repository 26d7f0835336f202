//! Ctrl-C: ends what goes on within a second, with what was done so far.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use crate::exit;

/// Whether the user wants an end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    stage: Arc<AtomicU8>,
}

/// Nothing was done that is worth telling: an interrupt ends the process at once.
const IDLE: u8 = 0;
/// Code that runs asks whether an interrupt came.
const WATCHED: u8 = 1;
const WANTED: u8 = 2;

/// How long a wait goes on before it looks again.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

impl Interrupt {
    /// Catches interrupts from now on; a second one ends the process at once.
    pub(crate) fn catch() -> Self {
        let stage = Arc::new(AtomicU8::new(IDLE));
        let seen = Arc::clone(&stage);
        // Without the handler an interrupt ends the process, as it does anywhere.
        let _ = ctrlc::set_handler(move || {
            if seen.compare_exchange(WATCHED, WANTED, SeqCst, SeqCst).is_err() {
                std::process::exit(exit::INTERRUPTED.into());
            }
        });
        Self { stage }
    }

    /// One that nobody asks for, where an interrupt is dealt with elsewhere.
    pub(crate) fn unwatched() -> Self {
        Self { stage: Arc::new(AtomicU8::new(IDLE)) }
    }

    /// Says that this command asks for interrupts from now on.
    pub(crate) fn watch(&self) {
        self.stage.store(WATCHED, SeqCst);
    }

    /// True when the user wants an end.
    pub(crate) fn is_wanted(&self) -> bool {
        self.stage.load(SeqCst) == WANTED
    }

    /// Sleeps, unless the user wants an end.
    pub(crate) fn sleep(&self, time: Duration) {
        let until = Instant::now() + time;
        while !self.is_wanted() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(GLANCE));
        }
    }
}
