//! How the elements of a sample are walked: the longest rows that lie together both in the source and in what comes out.

use crate::program::step::{AxisMove, ValueOp};

/// How elements are walked. Axes are those of the source.
#[derive(Debug)]
pub(crate) struct RowLayout {
    /// Lengths of the source.
    pub(crate) shape: Vec<usize>,
    /// Elements from one index to the next.
    pub(crate) strides: Vec<usize>,
    /// The first axis of a row; all before it are walked one by one.
    pub(crate) row_axis: usize,
    /// Elements that stay together for each index of the row.
    pub(crate) block: usize,
    /// True when the row axis itself is moved along; a row is otherwise one block.
    pub(crate) moves_row: bool,
}

/// Shorter rows than this are not worth one of their own for each channel.
const LEAST_ROW: usize = 32;

impl RowLayout {
    /// For a source of `shape`, moved along as `moves` say, computed with by `values`; rows begin at `least_row_axis` or later.
    pub(crate) fn new(
        shape: Vec<usize>,
        moves: &[AxisMove],
        values: &[ValueOp],
        least_row_axis: usize,
    ) -> Self {
        let after = |axis: usize| shape[axis..].iter().product::<usize>();
        let moved = moves.iter().map(|moved| moved.axis).max();
        let channels = values.iter().filter_map(|value| match value {
            ValueOp::Normalize { axis: Some(axis), .. } if after(axis + 1) >= LEAST_ROW => Some(axis + 1),
            _ => None,
        });
        let row_axis = channels.chain(moved).chain([least_row_axis]).max().unwrap_or(0);
        let moves_row = moved == Some(row_axis);
        let block = after(if moves_row { row_axis + 1 } else { row_axis });
        let strides = (0..shape.len()).map(|axis| after(axis + 1)).collect();
        Self { strides, row_axis, block, moves_row, shape }
    }

    /// How often numbers of channels along `axis`, which lies inside rows, come again.
    pub(crate) fn tile_len(&self, axis: usize, stretch: usize) -> usize {
        let period = self.shape[axis..].iter().product::<usize>().max(1);
        let unit = if self.moves_row { self.block } else { period };
        unit * (stretch / unit).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::step::MoveKind;

    fn flip(axis: usize) -> AxisMove {
        AxisMove { axis, from_end: 1, key: 0, kind: MoveKind::Flip { probability: 0.5 } }
    }

    fn channels(axis: usize) -> ValueOp {
        ValueOp::Normalize { mean: vec![0.0; 3], std: vec![1.0; 3], axis: Some(axis) }
    }

    #[test]
    fn what_is_not_moved_is_one_row() {
        let layout = RowLayout::new(vec![3, 8, 8], &[], &[], 0);
        assert_eq!((layout.row_axis, layout.block, layout.moves_row), (0, 192, false));
    }

    #[test]
    fn channels_that_come_first_have_rows_of_their_own() {
        let layout = RowLayout::new(vec![3, 8, 8], &[], &[channels(0)], 0);
        assert_eq!((layout.row_axis, layout.block), (1, 64));
    }

    #[test]
    fn channels_that_come_last_are_tiled() {
        let layout = RowLayout::new(vec![8, 8, 3], &[flip(1)], &[channels(2)], 0);
        assert_eq!((layout.row_axis, layout.block, layout.moves_row), (1, 3, true));
        assert_eq!(layout.tile_len(2, 1024) % 3, 0);
    }
}
