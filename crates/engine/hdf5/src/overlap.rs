//! How often virtual data sets (VDS) read an element: mappings that overlap, one level under the other, multiply.

use forebay_container::{Extents, HyperslabAxis, Mapping, Variable};

/// One element may be read this often: true files read it once, or twice where patches lie over a background.
pub(crate) const MOST_READS: u64 = 64;
/// Mappings that are compared two by two, at most: 0.1 s. A mosaic of 256 by 256 tiles is below it.
const MOST_PAIRS: u64 = 1 << 24;

/// How many reads of plain values one element of `part` may take, where one of part `n` takes `part_reads[n]`.
pub(crate) fn reads_of(part: &Variable, part_reads: &[u64]) -> u64 {
    match &part.extents {
        Extents::Mapped(mappings) => reads_per_element(mappings, part_reads),
        _ => 1,
    }
}

/// The same for an element of what `mappings` make up; any number above [`MOST_READS`] where there are more than that.
///
/// Never less than it takes, and no more where mappings are boxes or have equal strides.
pub(crate) fn reads_per_element(mappings: &[Mapping], part_reads: &[u64]) -> u64 {
    let weigh = |mapping: &Mapping| part_reads.get(mapping.part).copied().unwrap_or(1);
    let weighed: Vec<(u64, &[HyperslabAxis])> =
        mappings.iter().map(|one| (weigh(one), &one.to[..])).collect();
    let most_of_one = weighed.iter().map(|(weight, _)| *weight).max().unwrap_or(1);
    let all = weighed.iter().fold(0u64, |sum, (weight, _)| sum.saturating_add(*weight));
    let ndim = mappings.first().map_or(0, |mapping| mapping.to.len());
    let lines = (0..ndim).map(|axis| MappingLine::along(axis, &weighed));
    let Some(best) = lines.min_by_key(|line| line.pairs) else { return all.max(1) };
    if best.pairs == 0 {
        return most_of_one;
    }
    if best.pairs <= MOST_PAIRS {
        return best.deepest(&weighed);
    }
    // Too many to compare. Where no part is virtual, reads do not multiply: they grow with the file alone.
    if most_of_one > 1 { best.depth } else { best.depth.min(MOST_READS) }
}

/// Mappings by where they begin along one axis.
struct MappingLine {
    axis: usize,
    /// Positions of mappings that are not empty.
    order: Vec<usize>,
    /// Pairs that have an index of this axis in common.
    pairs: u64,
    /// The most reads that have an index of this axis in common.
    depth: u64,
}

impl MappingLine {
    fn along(axis: usize, mappings: &[(u64, &[HyperslabAxis])]) -> Self {
        let at = |index: &usize| mappings[*index].1[axis];
        let mut order: Vec<usize> = (0..mappings.len()).filter(|index| !at(index).is_empty()).collect();
        order.sort_by_key(|index| at(index).start);
        let mut ends: Vec<(u64, u64)> =
            order.iter().map(|index| (end(at(index)), mappings[*index].0)).collect();
        ends.sort_unstable();
        let (mut pairs, mut depth, mut open, mut reads, mut ended) = (0u64, 0u64, 0u64, 0u64, 0);
        for index in &order {
            while let Some((end, weight)) = ends.get(ended)
                && *end <= at(index).start
            {
                (open, reads, ended) = (open - 1, reads.saturating_sub(*weight), ended + 1);
            }
            pairs = pairs.saturating_add(open);
            (open, reads) = (open + 1, reads.saturating_add(mappings[*index].0));
            depth = depth.max(reads);
        }
        Self { axis, order, pairs, depth }
    }

    /// The most reads that have an element in common: of those over an element, the last to begin overlaps all others.
    fn deepest(&self, mappings: &[(u64, &[HyperslabAxis])]) -> u64 {
        let mut open: Vec<usize> = Vec::new();
        let mut deepest = 1;
        for index in &self.order {
            let (weight, own) = mappings[*index];
            open.retain(|other| end(mappings[*other].1[self.axis]) > own[self.axis].start);
            let over = open.iter().map(|other| mappings[*other]).filter(|(_, other)| overlap(own, other));
            deepest = deepest.max(over.fold(weight, |sum, (weight, _)| sum.saturating_add(weight)));
            if deepest > MOST_READS {
                break;
            }
            open.push(*index);
        }
        deepest
    }
}

fn end(blocks: HyperslabAxis) -> u64 {
    blocks.end().unwrap_or(u64::MAX)
}

fn overlap(left: &[HyperslabAxis], right: &[HyperslabAxis]) -> bool {
    left.iter().zip(right).all(|(left, right)| meet(*left, *right))
}

/// True when two runs of blocks may have an index in common; false only when they have none.
fn meet(left: HyperslabAxis, right: HyperslabAxis) -> bool {
    if left.is_empty() || right.is_empty() || left.start >= end(right) || right.start >= end(left) {
        return false;
    }
    // A single block has any stride.
    let stride = match (left.count, right.count) {
        (1, 1) => return true,
        (1, _) => right.stride,
        (_, 1) => left.stride,
        _ if left.stride == right.stride => left.stride,
        _ => return true,
    };
    let (left_at, right_at) = (left.start % stride, right.start % stride);
    let ahead = if right_at >= left_at { right_at - left_at } else { stride - (left_at - right_at) };
    ahead < left.block || stride - ahead < right.block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(start: u64, stride: u64, count: u64, block: u64) -> HyperslabAxis {
        HyperslabAxis { start, stride, count, block }
    }

    fn reads(tos: &[Vec<HyperslabAxis>], of_part: u64) -> u64 {
        let mapping = |to: &Vec<HyperslabAxis>| Mapping::new(0, to.clone(), to.clone()).unwrap();
        reads_per_element(&tos.iter().map(mapping).collect::<Vec<_>>(), &[of_part])
    }

    fn tile(row: u64, column: u64) -> Vec<HyperslabAxis> {
        vec![blocks(10 * row, 10, 1, 10), blocks(10 * column, 10, 1, 10)]
    }

    #[test]
    fn tiles_side_by_side_are_read_once_and_patches_over_a_background_twice() {
        let mut tiles: Vec<_> = (0..400).map(|number| tile(number / 20, number % 20)).collect();
        assert_eq!((reads(&tiles, 1), reads(&tiles, 7)), (1, 7));
        tiles.insert(0, vec![blocks(0, 200, 1, 200); 2]);
        assert_eq!(reads(&tiles, 1), 2);
    }

    #[test]
    fn every_fourth_row_of_four_sources_is_read_once() {
        let tos: Vec<_> = (0..4).map(|first| vec![blocks(first, 4, 25, 1)]).collect();
        assert_eq!(reads(&tos, 1), 1);
    }

    #[test]
    fn mappings_over_each_other_add_up() {
        assert_eq!(reads(&vec![vec![blocks(0, 10, 1, 10)]; 50], 1), 50);
        assert!(reads(&vec![vec![blocks(0, 10, 1, 10)]; 50], 50) > MOST_READS);
        assert_eq!(reads(&[vec![], vec![], vec![]], 2), 6, "of a scalar");
        assert_eq!(reads(&[], 2), 1, "of nothing");
    }

    #[test]
    fn blocks_that_may_meet_are_known() {
        assert!(!meet(blocks(0, 4, 3, 2), blocks(2, 4, 3, 2)));
        assert!(meet(blocks(0, 4, 3, 3), blocks(2, 4, 3, 2)));
        assert!(meet(blocks(2, 4, 3, 3), blocks(0, 4, 3, 2)), "3 before a block and 2 behind it");
        assert!(!meet(blocks(3, 1, 1, 1), blocks(0, 4, 3, 3)));
        assert!(meet(blocks(3, 2, 1, 2), blocks(0, 4, 3, 3)));
    }
}
