//! All mappings of one variable, found by place.
//!
//! A virtual data set may have as many mappings as a beamline has frames, and a read touches a few: an interval tree along the
//! axis that tells mappings apart best finds them in logarithmic time. It is made at the first read and not saved.

use std::{fmt, ops::Deref, sync::OnceLock};

use serde::{Deserialize, Serialize};

use crate::{Mapping, Selection};

/// The mappings of one variable; later ones lie over earlier ones.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mappings {
    list: Vec<Mapping>,
    #[serde(skip)]
    tree: OnceLock<Option<IntervalTree>>,
}

/// Fewer are looked at one by one.
const LEAST_INDEXED: usize = 16;

impl Mappings {
    /// Those that may touch `selection`, in the order they are applied.
    pub fn touching(&self, selection: &Selection) -> Vec<&Mapping> {
        let Some(tree) = self.tree.get_or_init(|| IntervalTree::of(&self.list)) else {
            return self.list.iter().collect();
        };
        let Some(span) = selection.spans().get(tree.axis) else { return self.list.iter().collect() };
        if span.count == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        tree.visit(
            0..tree.places.len(),
            span.start,
            span.start + (span.count - 1) * span.step + 1,
            &mut found,
        );
        found.sort_unstable();
        found.into_iter().map(|number| &self.list[number]).collect()
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

/// Where a mapping lies along the axis of a tree.
#[derive(Clone, Copy)]
struct Place {
    start: u64,
    end: u64,
    /// The largest end among the places of the subtree whose middle this is.
    largest_end: u64,
    /// The mapping's position in the list.
    number: usize,
}

/// Places sorted by start: a binary tree in which the middle of a range is the root of its two halves.
#[derive(Clone)]
struct IntervalTree {
    axis: usize,
    places: Vec<Place>,
}

impl IntervalTree {
    /// The tree of `mappings` along the axis with the most different starts; `None` where there are few.
    fn of(mappings: &[Mapping]) -> Option<Self> {
        let ndim = mappings.first().filter(|_| mappings.len() >= LEAST_INDEXED)?.to.len();
        let start_count = |axis: &usize| {
            let mut starts: Vec<u64> = mappings.iter().map(|mapping| mapping.to[*axis].start).collect();
            starts.sort_unstable();
            starts.dedup();
            starts.len()
        };
        // Of equals the first: it is the axis of samples.
        let axis = (0..ndim).rev().max_by_key(start_count)?;
        let place = |(number, mapping): (usize, &Mapping)| {
            let to = mapping.to[axis];
            Place { start: to.start, end: to.end().unwrap_or(u64::MAX), largest_end: 0, number }
        };
        let mut places: Vec<Place> = mappings.iter().enumerate().map(place).collect();
        places.sort_unstable_by_key(|place| (place.start, place.number));
        raise(&mut places);
        Some(Self { axis, places })
    }

    /// Adds the numbers of all places in `range` that share an index with `start..end`.
    fn visit(&self, range: std::ops::Range<usize>, start: u64, end: u64, found: &mut Vec<usize>) {
        let middle = range.start.midpoint(range.end);
        let Some(place) = self.places[range.clone()].get(middle - range.start) else { return };
        if place.largest_end <= start {
            return;
        }
        self.visit(range.start..middle, start, end, found);
        if place.start < end {
            if place.end > start {
                found.push(place.number);
            }
            self.visit(middle + 1..range.end, start, end, found);
        }
    }
}

/// Notes the largest end of each subtree at its root, and gives that of all.
fn raise(places: &mut [Place]) -> u64 {
    let middle = places.len() / 2;
    if places.is_empty() {
        return 0;
    }
    let (left, right) = places.split_at_mut(middle);
    let largest = raise(left).max(raise(&mut right[1..])).max(right[0].end);
    right[0].largest_end = largest;
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocks, Span};

    fn mapping(start: u64, len: u64) -> Mapping {
        let along = |start| Blocks { start, stride: len, count: 1, block: len };
        let all = Blocks { start: 0, stride: 4, count: 1, block: 4 };
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
