//! What will be asked for, in that order: this epoch, and the next.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Weak},
};

use forebay_loader::{IndexAccess, ScheduledRead};
use forebay_tier::{UpcomingRead, UpcomingReads};

use super::{course::EpochCourse, loader_foresight::LoaderForesight};

/// Names what a loader will ask for, batch after batch.
#[derive(Debug)]
pub(super) struct UpcomingBatches {
    foresight: Weak<LoaderForesight>,
    course: Arc<EpochCourse>,
    /// Epochs after the current one.
    later: usize,
    /// The batch that is looked at next.
    step: u64,
    /// Bytes that were named of later epochs.
    later_bytes: u64,
    coming: VecDeque<UpcomingRead>,
    slots: Vec<Option<u64>>,
    asked: Vec<ScheduledRead>,
}

/// Epochs that are named after the current one: what the last batches leave idle serves the first of the next.
const EPOCHS_AHEAD: usize = 1;

/// So much of it is enough to begin with: nobody knows whether the next epoch will be run, and what is read for one that is
/// not is read in vain.
const MOST_LATER_BYTES: u64 = 16 << 20;

impl UpcomingBatches {
    pub(super) fn new(foresight: &Arc<LoaderForesight>, course: Arc<EpochCourse>) -> Self {
        Self {
            foresight: Arc::downgrade(foresight),
            course,
            later: 0,
            step: 0,
            later_bytes: 0,
            coming: VecDeque::new(),
            slots: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Looks at the next batch; nothing when there is none.
    fn look(&mut self) -> Option<()> {
        let foresight = self.foresight.upgrade()?;
        let schedule = &foresight.schedule;
        if self.later == 0 {
            // What was delivered meanwhile is not read again.
            self.step = self.step.max(self.course.now());
        }
        while self.step >= self.course.epoch(schedule, self.later)?.step_count() {
            if self.later == EPOCHS_AHEAD {
                return None;
            }
            (self.later, self.step) = (self.later + 1, 0);
            if !schedule.keeps_units() {
                foresight.lock_named().clear();
            }
        }
        if self.later_bytes >= MOST_LATER_BYTES {
            return None;
        }
        self.course.epoch(schedule, self.later)?.batch(self.step, &mut self.slots);
        self.step += 1;
        schedule.batch(&self.slots, IndexAccess::Known, &mut self.asked);
        let mut named = foresight.lock_named();
        // A unit may have several ranges: all of them are looked at before it counts as named.
        self.asked.retain(|asked| asked.unit.is_none_or(|unit| named.is_new(unit)));
        self.asked.iter().filter_map(|asked| asked.unit).for_each(|unit| named.add(unit));
        drop(named);
        let mut seen = HashSet::new();
        for asked in &self.asked {
            let range = asked.range;
            if seen.insert((asked.source, range)) {
                self.later_bytes += if self.later > 0 { range.len() } else { 0 };
                self.coming.push_back(UpcomingRead { source: foresight.numbers.keys[asked.source], range });
            }
        }
        Some(())
    }
}

impl UpcomingReads for UpcomingBatches {
    fn next(&mut self) -> Option<UpcomingRead> {
        while self.coming.is_empty() {
            self.look()?;
        }
        self.coming.pop_front()
    }
}
