//! Where the consumer is in its epochs: what it committed, not what it was handed.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use crate::epoch::batch::Receipt;
use forebay_plan::Plan;

/// Where the consumer is.
#[derive(Debug)]
pub(crate) struct EpochCursor {
    pub(crate) plan: Plan,
    pub(crate) epoch: u64,
    /// Positions of the epoch's order that are committed, over all ranks.
    pub(crate) position: u64,
    /// True when the next run begins here, not with the epoch after.
    pub(crate) is_set: bool,
    /// Run numbers that were given so far: each is given once.
    pub(crate) runs: u64,
    /// Runs of epochs that follow each other and are not committed as a whole: the oldest, which the cursor is in, first, and the
    /// one under way last.
    open: VecDeque<OpenRun>,
    /// The run that was begun ahead of its turn, after the last of them.
    ahead: Option<OpenRun>,
    /// The epoch that was set while a run was under way: it is begun after that run, whose batches still count.
    set_meanwhile: Option<u64>,
}

/// Token of a run that was begun; it is dropped when the run is closed, by which the cursor knows that.
#[derive(Clone, Debug)]
pub(crate) struct RunToken(#[expect(dead_code, reason = "it is there or not")] Arc<()>);

/// What was handed out of a run, and how much of it is committed.
#[derive(Debug)]
struct OpenRun {
    number: u64,
    epoch: u64,
    /// Batches that were handed out.
    handed_out: u64,
    /// Those that are committed.
    committed: u64,
    /// True when all were handed out.
    is_over: bool,
    /// Of the run's token.
    token: Weak<()>,
}

impl OpenRun {
    fn new(number: u64, epoch: u64) -> (Self, RunToken) {
        let token = Arc::new(());
        let run = Self {
            number,
            epoch,
            handed_out: 0,
            committed: 0,
            is_over: false,
            token: Arc::downgrade(&token),
        };
        (run, RunToken(token))
    }

    /// True until it is closed.
    fn is_under_way(&self) -> bool {
        self.token.strong_count() > 0
    }
}

impl EpochCursor {
    /// The cursor at `position` of `epoch`, where the next run begins.
    pub(crate) fn at(plan: Plan, epoch: u64, position: u64, runs: u64) -> Self {
        let (open, ahead, set_meanwhile) = (VecDeque::new(), None, None);
        Self { plan, epoch, position, is_set: true, runs, open, ahead, set_meanwhile }
    }

    /// The epoch that is begun next, and the position of its order where it begins.
    pub(crate) fn upcoming(&self) -> (u64, u64) {
        if let Some(epoch) = self.set_meanwhile {
            return (epoch, 0);
        }
        let last = self.open.back().filter(|_| self.open.len() > 1);
        match (self.is_set, last, self.position) {
            (true, _, position) => (self.epoch, position),
            // Epochs before it were taken, though they are not committed.
            (false, Some(last), _) => (last.epoch.wrapping_add(u64::from(last.committed > 0)), 0),
            (false, None, 0) => (self.epoch, 0),
            (false, None, _) => (self.epoch.wrapping_add(1), 0),
        }
    }

    /// The same where it follows `run`, all of which was handed out.
    pub(crate) fn upcoming_after(&self, run: u64) -> (u64, u64) {
        match self.open.back().filter(|last| last.number == run && last.is_over) {
            Some(last) if self.set_meanwhile.is_none() => (last.epoch.wrapping_add(1), 0),
            _ => self.upcoming(),
        }
    }

    /// Begins a run; those before it are left, and what was not committed of them never is.
    pub(crate) fn begin(&mut self) -> RunToken {
        (self.epoch, self.position) = self.upcoming();
        self.is_set = false;
        self.runs += 1;
        self.forget_runs();
        let (run, token) = OpenRun::new(self.runs, self.epoch);
        self.open.push_back(run);
        token
    }

    /// Gives the run that follows `run` a number, if that is the last and nothing else was set since; with it, the epoch.
    pub(crate) fn after(&mut self, run: u64) -> Option<(u64, u64, RunToken)> {
        let last = self.open.back().filter(|last| last.number == run && self.set_meanwhile.is_none())?;
        let epoch = last.epoch.wrapping_add(1);
        self.runs += 1;
        let (ahead, token) = OpenRun::new(self.runs, epoch);
        self.ahead = Some(ahead);
        Some((self.runs, epoch, token))
    }

    /// Goes on with the run that was started ahead as number `run`, once all of the one before was handed out; false where another
    /// is to come. What was handed out before it can still be committed.
    pub(crate) fn follow(&mut self, run: u64) -> bool {
        let is_after_whole = self.open.back().is_none_or(|last| last.is_over);
        let Some(ahead) = self.ahead.take_if(|ahead| is_after_whole && ahead.number == run) else {
            return false;
        };
        self.is_set = false;
        self.open.push_back(ahead);
        self.leave_committed();
        true
    }

    /// Makes `epoch` the next one that is begun, from its start; the epoch of a state that was loaded keeps its position. The batches of a
    /// run that is under way still count.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        if self.open.back().is_some_and(OpenRun::is_under_way) {
            (self.set_meanwhile, self.ahead) = (Some(epoch), None);
        } else if !self.is_set || self.epoch != epoch {
            (self.epoch, self.position, self.is_set) = (epoch, 0, true);
            self.forget_runs();
        }
    }

    /// Notes that the consumer was handed a batch.
    pub(crate) fn hand_out(&mut self, receipt: Receipt) {
        if let Some(run) = self.known(receipt.run) {
            run.handed_out = receipt.step + 1;
        }
    }

    /// Notes that the consumer used a batch, and those before it, also of the epochs before.
    pub(crate) fn commit(&mut self, receipt: Receipt) {
        let Receipt { run, step, consumed, is_last } = receipt;
        let Some(index) = self.open.iter().position(|open| open.number == run && step >= open.committed)
        else {
            return;
        };
        self.open.drain(..index);
        let Some(open) = self.open.front_mut() else { return };
        (open.committed, open.is_over) = (step + 1, open.is_over || is_last);
        (self.epoch, self.position) = (open.epoch, consumed);
        self.leave_committed();
    }

    /// Notes that all batches of `run` were handed out. Some may have been left out after the last.
    pub(crate) fn finish(&mut self, run: u64) {
        if let Some(run) = self.known(run) {
            run.is_over = true;
        }
        self.leave_committed();
    }

    /// Goes to the start of the next epoch where nothing is left of this one.
    fn leave_committed(&mut self) {
        while self.open.front().is_some_and(|run| run.is_over && run.committed >= run.handed_out) {
            self.open.pop_front();
            (self.epoch, self.position, self.is_set) = (self.epoch.wrapping_add(1), 0, self.open.is_empty());
        }
        if self.open.is_empty()
            && let Some(epoch) = self.set_meanwhile.take()
        {
            (self.epoch, self.position, self.is_set) = (epoch, 0, true);
        }
    }

    fn known(&mut self, run: u64) -> Option<&mut OpenRun> {
        self.open.iter_mut().chain(&mut self.ahead).find(|open| open.number == run)
    }

    /// Runs that were left, for another or for a state, no longer say where the consumer is.
    fn forget_runs(&mut self) {
        self.open.clear();
        (self.ahead, self.set_meanwhile) = (None, None);
    }
}
