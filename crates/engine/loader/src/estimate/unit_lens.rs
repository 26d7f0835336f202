//! How long units are, and how many bytes of them an order uses at a time.

use crate::{
    epoch::share::times,
    layout::{SetLayout, Storage},
    memory::shares::room_of,
    set::SampleSet,
};
use forebay_plan::{Plan, Shuffle};

/// How long units are.
pub(super) struct UnitLens {
    /// The first unit of each variable of each file, and the length of its units.
    by_first: Vec<(u64, u64)>,
    /// Bytes of one unit of each column.
    pub(super) first_of_columns: u64,
    /// Bytes of memory for all units.
    pub(super) room: u64,
}

impl UnitLens {
    pub(super) fn new(layout: &SetLayout) -> Self {
        let indices = layout.columns.iter().filter_map(|column| column.indices.as_deref());
        let columns = || layout.columns.iter().chain(indices.clone());
        let len = |storage: &Storage| match storage {
            Storage::Units(units) if units.count() > 0 => Some((units.first, units.unit_len)),
            _ => None,
        };
        let mut by_first: Vec<_> = columns().flat_map(|column| &column.parts).filter_map(len).collect();
        by_first.sort_unstable();
        let firsts = columns().filter_map(|column| column.parts.first().and_then(len));
        let room = columns().flat_map(|column| &column.parts).fold(0u64, |sum, storage| match storage {
            Storage::Units(units) => {
                sum.saturating_add(units.count().saturating_mul(room_of(units.unit_len)))
            }
            _ => sum,
        });
        Self { by_first, first_of_columns: firsts.map(|(_, len)| len).sum(), room }
    }

    /// Bytes of `unit`.
    pub(super) fn of(&self, unit: u64) -> u64 {
        let after = self.by_first.partition_point(|(first, _)| *first <= unit);
        after.checked_sub(1).map_or(0, |index| self.by_first[index].1)
    }
}

/// Bytes of units that an order uses at a time.
pub(super) fn in_use(plan: &Plan, set: &SampleSet, layout: &SetLayout) -> u64 {
    let unit = UnitLens::new(layout).first_of_columns;
    let (lanes, group) = match plan.spec().shuffle {
        Shuffle::Full => return layout.unit_bytes,
        Shuffle::None => (1, unit),
        Shuffle::Block { lanes, window } => {
            let group = times(layout.unit_bytes, plan.group_len(), set.len());
            (u64::from(lanes) * u64::from(window), group.max(unit))
        }
    };
    // A lane is at one group, or goes from one to the next.
    lanes.saturating_mul(group).saturating_mul(2).min(layout.unit_bytes)
}
