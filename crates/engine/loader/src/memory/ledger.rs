//! Which units are in memory, and which is used last: arithmetic, without the bytes.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use crate::memory::{
    bitmap::Bitmap,
    horizon::{Horizon, Moment},
};

/// Where a reader is, and when samples are used from then on.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) moment: Moment,
    /// The first step that some thread still works on: what it needs is not over yet.
    pub(crate) oldest: Moment,
    pub(crate) horizon: Option<&'a dyn Horizon>,
}

/// Gives the samples that have elements in a unit, if they are neighbours.
pub(crate) type SamplesOf<'a> = &'a dyn Fn() -> Option<Range<u64>>;

/// Units of more samples than this are in use all the time: to compute each use would cost more than it gains.
pub(crate) const MOST_USES: u64 = 4096;

/// Which units are in memory, by their next use.
#[derive(Debug, Default)]
pub(crate) struct UnitLedger {
    units: HashMap<u64, ResidentUnit>,
    /// The last is evicted first.
    by_next_use: BTreeSet<(Moment, u64)>,
    len: u64,
    /// Units that were decoded once.
    seen: Bitmap,
}

#[derive(Debug)]
struct ResidentUnit {
    room: u64,
    uses: Uses,
}

/// A unit that was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvictedUnit {
    pub(crate) unit: u64,
    /// False when no sample of it is used again, or not soon enough to be kept elsewhere.
    pub(crate) is_used_again: bool,
}

/// Whether a unit was decoded before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoding {
    First,
    Again,
}

impl UnitLedger {
    /// Counts a use of `unit`; false when it is not in memory.
    pub(crate) fn touch(&mut self, unit: u64, now: Now<'_>) -> bool {
        let Some(kept) = self.units.get_mut(&unit) else { return false };
        let before = kept.uses.next;
        kept.uses.advance(now);
        let next = kept.uses.next;
        if next != before {
            self.by_next_use.remove(&(before, unit));
            self.by_next_use.insert((next, unit));
        }
        true
    }

    /// Looks again at units whose next use has gone by.
    fn catch_up(&mut self, now: Now<'_>) {
        while let Some((next, unit)) = self.by_next_use.first().copied()
            && next < now.oldest
            && now.horizon.is_some()
        {
            self.touch(unit, Now { moment: Moment::NEVER, ..now });
            // Where nothing tells of a later use, none is found.
            if self.by_next_use.first().is_some_and(|first| *first == (next, unit)) {
                break;
            }
        }
    }

    /// Adds `unit`, which was just decoded and takes `room` bytes.
    pub(crate) fn admit(&mut self, unit: u64, room: u64, uses: Uses) -> Decoding {
        self.len += room;
        self.by_next_use.insert((uses.next, unit));
        if let Some(before) = self.units.insert(unit, ResidentUnit { room, uses }) {
            self.len -= before.room;
            if self.units.get(&unit).is_some_and(|kept| kept.uses.next != before.uses.next) {
                self.by_next_use.remove(&(before.uses.next, unit));
            }
        }
        if self.seen.insert(unit) { Decoding::First } else { Decoding::Again }
    }

    /// Evicts the unit that is used last, if all take more than `budget` bytes.
    pub(crate) fn evict(&mut self, budget: u64, now: Now<'_>) -> Option<EvictedUnit> {
        if self.len <= budget {
            return None;
        }
        self.catch_up(now);
        let (next, unit) = self.by_next_use.pop_last()?;
        self.len -= self.units.remove(&unit).map_or(0, |kept| kept.room);
        let is_this_epoch =
            next.epoch() == now.oldest.epoch() || now.horizon.is_none_or(Horizon::looks_beyond);
        Some(EvictedUnit { unit, is_used_again: next != Moment::NEVER && is_this_epoch })
    }

    /// Bytes of all units in memory.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// When a unit is used.
#[derive(Debug)]
pub(crate) struct Uses {
    /// The samples that have elements in it, if they are neighbours.
    samples: Option<Range<u64>>,
    next: Moment,
    /// Uses in `epoch`, the soonest last.
    coming: Vec<Moment>,
    /// The epoch `coming` was computed for.
    epoch: u64,
}

impl Uses {
    /// The uses besides `now`'s of a unit that holds `samples`.
    pub(crate) fn new(samples: SamplesOf<'_>, now: Now<'_>) -> Self {
        let mut uses = Self { samples: samples(), next: now.moment, coming: Vec::new(), epoch: u64::MAX };
        uses.advance(now);
        uses
    }

    /// Finds the next use besides `now`'s, by whichever thread.
    fn advance(&mut self, now: Now<'_>) {
        let (Some(horizon), Some(samples)) = (now.horizon, self.samples.clone()) else {
            // Without a plan, what was used last is kept longest: the older a unit's last use, the later its next.
            return self.next = Moment(u64::MAX - 1 - now.oldest.0);
        };
        if samples.end - samples.start > MOST_USES {
            return self.next = Moment(now.oldest.0 + 1);
        }
        if self.epoch != now.oldest.epoch() {
            self.coming = horizon.uses(samples.clone(), now.oldest);
            self.coming.sort_unstable_by(|one, other| other.cmp(one));
            self.epoch = now.oldest.epoch();
        }
        while self.coming.pop_if(|use_at| *use_at < now.oldest).is_some() {}
        let besides = self.coming.iter().rev().find(|use_at| **use_at != now.moment);
        self.next = besides.copied().unwrap_or_else(|| horizon.next_epoch_use(samples, now.oldest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sample `n` is used at step `n` of every epoch.
    struct InOrder;

    impl Horizon for InOrder {
        fn uses(&self, samples: Range<u64>, now: Moment) -> Vec<Moment> {
            samples.map(|step| Moment::new(now.epoch(), step)).filter(|moment| *moment >= now).collect()
        }

        fn looks_beyond(&self) -> bool {
            true
        }

        fn next_epoch_use(&self, samples: Range<u64>, now: Moment) -> Moment {
            Moment::new(now.epoch() + 1, samples.start)
        }
    }

    #[test]
    fn what_is_used_last_goes_first_and_only_as_long_as_there_is_too_much() {
        let at = |step| Now {
            moment: Moment::new(0, step),
            oldest: Moment::new(0, step),
            horizon: Some(&InOrder),
        };
        let now = at(0);
        let mut ledger = UnitLedger::default();
        for (unit, first) in [(1, 5), (2, 9), (3, 2)] {
            let uses = Uses::new(&|| Some(first..first + 1), now);
            assert_eq!(ledger.admit(unit, 10, uses), Decoding::First);
        }
        assert_eq!(ledger.evict(20, now), Some(EvictedUnit { unit: 2, is_used_again: true }));
        assert_eq!((ledger.evict(20, now), ledger.len()), (None, 20));
        // Unit 3 is used, and then not before the next epoch.
        let later = at(2);
        assert!(ledger.touch(3, later) && !ledger.touch(2, later));
        assert_eq!(ledger.evict(10, later), Some(EvictedUnit { unit: 3, is_used_again: true }));
        assert_eq!(ledger.admit(3, 10, Uses::new(&|| Some(2..3), later)), Decoding::Again);
    }

    #[test]
    fn what_a_thread_that_is_behind_still_needs_stays_and_goes_once_that_is_over() {
        let ahead = Now { moment: Moment::new(0, 8), oldest: Moment::new(0, 4), horizon: Some(&InOrder) };
        let mut ledger = UnitLedger::default();
        // Unit 1 is used at steps 5 and 8, unit 2 at step 9.
        let mut both = Uses::new(&|| Some(8..9), ahead);
        both.coming = vec![Moment::new(0, 8), Moment::new(0, 5)];
        ledger.admit(1, 10, both);
        ledger.touch(1, ahead);
        ledger.admit(2, 10, Uses::new(&|| Some(9..10), ahead));
        assert_eq!(ledger.evict(10, ahead), Some(EvictedUnit { unit: 2, is_used_again: true }));
        ledger.admit(2, 10, Uses::new(&|| Some(9..10), ahead));
        let later = Now { moment: Moment::new(0, 9), oldest: Moment::new(0, 9), horizon: Some(&InOrder) };
        assert_eq!(ledger.evict(10, later), Some(EvictedUnit { unit: 1, is_used_again: true }));
    }
}
