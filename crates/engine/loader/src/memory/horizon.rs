//! When samples are used next: what the cache of decoded units evicts by (Belady's rule).

use std::ops::Range;

use forebay_plan::Epoch;

/// A step of a run, in an order that goes on over runs: what is called an epoch here is the number of a run, whichever
/// epoch of the data it goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// Later than anything that is planned.
    pub(crate) const NEVER: Self = Self(u64::MAX);
    const STEP_BITS: u32 = 40;

    pub(crate) fn new(epoch: u64, step: u64) -> Self {
        Self(epoch << Self::STEP_BITS | step & ((1 << Self::STEP_BITS) - 1))
    }

    pub(crate) fn epoch(self) -> u64 {
        self.0 >> Self::STEP_BITS
    }
}

/// When samples are used.
pub(crate) trait Horizon: Sync {
    /// The moments from `now` on, within its epoch, at which one of `samples` is used; in any order.
    fn uses(&self, samples: Range<u64>, now: Moment) -> Vec<Moment>;

    /// True when what is not used again before the next epoch is worth keeping for it outside memory.
    fn looks_beyond(&self) -> bool;

    /// The first moment in the epoch after `now`'s at which one of `samples` is used.
    fn next_epoch_use(&self, samples: Range<u64>, now: Moment) -> Moment;
}

/// The moment of `step` of `epoch`.
pub(crate) fn moment_of(epoch: &Epoch, step: u64) -> Moment {
    Moment::new(epoch.run(), step)
}

impl Horizon for Epoch {
    fn uses(&self, samples: Range<u64>, now: Moment) -> Vec<Moment> {
        let mut moments = Vec::new();
        for sample in samples {
            self.each_step_of(sample, |step| moments.push(moment_of(self, step)));
        }
        moments.retain(|moment| *moment >= now);
        moments
    }

    /// A full shuffle uses every unit again and again, in every epoch; the others use each for a while, and the next
    /// epoch may as well decode it again.
    fn looks_beyond(&self) -> bool {
        self.is_fully_shuffled()
    }

    fn next_epoch_use(&self, samples: Range<u64>, _: Moment) -> Moment {
        let steps = samples.filter_map(|sample| self.next_epoch_step_of(sample));
        steps.map(|step| Moment::new(self.run() + 1, step)).min().unwrap_or(Moment::NEVER)
    }
}
