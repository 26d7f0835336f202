//! Which units are in memory, and which is used last: arithmetic, without the bytes.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

/// A step of an epoch, in an order that goes on over epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than anything that is planned.
    pub(crate) const NEVER: Self = Self(u64::MAX);
    const STEP_BITS: u32 = 40;

    pub(crate) fn new(epoch: u64, step: u64) -> Self {
        Self(epoch << Self::STEP_BITS | step & ((1 << Self::STEP_BITS) - 1))
    }

    fn epoch(self) -> u64 {
        self.0 >> Self::STEP_BITS
    }
}

/// Who knows when samples are used.
pub(crate) trait Horizon: Sync {
    /// The moments after `now`, within its epoch, at which one of `samples` is used; in any order.
    fn uses(&self, samples: Range<u64>, now: Moment) -> Vec<Moment>;

    /// The first moment in the epoch after `now`'s at which one of `samples` is used.
    fn next_epoch_use(&self, samples: Range<u64>, now: Moment) -> Moment;
}

/// Where a reader is: what it reads for, and who knows what comes after.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) moment: Moment,
    pub(crate) horizon: Option<&'a dyn Horizon>,
}

/// Gives the samples that have elements in a unit, if they are neighbours.
pub(crate) type SamplesOf<'a> = &'a dyn Fn() -> Option<Range<u64>>;

/// Units of more samples than this are in use all the time: reckoning each use would cost more than it tells.
pub(crate) const MOST_USES: u64 = 4096;

/// Which units are in memory, by their next use.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    units: HashMap<u64, Kept>,
    /// The last is the first to go.
    by_next_use: BTreeSet<(Moment, u64)>,
    len: u64,
    /// Units that were decoded once, a bit each.
    seen: Vec<u64>,
}

#[derive(Debug)]
struct Kept {
    room: u64,
    uses: Uses,
}

/// A unit that has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaver {
    pub(crate) unit: u64,
    /// False when no sample of it is used again.
    pub(crate) is_used_again: bool,
}

/// Whether a unit was decoded before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoding {
    First,
    Again,
}

impl Ledger {
    /// Counts a use of `unit`; false when it is not in memory.
    pub(crate) fn touch(&mut self, unit: u64, samples: SamplesOf<'_>, now: Now<'_>) -> bool {
        let Some(kept) = self.units.get_mut(&unit) else { return false };
        let before = kept.uses.next;
        kept.uses.advance(samples, now);
        let next = kept.uses.next;
        if next != before {
            self.by_next_use.remove(&(before, unit));
            self.by_next_use.insert((next, unit));
        }
        true
    }

    /// Takes in `unit`, which was just decoded and takes `room` bytes.
    pub(crate) fn admit(&mut self, unit: u64, room: u64, uses: Uses) -> Decoding {
        self.len += room;
        self.by_next_use.insert((uses.next, unit));
        self.units.insert(unit, Kept { room, uses });
        self.see(unit)
    }

    /// Marks `unit` as decoded, and tells whether it was before.
    fn see(&mut self, unit: u64) -> Decoding {
        let (word, bit) = (usize::try_from(unit / 64).unwrap_or(usize::MAX), 1u64 << (unit % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let was = self.seen[word] & bit != 0;
        self.seen[word] |= bit;
        if was { Decoding::Again } else { Decoding::First }
    }

    /// Lets go what is used last, if there is more than `budget`.
    pub(crate) fn evict(&mut self, budget: u64) -> Option<Leaver> {
        if self.len <= budget {
            return None;
        }
        let (next, unit) = self.by_next_use.pop_last()?;
        self.len -= self.units.remove(&unit).map_or(0, |kept| kept.room);
        Some(Leaver { unit, is_used_again: next != Moment::NEVER })
    }

    /// Bytes of all units in memory.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// When a unit is used.
#[derive(Debug)]
pub(crate) struct Uses {
    next: Moment,
    /// Later uses in the epoch of `next`, the soonest last.
    later: Vec<Moment>,
    /// The epoch `later` was reckoned for.
    epoch: u64,
}

impl Uses {
    /// The uses after `now` of a unit that holds `samples`.
    pub(crate) fn new(samples: SamplesOf<'_>, now: Now<'_>) -> Self {
        let mut uses = Self { next: now.moment, later: Vec::new(), epoch: u64::MAX };
        uses.advance(samples, now);
        uses
    }

    /// Finds the next use after `now`.
    fn advance(&mut self, samples: SamplesOf<'_>, now: Now<'_>) {
        // Without a plan, what was used last is kept longest: the older a unit's last use, the later its next.
        let by_age = Moment(u64::MAX - 1 - now.moment.0);
        let Some(horizon) = now.horizon else { return self.next = by_age };
        if self.epoch == now.moment.epoch() && self.next > now.moment {
            // A thread that is behind: what lies ahead is already known.
            return;
        }
        let Some(samples) = samples() else { return self.next = by_age };
        if samples.end - samples.start > MOST_USES {
            return self.next = Moment(now.moment.0 + 1);
        }
        if self.epoch != now.moment.epoch() {
            self.later = horizon.uses(samples.clone(), now.moment);
            self.later.sort_unstable_by(|one, other| other.cmp(one));
            self.epoch = now.moment.epoch();
        }
        while let Some(use_at) = self.later.pop() {
            if use_at > now.moment {
                return self.next = use_at;
            }
        }
        self.next = horizon.next_epoch_use(samples, now.moment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sample `n` is used at step `n` of every epoch.
    struct InOrder;

    impl Horizon for InOrder {
        fn uses(&self, samples: Range<u64>, now: Moment) -> Vec<Moment> {
            samples.map(|step| Moment::new(now.epoch(), step)).filter(|moment| *moment > now).collect()
        }

        fn next_epoch_use(&self, samples: Range<u64>, now: Moment) -> Moment {
            Moment::new(now.epoch() + 1, samples.start)
        }
    }

    #[test]
    fn what_is_used_last_goes_first_and_only_as_long_as_there_is_too_much() {
        let now = Now { moment: Moment::new(0, 0), horizon: Some(&InOrder) };
        let mut ledger = Ledger::default();
        for (unit, first) in [(1, 5), (2, 9), (3, 2)] {
            let uses = Uses::new(&|| Some(first..first + 1), now);
            assert_eq!(ledger.admit(unit, 10, uses), Decoding::First);
        }
        assert_eq!(ledger.evict(20), Some(Leaver { unit: 2, is_used_again: true }));
        assert_eq!((ledger.evict(20), ledger.len()), (None, 20));
        // Unit 3 is used, and then not before the next epoch.
        let later = Now { moment: Moment::new(0, 2), horizon: Some(&InOrder) };
        assert!(ledger.touch(3, &|| Some(2..3), later) && !ledger.touch(2, &|| Some(9..10), later));
        assert_eq!(ledger.evict(10), Some(Leaver { unit: 3, is_used_again: true }));
        assert_eq!(ledger.admit(3, 10, Uses::new(&|| Some(2..3), later)), Decoding::Again);
    }
}
