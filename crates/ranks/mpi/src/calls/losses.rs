//! What is known for good of the ranks of one communicator: who is gone, who failed, and why they are out of step.

use std::{ops::Range, sync::OnceLock};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::{NodeLink, gone};

use crate::calls::{lifetime, stall::RankWatch};

/// Losses of a communicator, none of which is ever taken back.
pub(crate) struct RankLosses {
    /// The ranks of this host.
    link: OnceLock<NodeLink>,
    /// Why collective calls work no more.
    broken: OnceLock<String>,
    /// Why gets from a rank are refused by MPI, by rank: each try would cost the memory it was to fill.
    failed: Vec<OnceLock<String>>,
}

impl RankLosses {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            link: OnceLock::new(),
            broken: OnceLock::new(),
            failed: (0..size).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Knows from now on which ranks of this host live.
    pub(crate) fn watch(&self, link: NodeLink) {
        // It is set once, when the communicator is made.
        let _ = self.link.set(link);
    }

    /// The ranks of this host.
    pub(crate) fn link(&self) -> Option<&NodeLink> {
        self.link.get()
    }

    /// The first of `ranks` that is known to run no more.
    pub(crate) fn first_gone(&self, ranks: Range<usize>) -> Option<usize> {
        let rank = self.link.get()?.first_gone(ranks)?;
        // It is known beyond the life of this communicator, since MPI cannot be finalised any more.
        lifetime::lose_rank(gone(rank).to_string());
        Some(rank)
    }

    /// An error where `rank` can be read no more.
    pub(crate) fn check(&self, rank: usize) -> Result<()> {
        if let Some(rank) = self.first_gone(rank..rank + 1) {
            return Err(gone(rank));
        }
        self.failed.get(rank).and_then(OnceLock::get).map_or(Ok(()), |reason| Err(failed(rank, reason)))
    }

    /// Remembers that gets from `rank` fail, and gives the error for it.
    pub(crate) fn fail(&self, rank: usize, error: &Error) -> Error {
        let reason = self.failed.get(rank).map(|failed| failed.get_or_init(|| error.to_string()).clone());
        failed(rank, &reason.unwrap_or_default())
    }

    /// Remembers that collective calls work no more, and why.
    pub(crate) fn break_off(&self, error: &Error) {
        lifetime::lose_rank(error.to_string());
        // The first reason is the one that counts.
        let _ = self.broken.set(error.to_string());
    }

    /// An error where collective calls work no more.
    pub(crate) fn check_all(&self) -> Result<()> {
        if let Some(rank) = self.first_gone(0..self.failed.len()) {
            return Err(gone(rank));
        }
        self.broken.get().map_or(Ok(()), |reason| {
            let what = format!("ranks lost each other: {reason}");
            Err(Error::new(ErrorKind::Unavailable, what).hint("end the job and start it again"))
        })
    }
}

impl RankWatch for RankLosses {
    fn lost_rank(&self) -> Option<String> {
        let gone = self.first_gone(0..self.failed.len()).map(|rank| gone(rank).to_string());
        gone.or_else(|| self.broken.get().cloned())
    }
}

fn failed(rank: usize, reason: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("rank {rank} cannot be read: {reason}"))
        .hint("see whether that rank still runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_failed_once_is_refused_by_name_and_others_are_not() {
        let losses = RankLosses::new(3);
        assert!(losses.check(1).is_ok());
        let error = losses.fail(1, &Error::new(ErrorKind::Io, "MPI_Rget: no route"));
        for error in [error, losses.check(1).expect_err("it failed")] {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().contains("rank 1 cannot be read: MPI_Rget: no route"), "{error}");
        }
        assert!(losses.check(2).is_ok() && losses.check_all().is_ok());
        assert!(losses.lost_rank().is_none(), "it may live");
    }
}
