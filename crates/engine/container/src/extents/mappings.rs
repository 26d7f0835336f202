//! All mappings of one variable, found by place.
//!
//! A virtual data set may have as many mappings as a beamline has frames, and a read touches a few: an interval tree along the
//! axis that tells mappings apart best finds them in logarithmic time. It is made at the first read and not saved.

use std::{fmt, ops::Deref, sync::OnceLock};

use serde::{Deserialize, Serialize};

use crate::{
    extents::{interval_tree::IntervalTree, mapping::Mapping},
    grid::selection::Selection,
};

/// The mappings of one variable; later ones lie over earlier ones.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mappings {
    list: Vec<Mapping>,
    #[serde(skip)]
    tree: OnceLock<Option<IntervalTree>>,
}

impl Mappings {
    /// Those that may touch `selection`, in the order they are applied.
    pub fn touching(&self, selection: &Selection) -> Vec<&Mapping> {
        let along = |number: usize, axis: usize| {
            let to = self.list[number].to[axis];
            to.start..to.end().unwrap_or(u64::MAX)
        };
        let ndim = self.list.first().map_or(0, |mapping| mapping.to.len());
        let tree = self.tree.get_or_init(|| IntervalTree::of(self.list.len(), ndim, along));
        match tree.as_ref().and_then(|tree| tree.touching(selection)) {
            Some(found) => found.into_iter().map(|number| &self.list[number]).collect(),
            None => self.list.iter().collect(),
        }
    }
}

impl Deref for Mappings {
    type Target = [Mapping];

    fn deref(&self) -> &[Mapping] {
        &self.list
    }
}

impl From<Vec<Mapping>> for Mappings {
    fn from(list: Vec<Mapping>) -> Self {
        Self { list, tree: OnceLock::new() }
    }
}

impl PartialEq for Mappings {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Mappings {}

impl fmt::Debug for Mappings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{extents::mapping::HyperslabAxis, grid::selection::Span};

    fn mapping(start: u64, len: u64) -> Mapping {
        let along = |start| HyperslabAxis { start, stride: len, count: 1, block: len };
        let all = HyperslabAxis { start: 0, stride: 4, count: 1, block: 4 };
        Mapping::new(0, vec![along(0), all], vec![along(start), all]).expect("equal sides")
    }

    fn touched(mappings: &Mappings, rows: std::ops::Range<u64>) -> Vec<u64> {
        let selection = Selection::new(vec![Span::range(rows), Span::range(0..4)]);
        mappings.touching(&selection).iter().map(|mapping| mapping.to[0].start).collect()
    }

    #[test]
    fn a_row_of_many_mappings_touches_its_own_alone() {
        let mappings = Mappings::from((0..1000).map(|number| mapping(number * 3, 3)).collect::<Vec<_>>());
        assert_eq!(touched(&mappings, 300..301), [300]);
        assert_eq!(touched(&mappings, 302..304), [300, 303]);
        assert_eq!(touched(&mappings, 3000..3001), [0; 0]);
        assert_eq!(touched(&mappings, 0..3000).len(), 1000);
        assert_eq!(touched(&mappings, 5..5), [0; 0]);
    }

    #[test]
    fn mappings_that_overlap_come_in_their_order() {
        let starts = (0..40).map(|number| (number * 7) % 40);
        let mut list: Vec<_> = starts.map(|start| mapping(start, 2)).collect();
        list.push(mapping(0, 100));
        let mappings = Mappings::from(list.clone());
        for row in 0..45 {
            let expected: Vec<u64> = list
                .iter()
                .filter(|mapping| mapping.to[0].start <= row && row < mapping.to[0].end().expect("short"))
                .map(|mapping| mapping.to[0].start)
                .collect();
            assert_eq!(touched(&mappings, row..row + 1), expected, "row {row}");
        }
    }
}
