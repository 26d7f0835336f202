//! Boxes of an array that form no grid, as columns of plain numbers: where each lies in the array and in its source.
//!
//! Writers of simulations put a block each, of whatever shape. A million blocks take a few columns of numbers here, and an
//! interval tree, made at the first read and not saved, finds those that a selection touches.

use std::{fmt, sync::OnceLock};

use forebay_source::ByteRange;
use serde::{Deserialize, Serialize};

use crate::{
    extents::{chunk_table::Extent, interval_tree::IntervalTree, source_index::SourceIndex},
    grid::{
        Overlap,
        selection::{Selection, Span},
        shape::product,
    },
};

/// Boxes of an array, each stored in one piece; later ones lie over earlier ones.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Boxes {
    ndim: usize,
    /// The first index of each box along each axis, box by box.
    starts: Vec<u64>,
    /// The shape of each box.
    counts: Vec<u64>,
    sources: Vec<SourceIndex>,
    ranges: Vec<ByteRange>,
    #[serde(skip)]
    tree: OnceLock<Option<IntervalTree>>,
    #[serde(skip)]
    largest: OnceLock<u64>,
}

/// One box of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayBox<'a> {
    /// Its corner.
    pub start: &'a [u64],
    /// Its shape.
    pub count: &'a [u64],
    /// Where its stored bytes lie.
    pub extent: Extent,
}

impl Boxes {
    /// No boxes of an array of `ndim` axes.
    pub fn new(ndim: usize) -> Self {
        Self { ndim, ..Self::default() }
    }

    /// Adds a box, whose corner and shape have a number for each axis.
    pub fn push(&mut self, start: &[u64], count: &[u64], source: SourceIndex, range: ByteRange) {
        debug_assert!(start.len() == self.ndim && count.len() == self.ndim);
        (self.tree, self.largest) = (OnceLock::new(), OnceLock::new());
        self.starts.extend_from_slice(start);
        self.counts.extend_from_slice(count);
        self.sources.push(source);
        self.ranges.push(range);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Box `number`, which there must be.
    pub fn get(&self, number: usize) -> ArrayBox<'_> {
        let axes = number * self.ndim..(number + 1) * self.ndim;
        let (source, range) = (self.sources[number], self.ranges[number]);
        let extent = Extent { source, range, skipped: 0 };
        ArrayBox { start: &self.starts[axes.clone()], count: &self.counts[axes], extent }
    }

    /// All boxes, in the order they were written.
    pub fn iter(&self) -> impl Iterator<Item = ArrayBox<'_>> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// Numbers of boxes that may touch `selection`, in the order they were written.
    pub fn touching(&self, selection: &Selection) -> Vec<usize> {
        let along = |number: usize, axis: usize| {
            let at = number * self.ndim + axis;
            self.starts[at]..self.starts[at].saturating_add(self.counts[at])
        };
        // Made outside the lock: a child that was forked while a thread of its parent makes the tree would wait for ever.
        if self.tree.get().is_none() {
            let _ = self.tree.set(IntervalTree::of(self.len(), self.ndim, along));
        }
        let found = self.tree.get().and_then(Option::as_ref).and_then(|tree| tree.touching(selection));
        found.unwrap_or_else(|| (0..self.len()).collect())
    }

    /// What `selection` has of box `number`.
    pub fn overlap(&self, number: usize, selection: &Selection) -> Option<Overlap> {
        let ArrayBox { start, count, .. } = self.get(number);
        let mut in_chunk = Vec::with_capacity(self.ndim);
        let mut in_selection = Vec::with_capacity(self.ndim);
        for ((start, count), span) in start.iter().zip(count).zip(selection.spans()) {
            let places_before = |index: u64| index.saturating_sub(span.start).div_ceil(span.step);
            let first = places_before(*start);
            let after = places_before(start.saturating_add(*count)).min(span.count);
            if first >= after {
                return None;
            }
            let at = span.start + first * span.step - start;
            in_chunk.push(Span { start: at, count: after - first, step: span.step });
            in_selection.push(first);
        }
        Some(Overlap { chunk: number as u64, in_chunk: Selection::new(in_chunk), in_selection })
    }

    /// Bytes that all boxes take in their sources.
    pub fn stored_len(&self) -> u64 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.len()))
    }

    /// Elements of the largest box.
    pub fn largest(&self) -> u64 {
        let largest = || self.iter().map(|one| product(one.count)).max().unwrap_or(0);
        self.largest.get().copied().unwrap_or_else(|| {
            let largest = largest();
            let _ = self.largest.set(largest);
            largest
        })
    }

    /// True when the columns are equally long and point only into `source_count` sources.
    pub fn is_sound(&self, source_count: usize) -> bool {
        let axes = self.len().checked_mul(self.ndim);
        Some(self.starts.len()) == axes
            && Some(self.counts.len()) == axes
            && self.ranges.len() == self.len()
            && self.ranges.iter().all(|range| range.start <= range.end)
            && self.sources.iter().all(|source| (source.0 as usize) < source_count)
    }

    /// True when every box lies within an array of `shape`.
    pub fn fits(&self, shape: &[u64]) -> bool {
        let is_inside = |one: ArrayBox<'_>| {
            let axes = one.start.iter().zip(one.count).zip(shape);
            axes.into_iter()
                .all(|((start, count), len)| start.checked_add(*count).is_some_and(|end| end <= *len))
        };
        self.ndim == shape.len() && self.iter().all(is_inside)
    }
}

impl PartialEq for Boxes {
    fn eq(&self, other: &Self) -> bool {
        (self.ndim, &self.starts, &self.counts, &self.sources, &self.ranges)
            == (other.ndim, &other.starts, &other.counts, &other.sources, &other.ranges)
    }
}

impl Eq for Boxes {}

impl fmt::Debug for Boxes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A box of `len` rows from `start` on, of four columns from `column` on.
    fn rows(boxes: &mut Boxes, start: u64, len: u64, column: u64) {
        boxes.push(&[start, column], &[len, 4], SourceIndex(0), ByteRange::at(100 * start, 4 * len));
    }

    #[test]
    fn a_selection_finds_the_boxes_it_touches_and_what_it_has_of_them() {
        let mut boxes = Boxes::new(2);
        (0..1000).for_each(|number| rows(&mut boxes, 3 * number, 3, 0));
        let selection = Selection::new(vec![Span { start: 4, count: 3, step: 2 }, Span::range(1..3)]);
        let touched = boxes.touching(&selection);
        assert_eq!(touched, [1, 2]);
        let overlap = boxes.overlap(1, &selection).unwrap();
        assert_eq!(overlap.in_chunk.spans(), [Span { start: 1, count: 1, step: 2 }, Span::range(1..3)]);
        assert_eq!(overlap.in_selection, [0, 0]);
        let overlap = boxes.overlap(2, &selection).unwrap();
        assert_eq!(overlap.in_chunk.spans()[0], Span { start: 0, count: 2, step: 2 });
        assert_eq!(overlap.in_selection, [1, 0]);
        assert_eq!(boxes.overlap(3, &selection), None);
    }

    #[test]
    fn boxes_take_a_few_numbers_each() {
        let mut boxes = Boxes::new(3);
        let block = |number: u64| [number, 0, number % 7];
        (0..100_000).for_each(|number| {
            boxes.push(&block(number), &[1, 5, 2], SourceIndex(0), ByteRange::at(number, 80));
        });
        let columns = boxes.starts.len() * 8
            + boxes.counts.len() * 8
            + boxes.sources.len() * 4
            + boxes.ranges.len() * 16;
        assert_eq!(columns, 100_000 * (3 * 8 + 3 * 8 + 4 + 16));
        assert_eq!((boxes.len(), boxes.largest(), boxes.stored_len()), (100_000, 10, 8_000_000));
        assert!(boxes.is_sound(1) && !boxes.is_sound(0) && boxes.fits(&[100_000, 5, 8]));
        assert!(!boxes.fits(&[99_999, 5, 8]) && !boxes.fits(&[100_000, 5]));
    }

    #[test]
    fn columns_of_different_lengths_are_not_sound() {
        let mut boxes = Boxes::new(2);
        rows(&mut boxes, 0, 3, 0);
        boxes.counts.pop();
        assert!(!boxes.is_sound(1));
    }
}
