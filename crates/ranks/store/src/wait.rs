//! How long a call may wait for other ranks, and what interrupts it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};

/// The bound on a wait for other ranks: a deadline, and a check that may end it before, such as one for Ctrl-C.
///
/// Whoever waits calls [`go_on`](Self::go_on) at least every [`STEP`](Self::STEP).
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    deadline: Option<Instant>,
    /// How long the deadline was away when the wait began.
    patience: Option<Duration>,
    check: Option<&'a dyn Fn() -> Result<()>>,
}

impl Wait<'static> {
    /// At most this long.
    pub fn at_most(patience: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(patience), patience: Some(patience), check: None }
    }

    /// As long as the other ranks live: for what takes as long as their data is long.
    pub fn while_ranks_live() -> Self {
        Self { deadline: None, patience: None, check: None }
    }
}

impl<'a> Wait<'a> {
    /// The longest time between two checks.
    pub const STEP: Duration = Duration::from_millis(50);

    /// The same, ended by an error of `check` as well.
    pub fn interrupted_by<'b>(self, check: &'b dyn Fn() -> Result<()>) -> Wait<'b>
    where
        'a: 'b,
    {
        Wait { check: Some(check), ..self }
    }

    /// The same, and at most this long.
    pub fn shortened(self, patience: Duration) -> Self {
        let until = Instant::now().checked_add(patience);
        let deadline = match (self.deadline, until) {
            (Some(deadline), Some(until)) => Some(deadline.min(until)),
            (deadline, until) => deadline.or(until),
        };
        let patience = self.patience.map_or(patience, |own| own.min(patience));
        Self { deadline, patience: Some(patience), check: self.check }
    }

    /// The same without a deadline: as long as the other ranks live, or until the check ends it.
    pub fn without_deadline(self) -> Self {
        Self { deadline: None, patience: None, ..self }
    }

    /// The same from now on: for a further call after one that took as long as its work, and for a transfer that goes on.
    pub fn renewed(self) -> Self {
        let deadline = self.patience.and_then(|patience| Instant::now().checked_add(patience));
        Self { deadline, ..self }
    }

    /// An error when the wait is over: the deadline has passed while `what` did not happen, or the check ended it.
    pub fn go_on(&self, what: impl FnOnce() -> String) -> Result<()> {
        if let Some(check) = self.check {
            check()?;
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => {
                Err(Error::new(ErrorKind::Unavailable, what()).hint("see whether that rank still runs"))
            }
            _ => Ok(()),
        }
    }

    /// How long one may sleep before the next [`go_on`](Self::go_on).
    pub fn step(&self) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(Self::STEP, |left| left.min(Self::STEP))
    }
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_deadline_or_by_its_check() {
        let text = || "rank 3 does not answer".to_owned();
        let over = Wait::at_most(Duration::ZERO);
        assert_eq!(over.go_on(text).expect_err("it is over").kind(), ErrorKind::Unavailable);
        assert_eq!(over.step(), Duration::ZERO);
        let long = Wait::while_ranks_live();
        assert!(long.go_on(text).is_ok());
        assert!(long.shortened(Duration::ZERO).go_on(text).is_err());
        assert!(over.shortened(Duration::from_secs(60)).go_on(text).is_err());
        let begun = Wait::at_most(Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(30));
        assert!(begun.go_on(text).is_err() && begun.renewed().go_on(text).is_ok());
        let interrupt = || Err(Error::new(ErrorKind::Unavailable, "interrupted"));
        let error = long.interrupted_by(&interrupt).go_on(text).expect_err("the check ends it");
        assert!(error.to_string().contains("interrupted"));
    }
}
