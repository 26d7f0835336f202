//! Consecutive epochs: a run, and the run of the next epoch, begun while the last batches of this one are taken.

use std::time::Duration;

use forebay_process::Result;

use crate::{
    epoch::run::{Next, Run},
    loader::Loader,
};

/// A run, and the run of the next epoch, made ahead.
#[derive(Debug)]
pub struct FollowedRun {
    run: Run,
    follower: Option<Run>,
    is_followed: bool,
    /// True once there was no further batch of `run`.
    is_over: bool,
}

impl FollowedRun {
    /// Wraps `run`, which was just begun; if it `is_followed`, the next epoch is begun ahead.
    pub fn new(run: Run, is_followed: bool) -> Self {
        Self { run, follower: None, is_followed, is_over: false }
    }

    /// Returns the next batch, not committed, as [`Loader::next_uncommitted`] does, and begins the next epoch when its time has come.
    pub fn next(&mut self, loader: &Loader, patience: Duration) -> Result<Next> {
        let next = loader.next_uncommitted(&mut self.run, patience)?;
        self.is_over = matches!(next, Next::End);
        if self.is_followed && self.follower.is_none() && matches!(next, Next::Batch(_)) {
            match loader.start_after(&self.run) {
                Ok(follower) => self.follower = follower,
                // Begun when its time has come, it says why it cannot be.
                Err(_) => self.is_followed = false,
            }
        }
        Ok(next)
    }

    /// Returns the next batch of the next epoch, not committed, if it is there and this epoch is over.
    pub fn next_of_follower(&mut self, loader: &Loader) -> Result<Next> {
        match &mut self.follower {
            Some(follower) if self.is_over => loader.next_uncommitted(follower, Duration::ZERO),
            _ => Ok(Next::Waiting),
        }
    }

    /// Goes on with the run that was begun ahead; `None` if there is none, or another epoch was set since.
    pub fn follow(&mut self, loader: &Loader, is_followed: bool) -> Option<Self> {
        let run = self.follower.take().filter(|run| loader.follow(run))?;
        Some(Self::new(run, is_followed))
    }

    /// Goes on with the next epoch, whether it was begun ahead or not.
    pub fn go_on(&mut self, loader: &Loader, is_followed: bool) -> Result<()> {
        *self = match self.follow(loader, is_followed) {
            Some(following) => following,
            None => Self::new(loader.start_next(&self.run)?, is_followed),
        };
        Ok(())
    }

    /// Gives up the next epoch, and returns the run of it if there is one.
    pub fn take_follower(&mut self) -> Option<Run> {
        self.is_followed = false;
        self.follower.take()
    }

    /// True when all batches of this epoch were delivered.
    pub fn is_finished(&self) -> bool {
        self.run.is_finished()
    }
}
