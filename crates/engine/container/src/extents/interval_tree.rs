//! An interval tree along one axis: which of many boxes a selection may touch, in logarithmic time.

use std::ops::Range;

use crate::grid::selection::Selection;

/// Fewer boxes are looked at one by one.
const LEAST_INDEXED: usize = 16;

/// Where a box lies along the axis of a tree.
#[derive(Clone, Copy)]
struct Interval {
    start: u64,
    end: u64,
    /// The largest end among the intervals of the subtree whose middle this is.
    largest_end: u64,
    /// The number of the box.
    number: usize,
}

/// Intervals sorted by start: a binary tree in which the middle of a range is the root of its two halves.
#[derive(Clone)]
pub(crate) struct IntervalTree {
    axis: usize,
    intervals: Vec<Interval>,
}

impl IntervalTree {
    /// The tree of `count` boxes along the axis with the most different starts, where box `n` takes `along(n, axis)` of it;
    /// `None` where there are few.
    pub(crate) fn of(count: usize, ndim: usize, along: impl Fn(usize, usize) -> Range<u64>) -> Option<Self> {
        if count < LEAST_INDEXED {
            return None;
        }
        let start_count = |axis: &usize| {
            let mut starts: Vec<u64> = (0..count).map(|number| along(number, *axis).start).collect();
            starts.sort_unstable();
            starts.dedup();
            starts.len()
        };
        // Of equals the first: it is the axis of samples.
        let axis = (0..ndim).rev().max_by_key(start_count)?;
        let interval = |number: usize| {
            let Range { start, end } = along(number, axis);
            Interval { start, end, largest_end: 0, number }
        };
        let mut intervals: Vec<Interval> = (0..count).map(interval).collect();
        intervals.sort_unstable_by_key(|interval| (interval.start, interval.number));
        raise(&mut intervals);
        Some(Self { axis, intervals })
    }

    /// The boxes that may touch `selection`, in the order of their numbers; `None` where it has no such axis.
    pub(crate) fn touching(&self, selection: &Selection) -> Option<Vec<usize>> {
        let span = selection.spans().get(self.axis)?;
        let mut found = Vec::new();
        if span.count > 0 {
            let end = span.start + (span.count - 1) * span.step + 1;
            self.visit(0..self.intervals.len(), span.start..end, &mut found);
        }
        found.sort_unstable();
        Some(found)
    }

    /// Adds the boxes of the intervals `among` that share an index with `wanted`.
    fn visit(&self, among: Range<usize>, wanted: Range<u64>, found: &mut Vec<usize>) {
        let middle = among.start.midpoint(among.end);
        let Some(interval) = self.intervals[among.clone()].get(middle - among.start) else { return };
        if interval.largest_end <= wanted.start {
            return;
        }
        self.visit(among.start..middle, wanted.clone(), found);
        if interval.start < wanted.end {
            if interval.end > wanted.start {
                found.push(interval.number);
            }
            self.visit(middle + 1..among.end, wanted, found);
        }
    }
}

/// Notes the largest end of each subtree at its root, and gives that of all.
fn raise(intervals: &mut [Interval]) -> u64 {
    let middle = intervals.len() / 2;
    if intervals.is_empty() {
        return 0;
    }
    let (left, right) = intervals.split_at_mut(middle);
    let largest = raise(left).max(raise(&mut right[1..])).max(right[0].end);
    right[0].largest_end = largest;
    largest
}
