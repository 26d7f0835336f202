//! Writes of other threads and the move of a file to its destination exclude each other: what is written to an image while it is copied would be lost.
//!
//! A count of writers, and the process that moves a file. Both name a process: what a thread that is not in a forked child was doing says nothing there.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use crate::inside;

/// The process, and how many of its threads write to staged files.
static WRITERS: AtomicU64 = AtomicU64::new(0);
/// The process of which a thread moves a file; 0 for none.
static MOVER: AtomicU32 = AtomicU32::new(0);

const PAUSE: Duration = Duration::from_micros(200);
/// A write to a file of a local disk takes no longer, nor does the move of one that others wait for.
const MOST_WAIT: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(120));

fn writers_of(process: u32, state: u64) -> u64 {
    if state >> 32 == u64::from(process) { state & u64::from(u32::MAX) } else { 0 }
}

fn change(process: u32, change: impl Fn(u64) -> u64) {
    let changed = |state| Some(u64::from(process) << 32 | change(writers_of(process, state)));
    let _always = WRITERS.fetch_update(SeqCst, SeqCst, changed);
}

/// A thread that writes to a staged file, until this is dropped.
#[derive(Debug)]
pub(super) struct WriterGuard {
    process: u32,
}

impl WriterGuard {
    /// Begins once no file is moved.
    pub(super) fn begin() -> Self {
        let process = inside::process();
        loop {
            change(process, |writers| writers + 1);
            let writing = Self { process };
            if MOVER.load(SeqCst) != process {
                return writing;
            }
            drop(writing);
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        change(self.process, |writers| writers.saturating_sub(1));
    }
}

/// A thread that moves a file, until this is dropped.
#[derive(Debug)]
pub(super) struct MoverGuard(());

impl MoverGuard {
    /// Begins once nobody writes; nothing where somebody does for too long.
    pub(super) fn begin() -> Option<Self> {
        let (process, began) = (inside::process(), Instant::now());
        let take = |mover| (mover != process).then_some(process);
        while MOVER.fetch_update(SeqCst, SeqCst, take).is_err() {
            if began.elapsed() > MOST_WAIT.1 {
                return None;
            }
            thread::sleep(PAUSE);
        }
        let (moving, began) = (Self(()), Instant::now());
        while writers_of(process, WRITERS.load(SeqCst)) > 0 {
            if began.elapsed() > MOST_WAIT.0 {
                return None;
            }
            thread::sleep(PAUSE);
        }
        Some(moving)
    }
}

impl Drop for MoverGuard {
    fn drop(&mut self) {
        MOVER.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_file_is_moved_while_nobody_writes_and_written_while_nobody_moves_one() {
        inside::begin_process();
        let is_moving = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _writing = WriterGuard::begin();
                        assert!(!is_moving.load(SeqCst));
                        thread::yield_now();
                    }
                });
            }
            for _ in 0..20 {
                let moving = MoverGuard::begin().unwrap();
                is_moving.store(true, SeqCst);
                thread::sleep(PAUSE);
                is_moving.store(false, SeqCst);
                drop(moving);
            }
        });
        assert_eq!(writers_of(7, 3 << 32 | 5), 0, "those of another process");
    }
}
