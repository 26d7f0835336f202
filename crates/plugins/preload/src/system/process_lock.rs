//! A reader-writer lock in one word: it allocates nothing, so that it may be taken within the program's allocator, and a forked child finds it free,
//! whichever thread of the parent had it.
//!
//! It is held by work of ours alone, while signals wait and the thread cannot be cancelled. Who waits polls: the lock is held for a few system calls.
//!
//! A writer that waits holds new readers off for a moment at a time only. A reader may have come with a lock of the program's own, such as that of its
//! allocator, which an older reader waits for.

use std::{
    hint,
    sync::atomic::{
        AtomicU64,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
    thread,
    time::Duration,
};

/// The lower half: a writer has it; a writer holds new readers off; and how many readers there are. The upper half is the process.
const WRITTEN: u64 = 1 << 31;
const AWAITED: u64 = 1 << 30;
const READERS: u64 = AWAITED - 1;

/// Looks without a pause, and then with one after each, of a length that no reader of a file notices.
const QUICK_LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(50);
/// A writer that waits holds readers off for so many looks, and then lets them pass for as many.
const LOOKS_PER_TURN: u32 = 40;

/// A lock of this process.
#[derive(Debug)]
pub(crate) struct ProcessLock(AtomicU64);

/// Holds a [`ProcessLock`] together with other readers, as this process.
#[derive(Debug)]
pub(crate) struct ReadHeld<'a>(&'a ProcessLock, u32);

/// Holds a [`ProcessLock`] alone, as this process.
#[derive(Debug)]
pub(crate) struct WriteHeld<'a>(&'a ProcessLock, u32);

impl ProcessLock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Waits until no writer has it. `process` tells this process from the one that forked it.
    pub(crate) fn read(&self, process: u32) -> ReadHeld<'_> {
        let enter = |state| (state & (WRITTEN | AWAITED) == 0).then_some(state + 1);
        self.wait(|_| self.change(process, enter));
        ReadHeld(self, process)
    }

    /// Waits until nobody else has it.
    pub(crate) fn write(&self, process: u32) -> WriteHeld<'_> {
        self.wait(|look| {
            // Of several writers one has the bit, and all take it down in their turn.
            let is_held_off = look > QUICK_LOOKS && (look / LOOKS_PER_TURN).is_multiple_of(2);
            let mark = if is_held_off { AWAITED } else { 0 };
            let enter = |state: u64| (state & (WRITTEN | READERS) == 0).then_some(WRITTEN);
            let is_entered = self.change(process, enter);
            if !is_entered {
                self.change(process, |state| Some(state & !AWAITED | mark));
            }
            is_entered
        });
        WriteHeld(self, process)
    }

    /// Changes the state of this process by `change`; one of another process is that of its parent, and is not held here.
    fn change(&self, process: u32, change: impl Fn(u64) -> Option<u64>) -> bool {
        let own = u64::from(process) << 32;
        let changed = self.0.fetch_update(AcqRel, Acquire, |word| {
            let state = if word & !u64::from(u32::MAX) == own { word & u64::from(u32::MAX) } else { 0 };
            change(state).map(|state| own | state)
        });
        changed.is_ok()
    }

    /// Gives back what `process` has of it; nothing where another process has entered since, which did not find it held.
    fn leave(&self, process: u32, left: impl Fn(u64) -> u64) {
        let is_own = |word: &u64| word >> 32 == u64::from(process);
        let _is_left = self.0.fetch_update(Release, Relaxed, |word| Some(word).filter(is_own).map(&left));
    }

    fn wait(&self, is_entered: impl Fn(u32) -> bool) {
        let mut look = 0;
        while !is_entered(look) {
            look = look.wrapping_add(1);
            if look <= QUICK_LOOKS {
                hint::spin_loop();
            } else {
                thread::sleep(PAUSE);
            }
        }
    }
}

impl Drop for ReadHeld<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1, |word| if word & READERS == 0 { word } else { word - 1 });
    }
}

impl Drop for WriteHeld<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1, |word| word & !WRITTEN);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32};

    use super::*;

    #[test]
    fn a_writer_is_alone_and_readers_are_not() {
        let (lock, inside, most) = (ProcessLock::new(), AtomicU32::new(0), AtomicU32::new(0));
        let first = lock.read(7);
        drop(lock.read(7));
        drop(first);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        drop(lock.read(7));
                        let held = lock.write(7);
                        most.fetch_max(inside.fetch_add(1, Relaxed) + 1, Relaxed);
                        inside.fetch_sub(1, Relaxed);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(most.load(Relaxed), 1);
        assert_eq!(lock.0.load(Relaxed) & u64::from(u32::MAX) & !AWAITED, 0);
    }

    #[test]
    fn a_writer_gets_in_between_readers_that_follow_each_other_without_a_gap() {
        let (lock, is_done) = (ProcessLock::new(), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_done.load(Relaxed) {
                        let held = lock.read(7);
                        thread::sleep(Duration::from_millis(1));
                        drop(held);
                    }
                });
            }
            thread::sleep(Duration::from_millis(5));
            drop(lock.write(7));
            is_done.store(true, Relaxed);
        });
    }

    #[test]
    fn a_reader_passes_a_writer_that_waits_for_an_older_one() {
        let lock = ProcessLock::new();
        let older = lock.read(7);
        thread::scope(|scope| {
            scope.spawn(|| drop(lock.write(7)));
            thread::sleep(Duration::from_millis(20));
            drop(lock.read(7));
            drop(older);
        });
    }

    #[test]
    fn a_forked_child_finds_it_free() {
        let lock = ProcessLock::new();
        std::mem::forget(lock.write(7));
        drop(lock.write(8));
        std::mem::forget(lock.read(8));
        drop(lock.write(9));
    }

    #[test]
    fn what_was_entered_as_another_process_changes_nothing_when_it_is_left() {
        let lock = ProcessLock::new();
        let (early, held) = (lock.read(0), lock.write(7));
        drop(early);
        drop(held);
        drop(lock.read(7));
        let (early, held) = (lock.write(0), lock.read(7));
        drop(early);
        drop(held);
        drop(lock.write(7));
    }
}
