//! Memory that is set aside before it is taken, so that batches made ahead stay within the limit whatever their lengths are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};

use crate::{
    arena::Arena,
    turn::{BatchTurn, MemoryTurn},
};

/// How long a batch that waits for memory may miss that its turn has come: memory that comes back wakes it at once.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Memory that was set aside, until this is dropped.
#[derive(Debug)]
pub struct ReservedMemory {
    arena: Arc<Arena>,
    len: u64,
}

impl Arena {
    /// Sets `len` bytes aside: at once where they, and as many again for a batch that comes before, fit the limit together with what
    /// is lent and set aside, else when enough came back, or once `turn` says that nothing comes before this batch.
    ///
    /// # Errors
    ///
    /// `Invalid` once nobody wants the batch any more.
    pub fn reserve(self: &Arc<Self>, len: u64, turn: &dyn BatchTurn) -> Result<ReservedMemory> {
        let mut is_due = false;
        loop {
            let Err(taken) = self.set_aside(len, is_due) else {
                return Ok(ReservedMemory { arena: Arc::clone(self), len });
            };
            // Without a lock: who answers may be giving memory back.
            match turn.turn() {
                MemoryTurn::Now => is_due = true,
                MemoryTurn::Never => {
                    return Err(Error::new(ErrorKind::Invalid, "the batch is wanted no more"));
                }
                MemoryTurn::Later => {
                    let began = Instant::now();
                    self.wait_for_return(taken, LOOK_AGAIN);
                    turn.note_wait(began.elapsed());
                }
            }
        }
    }
}

impl ReservedMemory {
    /// Gives up what is beyond `len` bytes.
    pub fn shrink_to(&mut self, len: u64) {
        let more = self.len.saturating_sub(len);
        self.len -= more;
        self.arena.give_up(more);
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.arena.give_up(self.len);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
        thread,
    };

    use super::*;
    use crate::{stats::nanos, turn::AtOnce};

    /// 0: later, 1: now, 2: never.
    #[derive(Debug, Default)]
    struct FixedTurn(AtomicU8, AtomicU64);

    impl BatchTurn for FixedTurn {
        fn turn(&self) -> MemoryTurn {
            match self.0.load(Relaxed) {
                0 => MemoryTurn::Later,
                1 => MemoryTurn::Now,
                _ => MemoryTurn::Never,
            }
        }

        fn note_wait(&self, time: Duration) {
            self.1.fetch_add(nanos(time), Relaxed);
        }
    }

    #[test]
    fn what_fits_is_set_aside_at_once_and_what_does_not_waits_for_memory_to_come_back() {
        let arena = Arena::new(16 << 20);
        let lent = arena.take(10 << 20).unwrap();
        let reserved = arena.reserve(2 << 20, &FixedTurn::default()).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| arena.reserve(6 << 20, &FixedTurn::default()).map(drop));
            drop(reserved);
            assert!(!waiting.is_finished(), "a thread that waits has what nobody gave back");
            drop(lent);
            waiting.join().unwrap().unwrap();
        });
        assert!(arena.reserve(8 << 20, &FixedTurn::default()).is_ok(), "all came back");
    }

    #[test]
    fn what_turns_out_to_be_too_much_is_given_up_and_no_more_than_once() {
        let arena = Arena::new(1000);
        let mut reserved = arena.reserve(500, &AtOnce).unwrap();
        assert_eq!(arena.set_aside(300, false), Err(500));
        reserved.shrink_to(100);
        reserved.shrink_to(400);
        assert_eq!(arena.set_aside(300, false), Ok(()));
        drop(reserved);
        assert_eq!(arena.set_aside(350, false), Ok(()), "300 are left of what was set aside");
    }

    #[test]
    fn a_batch_whose_turn_it_is_has_what_it_needs_and_one_that_nobody_wants_ends() {
        let arena = Arena::new(1000);
        drop(arena.reserve(1 << 30, &AtOnce).unwrap());
        let turn = FixedTurn::default();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| arena.reserve(5000, &turn).map(drop));
            while turn.1.load(Relaxed) == 0 {
                assert!(!waiting.is_finished(), "what does not fit waits, and its wait is noted");
                thread::yield_now();
            }
            turn.0.store(1, Relaxed);
            waiting.join().unwrap().unwrap();
        });
        let error = arena.reserve(5000, &FixedTurn(AtomicU8::new(2), AtomicU64::new(0))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
