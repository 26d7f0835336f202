//! Where the consumer is in its epochs: what it committed, not what it was handed.

use std::collections::VecDeque;

use crate::batch::Receipt;
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
}

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
}

impl OpenRun {
    fn new(number: u64, epoch: u64) -> Self {
        Self { number, epoch, handed_out: 0, committed: 0, is_over: false }
    }
}

impl EpochCursor {
    /// The cursor at `position` of `epoch`, where the next run begins.
    pub(crate) fn at(plan: Plan, epoch: u64, position: u64, runs: u64) -> Self {
        Self { plan, epoch, position, is_set: true, runs, open: VecDeque::new(), ahead: None }
    }

    /// The epoch that is begun next, and the position of its order where it begins.
    pub(crate) fn upcoming(&self) -> (u64, u64) {
        match (self.is_set, self.position) {
            (true, position) => (self.epoch, position),
            (false, 0) => (self.epoch, 0),
            (false, _) => (self.epoch + 1, 0),
        }
    }

    /// The same where it follows `run`, all of which was handed out.
    pub(crate) fn upcoming_after(&self, run: u64) -> (u64, u64) {
        match self.open.back().filter(|last| last.number == run && last.is_over) {
            Some(last) => (last.epoch + 1, 0),
            None => self.upcoming(),
        }
    }

    /// Begins a run; those before it are left, and what was not committed of them never is.
    pub(crate) fn begin(&mut self) {
        (self.epoch, self.position) = self.upcoming();
        self.is_set = false;
        self.runs += 1;
        self.forget_runs();
        self.open.push_back(OpenRun::new(self.runs, self.epoch));
    }

    /// Gives the run that follows `run` a number, if that is the last and nothing else was set since; with it, the epoch.
    pub(crate) fn after(&mut self, run: u64) -> Option<(u64, u64)> {
        let epoch = self.open.back().filter(|last| last.number == run)?.epoch + 1;
        self.runs += 1;
        self.ahead = Some(OpenRun::new(self.runs, epoch));
        Some((self.runs, epoch))
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

    /// Makes `epoch` the next one that is begun, from its start; the epoch of a state that was loaded keeps its position.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        if !self.is_set || self.epoch != epoch {
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
            (self.epoch, self.position, self.is_set) = (self.epoch + 1, 0, self.open.is_empty());
        }
    }

    fn known(&mut self, run: u64) -> Option<&mut OpenRun> {
        self.open.iter_mut().chain(&mut self.ahead).find(|open| open.number == run)
    }

    /// Runs that were left, for another or for a state, no longer say where the consumer is.
    fn forget_runs(&mut self) {
        self.open.clear();
        self.ahead = None;
    }
}
