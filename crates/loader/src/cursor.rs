//! Where the consumer is in its epochs: what it committed, not what it was handed.

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
    /// Runs begun so far.
    pub(crate) runs: u64,
    /// Batches of the last run that were handed out.
    handed_out: u64,
    /// Batches of it that are committed.
    committed: u64,
    /// True when all batches of it were handed out.
    is_over: bool,
    /// The same two of the run that was begun ahead of its turn, after the last.
    ahead: (u64, bool),
}

impl EpochCursor {
    /// The cursor at `position` of `epoch`, where the next run begins.
    pub(crate) fn at(plan: Plan, epoch: u64, position: u64, runs: u64) -> Self {
        let (handed_out, committed, is_over) = (0, 0, false);
        Self { plan, epoch, position, is_set: true, runs, handed_out, committed, is_over, ahead: (0, false) }
    }

    /// The epoch that is begun next, and the position of its order where it begins.
    pub(crate) fn upcoming(&self) -> (u64, u64) {
        match (self.is_set, self.position) {
            (true, position) => (self.epoch, position),
            (false, 0) => (self.epoch, 0),
            (false, _) => (self.epoch + 1, 0),
        }
    }

    /// Begins a run.
    pub(crate) fn begin(&mut self) {
        (self.epoch, self.position) = self.upcoming();
        self.is_set = false;
        self.runs += 1;
        (self.handed_out, self.committed, self.is_over, self.ahead) = (0, 0, false, (0, false));
    }

    /// The number of the run that follows `run` and its epoch, if that is the last and nothing else was set since.
    pub(crate) fn after(&self, run: u64) -> Option<(u64, u64)> {
        self.is_of_last_run(run).then(|| (self.runs + 1, self.epoch + 1))
    }

    /// Begins the run that was started ahead as number `run` of `epoch`; false where another is to come.
    pub(crate) fn follow(&mut self, run: u64, epoch: u64) -> bool {
        let is_next = self.upcoming() == (epoch, 0) && self.runs + 1 == run;
        if is_next {
            let ahead = self.ahead;
            self.begin();
            (self.handed_out, self.is_over) = ahead;
            self.end_if_over();
        }
        is_next
    }

    /// Makes `epoch` the next one that is begun, from its start; the epoch of a state that was loaded keeps its position.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        if !self.is_set || self.epoch != epoch {
            (self.epoch, self.position, self.is_set) = (epoch, 0, true);
        }
    }

    /// Notes that the consumer was handed a batch.
    pub(crate) fn hand_out(&mut self, receipt: Receipt) {
        if self.is_of_last_run(receipt.run) {
            self.handed_out = receipt.step + 1;
        } else if receipt.run == self.runs + 1 {
            self.ahead.0 = receipt.step + 1;
        }
    }

    /// Notes that the consumer used a batch, and those before it.
    pub(crate) fn commit(&mut self, receipt: Receipt) {
        let Receipt { run, step, consumed, is_last } = receipt;
        if !self.is_of_last_run(run) || step < self.committed {
            return;
        }
        (self.position, self.committed) = (consumed, step + 1);
        match is_last {
            true => self.begin_next(),
            false => self.end_if_over(),
        }
    }

    /// Notes that all batches of `run` were handed out. Some may have been left out after the last.
    pub(crate) fn finish(&mut self, run: u64) {
        if self.is_of_last_run(run) {
            self.is_over = true;
            self.end_if_over();
        } else if run == self.runs + 1 {
            self.ahead.1 = true;
        }
    }

    fn end_if_over(&mut self) {
        if self.is_over && self.committed >= self.handed_out {
            self.begin_next();
        }
    }

    /// A run that was followed by another, or by a state, no longer says where the consumer is.
    fn is_of_last_run(&self, run: u64) -> bool {
        run == self.runs && !self.is_set
    }

    /// Goes to the start of the next epoch: nothing is left of this one.
    fn begin_next(&mut self) {
        (self.epoch, self.position, self.is_set) = (self.epoch + 1, 0, true);
    }
}
