//! Boxes of an array, each stored in one piece: as chunks where they form a grid, else as they are.
//!
//! ```text
//! boxes ─► joined where they touch in the array and in the file
//!       ─► a grid of equal boxes ─► chunks
//!       ─► slices of unequal thickness along one axis ─► chunks as thick as their common divisor
//!       ─► anything else ─► columns of boxes
//! ```

use std::cmp::Ordering;

use forebay_process::{Error, Result};
use forebay_source::ByteRange;

use crate::{
    Filter,
    container::variable::Variable,
    extents::{
        Extents,
        boxes::Boxes,
        chunk_table::{ChunkTable, Extent},
        source_index::SourceIndex,
    },
    grid::{Grid, shape::product},
};

/// Chunks per box that slices may be cut into, at most, for the sake of a grid.
const MOST_CUTS: u64 = 64;
/// As many chunks are never too many.
const FEW_CHUNKS: u64 = 4096;

/// Part of an array that lies in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Its corner.
    pub start: Vec<u64>,
    /// Its shape.
    pub count: Vec<u64>,
    /// Where it lies.
    pub source: SourceIndex,
    /// Which bytes.
    pub range: ByteRange,
}

/// Gives `variable`, whose shape and type are set, the values in `boxes`; `filters` were applied to each box as a whole.
pub fn lay_out_boxes(variable: &mut Variable, mut boxes: Vec<PlacedBlock>, filters: &[Filter]) -> Result<()> {
    let shape = variable.grid.shape.clone();
    let element_len = variable.dtype.stored_len() as u64;
    boxes.retain(|boxed| !boxed.count.contains(&0));
    for boxed in &boxes {
        check(boxed, &shape)?;
    }
    variable.filters = filters.to_vec();
    variable.layout = "chunked".into();
    if boxes.is_empty() {
        return Ok(());
    }
    let in_order = boxes.clone();
    if filters.is_empty() {
        boxes = join(boxes, &shape);
    }
    let chunked = grid_of(&boxes, &shape, filters.is_empty())
        .or_else(|| slices(&boxes, &shape, element_len).filter(|_| filters.is_empty()));
    if let Some((chunk, pairs)) = chunked {
        if chunk == shape && filters.is_empty() {
            variable.layout = "contiguous".into();
        }
        variable.grid = Grid { shape, chunk };
        variable.extents = Extents::Chunks(ChunkTable::new(pairs, variable.grid.chunk_count())?);
        return Ok(());
    }
    // Boxes may overlap here: then the order in which they were written decides.
    variable.layout = "blocks".into();
    let mut columns = Boxes::new(shape.len());
    for PlacedBlock { start, count, source, range } in in_order {
        columns.push(&start, &count, source, range);
    }
    variable.extents = Extents::Boxes(columns);
    Ok(())
}

fn extent(source: SourceIndex, range: ByteRange) -> Extent {
    Extent { source, range, skipped: 0 }
}

fn check(boxed: &PlacedBlock, shape: &[u64]) -> Result<()> {
    let is_inside = |((start, count), len): ((&u64, &u64), &u64)| {
        start.checked_add(*count).is_some_and(|end| end <= *len)
    };
    let same_ndim = boxed.start.len() == shape.len() && boxed.count.len() == shape.len();
    if same_ndim && boxed.start.iter().zip(&boxed.count).zip(shape).all(is_inside) {
        return Ok(());
    }
    let what = format!(
        "a block of shape {:?} at {:?} lies outside the array's shape {shape:?}",
        boxed.count, boxed.start
    );
    Err(Error::corrupt(what))
}

/// Joins boxes that follow each other both in the array and in the file.
fn join(mut boxes: Vec<PlacedBlock>, shape: &[u64]) -> Vec<PlacedBlock> {
    boxes.sort_by(|one, other| one.start.cmp(&other.start));
    for axis in (0..shape.len()).rev() {
        let mut joined: Vec<PlacedBlock> = Vec::with_capacity(boxes.len());
        for boxed in boxes {
            match joined.last_mut() {
                Some(last) if follows(last, &boxed, axis, shape) => {
                    last.count[axis] += boxed.count[axis];
                    last.range.end = boxed.range.end;
                }
                _ => joined.push(boxed),
            }
        }
        boxes = joined;
    }
    boxes
}

/// True when `next` continues `last` along `axis` and in the file.
fn follows(last: &PlacedBlock, next: &PlacedBlock, axis: usize, shape: &[u64]) -> bool {
    let touches = (0..shape.len()).all(|index| match index.cmp(&axis) {
        Ordering::Less => {
            last.start[index] == next.start[index] && last.count[index] == 1 && next.count[index] == 1
        }
        Ordering::Equal => last.start[index] + last.count[index] == next.start[index],
        Ordering::Greater => last.count[index] == shape[index] && next.count[index] == shape[index],
    });
    touches && last.source == next.source && last.range.end == next.range.start
}

type Chunked = (Vec<u64>, Vec<(u64, Extent)>);

/// The grid whose chunks are `boxes`; what an array leaves of its last chunks along the first axis may be shorter.
fn grid_of(boxes: &[PlacedBlock], shape: &[u64], is_plain: bool) -> Option<Chunked> {
    let chunk = boxes.iter().find(|boxed| boxed.start.iter().all(|start| *start == 0))?.count.clone();
    let grid = Grid { shape: shape.to_vec(), chunk: chunk.clone() };
    let mut pairs = Vec::with_capacity(boxes.len());
    for boxed in boxes {
        for axis in 0..shape.len() {
            let left = shape[axis] - boxed.start[axis];
            // The bytes of a chunk that is cut along its first axis are the first bytes of a whole one.
            let fits = boxed.count[axis] == chunk[axis]
                || (axis == 0 && is_plain && boxed.count[0] == left && left < chunk[0]);
            if !fits || boxed.start[axis] % chunk[axis] != 0 {
                return None;
            }
        }
        let at: Vec<u64> = boxed.start.iter().zip(&chunk).map(|(start, len)| start / len).collect();
        pairs.push((grid.chunk_number(&at)?, extent(boxed.source, boxed.range)));
    }
    is_each_once(&mut pairs).then_some((chunk, pairs))
}

fn is_each_once(pairs: &mut [(u64, Extent)]) -> bool {
    pairs.sort_unstable_by_key(|pair| pair.0);
    pairs.windows(2).all(|two| two[0].0 != two[1].0)
}

/// The grid that cuts boxes which are slices of the array along one axis into equal pieces.
fn slices(boxes: &[PlacedBlock], shape: &[u64], element_len: u64) -> Option<Chunked> {
    let is_full = |axis: usize| boxes.iter().all(|boxed| boxed.count[axis] == shape[axis]);
    let axis = (0..shape.len()).rev().find(|axis| !is_full(*axis))?;
    if boxes.iter().any(|boxed| boxed.count[..axis].iter().any(|count| *count != 1)) {
        return None;
    }
    let thickness = boxes
        .iter()
        .fold(0, |all, boxed| greatest_divisor(greatest_divisor(all, boxed.start[axis]), boxed.count[axis]));
    let thickness = greatest_divisor(thickness, shape[axis]);
    let mut chunk = vec![1; axis];
    chunk.push(thickness);
    chunk.extend_from_slice(&shape[axis + 1..]);
    let cuts: u64 = boxes.iter().fold(0, |sum, boxed| sum.saturating_add(boxed.count[axis] / thickness));
    if cuts > FEW_CHUNKS.max((boxes.len() as u64).saturating_mul(MOST_CUTS)) {
        return None;
    }
    let grid = Grid { shape: shape.to_vec(), chunk: chunk.clone() };
    let chunk_len = product(&chunk).checked_mul(element_len)?;
    let mut pairs = Vec::new();
    for boxed in boxes {
        let mut at: Vec<u64> = boxed.start.iter().zip(&chunk).map(|(start, len)| start / len).collect();
        for cut in 0..boxed.count[axis] / thickness {
            let range = ByteRange::at(boxed.range.start + cut * chunk_len, chunk_len);
            pairs.push((grid.chunk_number(&at)?, extent(boxed.source, range)));
            at[axis] += 1;
        }
    }
    is_each_once(&mut pairs).then_some((chunk, pairs))
}

fn greatest_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Number, dtype::Dtype};

    fn boxed(start: &[u64], count: &[u64], at: u64) -> PlacedBlock {
        let range = ByteRange::at(at, product(count));
        PlacedBlock { start: start.to_vec(), count: count.to_vec(), source: SourceIndex(0), range }
    }

    fn laid(shape: &[u64], boxes: Vec<PlacedBlock>) -> Variable {
        let mut variable = Variable::new("v", Dtype::native(Number::U8), shape.to_vec());
        lay_out_boxes(&mut variable, boxes, &[]).unwrap();
        variable
    }

    fn places(variable: &Variable) -> Vec<(u64, u64, u64)> {
        let Extents::Chunks(table) = &variable.extents else { panic!("not chunks") };
        table.iter().map(|(number, extent)| (number, extent.range.start, extent.range.len())).collect()
    }

    #[test]
    fn slices_of_equal_thickness_are_chunks_and_the_last_may_be_thinner() {
        let variable = laid(
            &[5, 3],
            vec![boxed(&[2, 0], &[2, 3], 100), boxed(&[0, 0], &[2, 3], 0), boxed(&[4, 0], &[1, 3], 50)],
        );
        assert_eq!(variable.grid.chunk, [2, 3]);
        assert_eq!(places(&variable), [(0, 0, 6), (1, 100, 6), (2, 50, 3)]);
    }

    #[test]
    fn blocks_that_follow_each_other_in_the_file_are_one_chunk() {
        let boxes = vec![
            boxed(&[0, 0, 0], &[1, 2, 3], 0),
            boxed(&[0, 2, 0], &[1, 1, 3], 6),
            boxed(&[1, 0, 0], &[1, 3, 3], 20),
        ];
        let variable = laid(&[2, 3, 3], boxes);
        assert_eq!(variable.grid.chunk, [1, 3, 3]);
        assert_eq!(places(&variable), [(0, 0, 9), (1, 20, 9)]);
    }

    #[test]
    fn slices_of_unequal_thickness_are_cut_by_their_common_divisor() {
        let variable = laid(&[10, 1], vec![boxed(&[0, 0], &[4, 1], 0), boxed(&[4, 0], &[6, 1], 100)]);
        assert_eq!(variable.grid.chunk, [2, 1]);
        assert_eq!(places(&variable), [(0, 0, 2), (1, 2, 2), (2, 100, 2), (3, 102, 2), (4, 104, 2)]);
    }

    #[test]
    fn a_grid_in_two_axes_is_chunks_and_what_is_no_grid_is_boxes() {
        let four = |last: &[u64]| {
            let starts = [(0, [0, 0]), (10, [0, 2]), (20, [2, 0])];
            let mut boxes: Vec<_> = starts.iter().map(|(at, start)| boxed(start, &[2, 2], *at)).collect();
            boxes.push(boxed(&[2, 2], last, 30));
            boxes
        };
        assert_eq!(places(&laid(&[4, 4], four(&[2, 2]))), [(0, 0, 4), (1, 10, 4), (2, 20, 4), (3, 30, 4)]);
        let variable = laid(&[4, 4], four(&[2, 1]));
        let Extents::Boxes(boxes) = &variable.extents else { panic!("not boxes") };
        let starts: Vec<_> = boxes.iter().map(|one| one.extent.range.start).collect();
        assert_eq!(starts, [0, 10, 20, 30]);
        assert!(variable.extents_fit_shape());
    }

    #[test]
    fn a_block_outside_its_array_is_corrupt() {
        for outside in [boxed(&[3, 0], &[2, 4], 0), boxed(&[u64::MAX, 0], &[2, 4], 0), boxed(&[0], &[2], 0)] {
            let mut variable = Variable::new("v", Dtype::native(Number::U8), vec![4, 4]);
            assert!(lay_out_boxes(&mut variable, vec![outside], &[]).is_err());
        }
    }
}
