//! Parts of one variable that stand for parts of another.

use serde::{Deserialize, Serialize};

use crate::grid::selection::{Selection, Span};

/// Blocks of equal length at equal distances along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HyperslabAxis {
    /// First index of the first block.
    pub start: u64,
    /// From one block's start to the next's.
    pub stride: u64,
    /// How many blocks.
    pub count: u64,
    /// Indexes per block.
    pub block: u64,
}

impl HyperslabAxis {
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

    /// True when all its indexes are neighbours.
    fn is_one_run(self) -> bool {
        self.count <= 1 || self.stride == self.block
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
    pub from: Vec<HyperslabAxis>,
    /// Which elements they stand for.
    pub to: Vec<HyperslabAxis>,
    /// For each axis of `to` the axis of `from` that runs along with it; axes that are in no pair have one index.
    pub pairs: Vec<Option<usize>>,
}

/// A box of a mapping that a selection touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// What to read of the part.
    pub from: Selection,
    /// Where it goes, counted from the selection's corner; the box's axes are those of the selection.
    pub to_start: Vec<u64>,
    /// The shape it has there.
    pub shape: Vec<u64>,
}

/// A run along one axis: `count` places of the selection from `to`, and the indexes they stand for.
#[derive(Clone, Copy, Debug)]
struct AxisRun {
    to: u64,
    from: Span,
}

impl Mapping {
    /// The mapping whose two sides run along axis by axis, where they can: all that differs is axes of length one.
    pub fn new(part: usize, from: Vec<HyperslabAxis>, to: Vec<HyperslabAxis>) -> Option<Self> {
        let long = |axes: &[HyperslabAxis]| -> Vec<usize> {
            (0..axes.len()).filter(|axis| axes[*axis].len() != Some(1)).collect()
        };
        let (from_long, to_long) = (long(&from), long(&to));
        let lens = |axes: &[HyperslabAxis], long: &[usize]| {
            long.iter().map(|axis| axes[*axis].len()).collect::<Vec<_>>()
        };
        if lens(&from, &from_long) != lens(&to, &to_long) {
            return None;
        }
        let mut pairs = vec![None; to.len()];
        for (from_axis, to_axis) in from_long.into_iter().zip(to_long) {
            pairs[to_axis] = Some(from_axis);
        }
        Some(Self { part, from, to, pairs })
    }

    /// True when it leads to one of `part_count` parts, and nothing in it outside them.
    pub fn is_sound(&self, part_count: usize) -> bool {
        self.part < part_count
            && self.from.iter().chain(&self.to).all(|axis| axis.is_sound())
            && self.pairs.len() == self.to.len()
            && self.pairs.iter().flatten().all(|axis| *axis < self.from.len())
    }

    /// The boxes of this mapping that `selection` touches, as far as the part of shape `part_shape` reaches.
    pub fn patches(&self, selection: &Selection, part_shape: &[u64]) -> Vec<Patch> {
        let one = HyperslabAxis { start: 0, stride: 1, count: 1, block: 1 };
        let mut axes: Vec<Vec<AxisRun>> = Vec::with_capacity(self.to.len());
        for ((to, pair), span) in self.to.iter().zip(&self.pairs).zip(selection.spans()) {
            let (from, len) = pair.map_or((one, 1), |axis| (self.from[axis], part_shape[axis]));
            let mut runs = axis_runs(*to, from, *span);
            clip(&mut runs, len);
            if runs.is_empty() {
                return Vec::new();
            }
            axes.push(runs);
        }
        // A single index of the part that lies outside it: nothing is there.
        let is_outside = self.from.iter().zip(part_shape).any(|(axis, len)| axis.start >= *len);
        let mut patches = Vec::new();
        if is_outside {
            return patches;
        }
        let mut at = vec![0; axes.len()];
        loop {
            let runs: Vec<AxisRun> = axes.iter().zip(&at).map(|(axis, at)| axis[*at]).collect();
            patches.push(self.patch(&runs));
            let Some(axis) = (0..axes.len()).rev().find(|axis| at[*axis] + 1 < axes[*axis].len()) else {
                break;
            };
            at[axis] += 1;
            at[axis + 1..].fill(0);
        }
        patches
    }

    fn patch(&self, runs: &[AxisRun]) -> Patch {
        let mut from: Vec<Span> =
            self.from.iter().map(|axis| Span { start: axis.start, count: 1, step: 1 }).collect();
        for (pair, run) in self.pairs.iter().zip(runs) {
            if let Some(axis) = pair {
                from[*axis] = run.from;
            }
        }
        Patch {
            from: Selection::new(from),
            to_start: runs.iter().map(|run| run.to).collect(),
            shape: runs.iter().map(|run| run.from.count).collect(),
        }
    }
}

/// The places of `span` that lie in `to`, joined into runs whose `from` indexes are evenly spaced.
fn axis_runs(to: HyperslabAxis, from: HyperslabAxis, span: Span) -> Vec<AxisRun> {
    let mut runs: Vec<AxisRun> = Vec::new();
    let end = to.end().unwrap_or(0);
    let first = to.start.saturating_sub(span.start).div_ceil(span.step);
    let after = end.saturating_sub(span.start).div_ceil(span.step).min(span.count);
    if to.is_one_run() && from.is_one_run() {
        let count = after.saturating_sub(first);
        let start = from.start + (span.start + first * span.step).saturating_sub(to.start);
        let step = if count == 1 { 1 } else { span.step };
        return (count > 0)
            .then_some(AxisRun { to: first, from: Span { start, count, step } })
            .into_iter()
            .collect();
    }
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

/// The most pieces that a mapping between boxes of different shape may be cut into.
const MOST_PIECES: u64 = 1 << 16;

/// Cuts a mapping between boxes of different shape into lines that are neighbours on both sides.
///
/// `None` when there are too many of them, or when one side has more elements than the other.
pub fn cut(part: usize, from: &[HyperslabAxis], to: &[HyperslabAxis]) -> Option<Vec<Mapping>> {
    let (from_lines, to_lines) = (lines(from)?, lines(to)?);
    let mut mappings = Vec::new();
    let (mut from_lines, mut to_lines) = (from_lines.into_iter(), to_lines.into_iter());
    let (mut from_line, mut to_line) = (from_lines.next(), to_lines.next());
    while let (Some(left), Some(right)) = (&mut from_line, &mut to_line) {
        let len = left.last()?.block.min(right.last()?.block);
        let head = |line: &[HyperslabAxis]| -> Vec<HyperslabAxis> {
            let mut line = line.to_vec();
            if let Some(last) = line.last_mut() {
                *last = HyperslabAxis { block: len, stride: len, ..*last };
            }
            line
        };
        mappings.push(Mapping::new(part, head(left), head(right))?);
        for (line, lines) in [(&mut from_line, &mut from_lines), (&mut to_line, &mut to_lines)] {
            if let Some(last) = line.as_mut().and_then(|line| line.last_mut()) {
                last.start += len;
                last.block -= len;
                if last.block == 0 {
                    *line = lines.next();
                }
            }
        }
    }
    (from_line.is_none() && to_line.is_none()).then_some(mappings)
}

/// The boxes of one line each that make up `axes`, in C order.
fn lines(axes: &[HyperslabAxis]) -> Option<Vec<Vec<HyperslabAxis>>> {
    let (last, outer) = axes.split_last()?;
    let total = outer.iter().try_fold(last.count, |total, axis| total.checked_mul(axis.len()?))?;
    if total > MOST_PIECES {
        return None;
    }
    let mut found: Vec<Vec<HyperslabAxis>> = vec![Vec::new()];
    for axis in outer {
        let indexes = (0..axis.len()?).map(|rank| HyperslabAxis {
            start: axis.index(rank),
            stride: 1,
            count: 1,
            block: 1,
        });
        let indexes: Vec<_> = indexes.collect();
        found = found
            .iter()
            .flat_map(|line| indexes.iter().map(|index| [line, &[*index][..]].concat()))
            .collect();
    }
    let blocks = (0..last.count).map(|number| HyperslabAxis {
        start: last.start + number * last.stride,
        stride: last.block,
        count: 1,
        block: last.block,
    });
    let blocks: Vec<_> = blocks.collect();
    Some(found.iter().flat_map(|line| blocks.iter().map(|block| [line, &[*block][..]].concat())).collect())
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

    fn line(range: std::ops::Range<u64>) -> Selection {
        Selection::new(vec![Span::range(range)])
    }

    fn blocks(start: u64, stride: u64, count: u64, block: u64) -> HyperslabAxis {
        HyperslabAxis { start, stride, count, block }
    }

    #[test]
    fn a_row_of_a_plane_may_come_from_a_line() {
        let mapping =
            Mapping::new(0, vec![blocks(5, 1, 4, 1)], vec![blocks(2, 1, 1, 1), blocks(0, 1, 4, 1)]).unwrap();
        let patches = mapping.patches(&Selection::from_ranges(&[0..4, 1..3]), &[9]);
        assert_eq!(patches.len(), 1);
        assert_eq!(patches[0].from, line(6..8));
        assert_eq!(patches[0].to_start, [2, 0]);
        assert_eq!(patches[0].shape, [1, 2]);
    }

    #[test]
    fn every_second_index_stays_one_run() {
        let mapping = Mapping::new(0, vec![blocks(0, 1, 1, 5)], vec![blocks(1, 2, 5, 1)]).unwrap();
        let patches = mapping.patches(&Selection::new(vec![Span { start: 1, count: 5, step: 2 }]), &[5]);
        assert_eq!(patches.len(), 1);
        assert_eq!(patches[0].from, line(0..5));
        let whole = mapping.patches(&line(0..10), &[5]);
        assert_eq!(whole.len(), 5, "places with gaps between them are patches of their own");
    }

    #[test]
    fn a_box_of_another_shape_is_cut_where_either_side_turns() {
        let from = [blocks(0, 3, 1, 3), blocks(0, 4, 1, 4)];
        let to = [blocks(0, 2, 1, 2), blocks(0, 6, 1, 6)];
        let mappings = cut(0, &from, &to).unwrap();
        let lens: Vec<_> = mappings.iter().map(|mapping| mapping.from[1].block).collect();
        assert_eq!(lens, [4, 2, 2, 4]);
        assert_eq!(cut(0, &from, &[blocks(0, 1, 1, 1), blocks(0, 6, 1, 6)]), None);
    }

    #[test]
    fn a_selection_beside_the_mapping_touches_nothing() {
        let mapping = Mapping::new(0, vec![blocks(0, 1, 1, 5)], vec![blocks(10, 1, 1, 5)]).unwrap();
        assert!(mapping.patches(&line(0..10), &[5]).is_empty());
        assert!(mapping.patches(&line(15..20), &[5]).is_empty());
    }
}
