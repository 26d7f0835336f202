//! Which chunks a selection touches, and where. Arithmetic only.
//!
//! | file | idea |
//! |---|---|
//! | `shape`, `selection`, `slabs`, `runs` | shapes, hyperslabs, and the runs of elements they are |
//! | `windows` | bytes of a source that lie near each other, read as one |

pub mod runs;
pub(crate) mod selection;
pub mod shape;
pub(crate) mod slabs;
pub mod windows;

use serde::{Deserialize, Serialize};

use crate::grid::{
    selection::{Selection, Span},
    shape::product,
};

/// The shape of an array and of its chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Elements per dimension.
    pub shape: Vec<u64>,
    /// Elements per dimension of one chunk, at least 1 each.
    pub chunk: Vec<u64>,
}

/// The part of a selection that lies in one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Position of the chunk in grid order.
    pub chunk: u64,
    /// The part, counted from the chunk's corner.
    pub in_chunk: Selection,
    /// Where the part starts, counted from the selection's corner.
    pub in_selection: Vec<u64>,
}

impl Grid {
    /// An array that is one chunk.
    pub fn whole(shape: Vec<u64>) -> Self {
        let chunk = shape.iter().map(|n| (*n).max(1)).collect();
        Self { shape, chunk }
    }

    /// Elements of the whole array, `u64::MAX` when there are more.
    pub fn element_count(&self) -> u64 {
        product(&self.shape)
    }

    /// Elements of one chunk.
    pub fn chunk_element_count(&self) -> u64 {
        product(&self.chunk)
    }

    /// Chunks per dimension.
    pub fn chunks(&self) -> Vec<u64> {
        self.shape.iter().zip(&self.chunk).map(|(n, c)| n.div_ceil(*c)).collect()
    }

    /// Chunks of the whole array, written or not.
    pub fn chunk_count(&self) -> u64 {
        product(&self.chunks())
    }

    /// Position in grid order of the chunk at `at`, given in chunks per dimension.
    pub fn chunk_number(&self, at: &[u64]) -> Option<u64> {
        let counts = self.chunks();
        at.iter().zip(&counts).try_fold(0u64, |number, (at, count)| {
            if at >= count { None } else { number.checked_mul(*count)?.checked_add(*at) }
        })
    }

    /// The chunk at position `number`, in chunks per dimension.
    pub fn chunk_at(&self, number: u64) -> Vec<u64> {
        let mut rest = number;
        let mut at: Vec<u64> = self
            .chunks()
            .iter()
            .rev()
            .map(|count| {
                let here = rest % (*count).max(1);
                rest /= (*count).max(1);
                here
            })
            .collect();
        at.reverse();
        at
    }

    /// True when the chunk at `at` reaches past the array's border.
    pub fn is_edge(&self, at: &[u64]) -> bool {
        at.iter().zip(&self.chunk).zip(&self.shape).any(|((at, len), n)| (at + 1).saturating_mul(*len) > *n)
    }

    /// The chunks that `selection` touches, in grid order.
    pub fn overlaps(&self, selection: &Selection) -> Overlaps {
        let is_empty = selection.element_count() == 0;
        let axes = selection
            .spans()
            .iter()
            .zip(&self.chunk)
            .map(|(span, len)| ChunkedSpan { span: *span, len: *len })
            .collect::<Vec<_>>();
        Overlaps { counts: self.chunks(), at: vec![0; axes.len()], axes, done: is_empty }
    }
}

/// One chunk's part of a span along one axis.
#[derive(Clone, Copy, Debug)]
struct ChunkPart {
    chunk: u64,
    in_chunk: Span,
    in_selection: u64,
}

/// A span cut at the borders of chunks `len` long; parts are worked out when they are asked for.
#[derive(Clone, Copy, Debug)]
struct ChunkedSpan {
    span: Span,
    len: u64,
}

impl ChunkedSpan {
    /// How many chunks hold some of a span that is not empty.
    fn part_count(self) -> u64 {
        let Span { start, count, step } = self.span;
        // Steps as long as a chunk or longer never meet one twice; shorter ones leave none out.
        if step >= self.len { count } else { (start + (count - 1) * step) / self.len - start / self.len + 1 }
    }

    fn part(self, number: u64) -> ChunkPart {
        let Span { start, count, step } = self.span;
        let (chunk, taken) = if step >= self.len {
            ((start + number * step) / self.len, number)
        } else {
            let chunk = start / self.len + number;
            (chunk, (chunk * self.len).saturating_sub(start).div_ceil(step))
        };
        let first = start + taken * step;
        let left_in_chunk = (self.len - first % self.len).div_ceil(step);
        let in_chunk = Span { start: first % self.len, count: left_in_chunk.min(count - taken), step };
        ChunkPart { chunk, in_chunk, in_selection: taken }
    }
}

/// An iterator over the chunks a selection touches.
#[derive(Debug)]
pub struct Overlaps {
    counts: Vec<u64>,
    axes: Vec<ChunkedSpan>,
    at: Vec<u64>,
    done: bool,
}

impl Iterator for Overlaps {
    type Item = Overlap;

    fn next(&mut self) -> Option<Overlap> {
        if self.done {
            return None;
        }
        let here: Vec<ChunkPart> = self.axes.iter().zip(&self.at).map(|(axis, at)| axis.part(*at)).collect();
        let chunk =
            here.iter().zip(&self.counts).fold(0, |number, (part, count)| number * count + part.chunk);
        self.done = true;
        for (at, axis) in self.at.iter_mut().zip(&self.axes).rev() {
            *at += 1;
            if *at < axis.part_count() {
                self.done = false;
                break;
            }
            *at = 0;
        }
        Some(Overlap {
            chunk,
            in_chunk: Selection::new(here.iter().map(|part| part.in_chunk).collect()),
            in_selection: here.iter().map(|part| part.in_selection).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_across_four_chunks_has_four_overlaps() {
        let grid = Grid { shape: vec![4, 6], chunk: vec![2, 3] };
        let overlaps: Vec<_> = grid.overlaps(&Selection::from_ranges(&[1..3, 2..4])).collect();
        let chunks: Vec<_> = overlaps.iter().map(|overlap| overlap.chunk).collect();
        assert_eq!(chunks, [0, 1, 2, 3]);
        assert_eq!(overlaps[3].in_chunk, Selection::from_ranges(&[0..1, 0..1]));
        assert_eq!(overlaps[3].in_selection, [1, 1]);
    }

    #[test]
    fn a_stepped_span_skips_chunks_that_hold_none_of_it() {
        let grid = Grid { shape: vec![20], chunk: vec![3] };
        let span = Span { start: 1, count: 3, step: 7 };
        let chunks: Vec<_> =
            grid.overlaps(&Selection::new(vec![span])).map(|overlap| overlap.chunk).collect();
        assert_eq!(chunks, [0, 2, 5]);
    }

    #[test]
    fn a_scalar_is_one_chunk_and_an_empty_array_none() {
        assert_eq!(Grid::whole(vec![]).overlaps(&Selection::new(vec![])).count(), 1);
        assert_eq!(Grid::whole(vec![0, 4]).overlaps(&Selection::from_ranges(&[0..0, 0..4])).count(), 0);
    }

    #[test]
    fn nothing_beside_a_vast_axis_is_nothing_at_once() {
        let grid = Grid { shape: vec![1 << 60, 0], chunk: vec![1, 1] };
        assert_eq!(grid.overlaps(&Selection::all(&grid.shape)).count(), 0);
    }

    #[test]
    fn chunk_numbers_and_places_are_each_others_inverse() {
        let grid = Grid { shape: vec![5, 7, 2], chunk: vec![2, 3, 1] };
        for number in 0..grid.chunk_count() {
            assert_eq!(grid.chunk_number(&grid.chunk_at(number)), Some(number));
        }
        assert_eq!(grid.chunk_number(&[3, 0, 0]), None);
    }
}
