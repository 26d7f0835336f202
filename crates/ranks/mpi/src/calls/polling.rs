//! How long one rests between two looks at something that MPI does.

use std::{
    hint, thread,
    time::{Duration, Instant},
};

/// A poll that begins without rest and rests longer the longer it lasts: MPI goes on only while it is called.
#[derive(Debug)]
pub(crate) struct Polling {
    began: Instant,
    /// Time for which it keeps its processor: whoever is let on it keeps it for milliseconds.
    alone: Duration,
    /// Time after which it begins to sleep.
    awake: Duration,
    /// The longest sleep.
    rest: Duration,
    checked: Instant,
}

/// Within this time a look at other ranks is due.
const CHECK: Duration = Duration::from_millis(5);
impl Polling {
    /// For what takes as long as other ranks take to come.
    pub(crate) fn for_ranks() -> Self {
        Self::new(Duration::from_micros(20), Duration::from_millis(1), Duration::from_micros(250))
    }

    /// The same, while others may read from this rank: without passive progress they get a few packets for each poll.
    pub(crate) fn for_ranks_that_read() -> Self {
        Self::new(Duration::from_micros(20), Duration::from_millis(1), Duration::from_micros(50))
    }

    /// For bytes on their way.
    pub(crate) fn for_bytes() -> Self {
        Self::new(Duration::from_micros(300), Duration::from_millis(1), Duration::from_micros(50))
    }

    /// Sleeps are short rather than none: on a busy machine who wakes up is let on a processor before those that never rest.
    fn new(alone: Duration, awake: Duration, rest: Duration) -> Self {
        let now = Instant::now();
        Self { began: now, alone, awake, rest, checked: now }
    }

    /// Rests as little as at the beginning: what is waited for has moved.
    pub(crate) fn begin_anew(&mut self) {
        self.began = Instant::now();
    }

    /// Rests, and says whether it is time to see if ranks are gone and the wait is over.
    pub(crate) fn rest(&mut self) -> bool {
        let elapsed = self.began.elapsed();
        if elapsed < self.alone {
            hint::spin_loop();
            return false;
        }
        if elapsed < self.awake {
            // With more ranks than processors, the one that is waited for may need this one.
            thread::yield_now();
        } else {
            thread::sleep((elapsed / 16).min(self.rest));
        }
        let is_due = self.checked.elapsed() >= CHECK;
        if is_due {
            self.checked = Instant::now();
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_comes_to_its_checks() {
        let mut polling = Polling::for_ranks();
        let began = Instant::now();
        while !polling.rest() {
            assert!(began.elapsed() < Duration::from_secs(60), "it never checks");
        }
        assert!(began.elapsed() >= CHECK);
    }
}
