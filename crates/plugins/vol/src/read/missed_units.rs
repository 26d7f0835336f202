//! Units that a read misses: which are worth reading whole.

use std::{cell::RefCell, collections::BTreeMap};

use crate::units::{read_plan::UnitDemand, unit_grid::UnitGrid, unit_set::UnitSet, unit_target::BlockClaim};

/// A part of a unit is read as the whole unit at once if it is at least one in this many of its bytes.
const LARGE_PART: u64 = 4;
/// Whole units are read for parts of them only while they are at most this many times what is wanted, or [`SMALL_FILL`]: a column
/// of a long array must not bring all of it.
const MOST_AMPLIFIED: u64 = 16;
/// Bytes that may be read in any case.
const SMALL_FILL: u64 = 8 << 20;

/// What becomes of a read whose units are not all here.
#[derive(Debug)]
pub(crate) enum Misses {
    /// Every unit is filled that is not here.
    Fill,
    /// The connector below reads it as it is; these units are then whole in memory, and kept.
    Pass(PassedUnits),
}

/// Units that are whole in memory once the connector below has read them.
#[derive(Debug, Default)]
pub(crate) struct PassedUnits {
    pub(crate) whole: Vec<u64>,
    /// Claims on those that other processes leave to this one.
    pub(crate) claims: RefCell<BTreeMap<u64, BlockClaim>>,
}

/// What a planned read finds.
#[derive(Debug)]
pub(crate) struct ReadOutlook {
    /// Bytes that are read.
    pub(crate) len: u64,
    /// Bytes of them that are not here.
    pub(crate) missed: u64,
    pub(crate) misses: Misses,
}

impl ReadOutlook {
    /// True when the connector below has to make the read.
    pub(crate) fn needs_below(&self) -> bool {
        matches!(self.misses, Misses::Pass(_))
    }
}

/// What is known of the units that a read misses.
#[derive(Debug)]
pub(crate) struct MissedUnits {
    /// Those of which the read wants all.
    pub(crate) whole: Vec<u64>,
    /// Some are wanted in part, and are worth reading as a whole.
    pub(crate) is_worth: bool,
    /// All together are not too much for what is wanted.
    pub(crate) is_bounded: bool,
}

impl MissedUnits {
    /// Judges the units `missing` for a read of `len` bytes, of which none comes twice if it `is_disjoint`; those that are wanted
    /// in part are noted in `touched`.
    pub(crate) fn judge(
        grid: &UnitGrid,
        touched: &mut UnitSet,
        missing: &[UnitDemand],
        len: u64,
        is_disjoint: bool,
    ) -> Self {
        let (mut whole, mut is_worth, mut fill) = (Vec::new(), false, 0_u64);
        for UnitDemand { unit, wanted } in missing {
            let filled = grid.filled_len(*unit);
            fill = fill.saturating_add(filled);
            if *wanted == filled && is_disjoint {
                whole.push(*unit);
                continue;
            }
            let is_first = touched.insert(*unit);
            is_worth |= !is_first || wanted.saturating_mul(LARGE_PART) >= filled;
        }
        let is_bounded = fill <= SMALL_FILL.max(len.saturating_mul(MOST_AMPLIFIED));
        Self { whole, is_worth, is_bounded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of 1 MiB.
    fn grid() -> UnitGrid {
        UnitGrid::new(&[1 << 27], None, 1, 1 << 20).expect("a grid")
    }

    fn judge(touched: &mut UnitSet, wanted: &[u64], len: u64) -> MissedUnits {
        let missing: Vec<UnitDemand> =
            (0..).zip(wanted).map(|(unit, wanted)| UnitDemand { unit, wanted: *wanted }).collect();
        MissedUnits::judge(&grid(), touched, &missing, len, true)
    }

    #[test]
    fn a_small_part_of_a_unit_is_worth_the_unit_when_it_is_asked_for_again() {
        let mut touched = UnitSet::default();
        assert!(!judge(&mut touched, &[1024], 1024).is_worth);
        assert!(judge(&mut touched, &[1024], 1024).is_worth);
    }

    #[test]
    fn a_large_part_of_a_unit_is_worth_the_unit_at_once() {
        assert!(judge(&mut UnitSet::default(), &[256 << 10], 256 << 10).is_worth);
    }

    #[test]
    fn units_of_which_all_is_wanted_are_whole() {
        let judged = judge(&mut UnitSet::default(), &[1 << 20, 1 << 20], 2 << 20);
        assert_eq!((judged.whole, judged.is_worth, judged.is_bounded), (vec![0, 1], false, true));
    }

    #[test]
    fn a_column_does_not_bring_all_units_that_it_crosses() {
        assert!(!judge(&mut UnitSet::default(), &[1024; 64], 64 << 10).is_bounded);
        assert!(judge(&mut UnitSet::default(), &[1024; 8], 8 << 10).is_bounded);
    }
}
