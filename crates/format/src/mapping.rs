//! Parts of one variable that stand for parts of another.

use serde::{Deserialize, Serialize};

use crate::{Selection, Span};

/// Blocks of equal length at equal distances along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// First index of the first block.
    pub start: u64,
    /// From one block's start to the next's.
    pub stride: u64,
    /// How many blocks.
    pub count: u64,
    /// Indexes per block.
    pub block: u64,
}

impl Blocks {
    /// Indexes in all blocks together, if that many can be counted.
    pub fn len(self) -> Option<u64> {
        self.count.checked_mul(self.block)
    }

    /// True when there is no index in it.
    pub fn is_empty(self) -> bool {
        self.count == 0 || self.block == 0
    }

    /// One past the last index, if that can be counted.
    pub fn end(self) -> Option<u64> {
        if self.is_empty() {
            return Some(self.start);
        }
        (self.count - 1).checked_mul(self.stride)?.checked_add(self.start)?.checked_add(self.block)
    }

    /// How many of its indexes come before `index`, if `index` is one of them.
    fn rank(self, index: u64) -> Option<u64> {
        let past = index.checked_sub(self.start)?;
        let (number, within) = (past / self.stride, past % self.stride);
        (number < self.count && within < self.block).then(|| number * self.block + within)
    }

    /// The index that has `rank` others before it.
    fn index(self, rank: u64) -> u64 {
        self.start + rank / self.block * self.stride + rank % self.block
    }

    /// True when blocks neither overlap nor overflow.
    pub fn is_sound(self) -> bool {
        self.block > 0 && self.stride >= self.block && self.end().is_some() && self.len().is_some()
    }
}

/// A part of a variable that stands for a part of another, element by element in C order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// Position of the variable read in [`Container::parts`](crate::Container::parts).
    pub part: usize,
    /// Which elements of it.
    pub from: Vec<Blocks>,
    /// Which elements they stand for.
    pub to: Vec<Blocks>,
}

/// A box of a mapping that a selection touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    /// What to read of the part.
    pub(crate) from: Selection,
    /// Where it goes, counted from the selection's corner; the box's axes are those of the selection.
    pub(crate) to_start: Vec<u64>,
    /// The shape it has there.
    pub(crate) shape: Vec<u64>,
}

/// A run along one axis: `count` places of the selection from `to`, and the indexes they stand for.
#[derive(Clone, Copy, Debug)]
struct AxisRun {
    to: u64,
    from: Span,
}

impl Mapping {
    /// True when both sides can be paired axis by axis: all that differs is axes of length one.
    pub fn is_regular(&self) -> bool {
        let lens = |axes: &[Blocks]| axes.iter().map(|axis| axis.len()).filter(|len| *len != Some(1)).collect::<Vec<_>>();
        lens(&self.from) == lens(&self.to)
    }

    pub(crate) fn is_sound(&self, part_count: usize) -> bool {
        self.part < part_count
            && self.from.iter().chain(&self.to).all(|axis| axis.is_sound())
            && self.is_regular()
    }

    /// The boxes of this mapping that `selection` touches, as far as the part of shape `part_shape` reaches.
    pub(crate) fn patches(&self, selection: &Selection, part_shape: &[u64]) -> Vec<Patch> {
        let from_axes = || self.from.iter().zip(part_shape);
        // A single index of the part that lies outside it: nothing is there.
        if from_axes().any(|(axis, len)| axis.start >= *len) {
            return Vec::new();
        }
        let mut paired = from_axes().filter(|(axis, _)| axis.len() != Some(1));
        let mut axes: Vec<Vec<AxisRun>> = Vec::with_capacity(self.to.len());
        for (to, span) in self.to.iter().zip(selection.spans()) {
            let one = Blocks { start: 0, stride: 1, count: 1, block: 1 };
            let (from, len) = if to.len() == Some(1) { (&one, &1) } else { paired.next().unwrap_or((&one, &1)) };
            let mut runs = axis_runs(*to, *from, *span);
            clip(&mut runs, *len);
            axes.push(runs);
        }
        let mut patches = Vec::new();
        let mut at = vec![0; axes.len()];
        if axes.iter().any(Vec::is_empty) {
            return patches;
        }
        loop {
            let runs: Vec<AxisRun> = axes.iter().zip(&at).map(|(axis, at)| axis[*at]).collect();
            patches.push(self.patch(&runs));
            let Some(axis) = (0..axes.len()).rev().find(|axis| at[*axis] + 1 < axes[*axis].len()) else { break };
            at[axis] += 1;
            at[axis + 1..].fill(0);
        }
        patches
    }

    fn patch(&self, runs: &[AxisRun]) -> Patch {
        let mut spans = self.to.iter().zip(runs).filter(|(to, _)| to.len() != Some(1)).map(|(_, run)| run.from);
        let from = self.from.iter().map(|axis| match axis.len() {
            Some(1) => Span { start: axis.start, count: 1, step: 1 },
            _ => spans.next().unwrap_or(Span { start: 0, count: 0, step: 1 }),
        });
        Patch {
            from: Selection::new(from.collect()),
            to_start: runs.iter().map(|run| run.to).collect(),
            shape: runs.iter().map(|run| run.from.count).collect(),
        }
    }
}

/// The places of `span` that lie in `to`, joined into runs whose `from` indexes are evenly spaced.
fn axis_runs(to: Blocks, from: Blocks, span: Span) -> Vec<AxisRun> {
    let mut runs: Vec<AxisRun> = Vec::new();
    let end = to.end().unwrap_or(0);
    let first = to.start.saturating_sub(span.start).div_ceil(span.step);
    let after = end.saturating_sub(span.start).div_ceil(span.step).min(span.count);
    for place in first..after {
        let Some(rank) = to.rank(span.start + place * span.step) else { continue };
        let index = from.index(rank);
        if let Some(run) = runs.last_mut()
            && run.to + run.from.count == place
        {
            let last = run.from.start + (run.from.count - 1) * run.from.step;
            let step = index.saturating_sub(last);
            if step > 0 && (run.from.count == 1 || step == run.from.step) {
                run.from.step = step;
                run.from.count += 1;
                continue;
            }
        }
        runs.push(AxisRun { to: place, from: Span { start: index, count: 1, step: 1 } });
    }
    runs
}

/// Drops what lies at or beyond index `len` of the part.
fn clip(runs: &mut Vec<AxisRun>, len: u64) {
    runs.retain_mut(|run| {
        let room = len.saturating_sub(run.from.start).div_ceil(run.from.step);
        run.from.count = run.from.count.min(room);
        run.from.count > 0
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(start: u64, stride: u64, count: u64, block: u64) -> Blocks {
        Blocks { start, stride, count, block }
    }

    #[test]
    fn a_row_of_a_plane_may_come_from_a_line() {
        let mapping =
            Mapping { part: 0, from: vec![blocks(5, 1, 4, 1)], to: vec![blocks(2, 1, 1, 1), blocks(0, 1, 4, 1)] };
        let patches = mapping.patches(&Selection::from_ranges(&[0..4, 1..3]), &[9]);
        assert_eq!(patches.len(), 1);
        assert_eq!(patches[0].from, Selection::from_ranges(&[6..8]));
        assert_eq!(patches[0].to_start, [2, 0]);
        assert_eq!(patches[0].shape, [1, 2]);
    }

    #[test]
    fn every_second_index_stays_one_run() {
        let mapping = Mapping { part: 0, from: vec![blocks(0, 1, 1, 5)], to: vec![blocks(1, 2, 5, 1)] };
        let patches = mapping.patches(&Selection::new(vec![Span { start: 1, count: 5, step: 2 }]), &[5]);
        assert_eq!(patches.len(), 1);
        assert_eq!(patches[0].from, Selection::from_ranges(&[0..5]));
        let whole = mapping.patches(&Selection::from_ranges(&[0..10]), &[5]);
        assert_eq!(whole.len(), 5, "places with gaps between them are patches of their own");
    }

    #[test]
    fn a_selection_beside_the_mapping_touches_nothing() {
        let mapping = Mapping { part: 0, from: vec![blocks(0, 1, 1, 5)], to: vec![blocks(10, 1, 1, 5)] };
        assert!(mapping.patches(&Selection::from_ranges(&[0..10]), &[5]).is_empty());
        assert!(mapping.patches(&Selection::from_ranges(&[15..20]), &[5]).is_empty());
    }
}
