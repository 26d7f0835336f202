//! One array, put together from the blocks of a step or of all steps.

use forebay_process::{Error, Result};

use super::series::{BlockPlace, BpBlock, Form, VariableStep};
use forebay_container::shape::product;

/// A block in its place.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) start: Vec<u64>,
    pub(super) count: Vec<u64>,
    pub(super) place: BlockPlace,
}

/// An array and the blocks it is made of.
#[derive(Clone, Debug)]
pub(super) struct BlockArray {
    pub(super) shape: Vec<u64>,
    /// What its axes are called; empty for one without a name.
    pub(super) dimensions: Vec<&'static str>,
    pub(super) pieces: Vec<Piece>,
    /// Where each block begins and the last one ends, for blocks of different shapes that are laid end to end.
    pub(super) offsets: Option<Vec<u64>>,
}

impl BlockArray {
    /// The array of step `number`.
    pub(super) fn of((number, step): (u64, VariableStep)) -> Result<Self> {
        let VariableStep { form, blocks } = step;
        let array = match form {
            Form::Value => Ok(value(blocks)),
            Form::Values => Ok(side_by_side(blocks, &[])),
            Form::Global(shape) => Ok(global(blocks, shape)),
            Form::Local => local(blocks),
            Form::Joined(axis) => joined(blocks, axis),
        };
        array.map_err(|error| error.at(format!("step {number}")))
    }

    /// The arrays of all steps, one behind the other; `None` where they are not of the same shape.
    pub(super) fn stack(steps: &[Self]) -> Option<Self> {
        let first = steps.first()?;
        let same = |array: &Self| {
            array.shape == first.shape && array.dimensions == first.dimensions && array.offsets.is_none()
        };
        if !steps.iter().all(same) {
            return None;
        }
        let mut pieces = Vec::with_capacity(steps.iter().map(|array| array.pieces.len()).sum());
        for (number, array) in (0..).zip(steps) {
            pieces.extend(array.pieces.iter().map(|piece| Piece {
                start: behind(number, &piece.start),
                count: behind(1, &piece.count),
                place: piece.place.clone(),
            }));
        }
        let mut dimensions = vec!["step"];
        dimensions.extend(&first.dimensions);
        Some(Self { shape: behind(steps.len() as u64, &first.shape), dimensions, pieces, offsets: None })
    }
}

/// `rest` with `first` before it.
fn behind(first: u64, rest: &[u64]) -> Vec<u64> {
    let mut all = Vec::with_capacity(rest.len() + 1);
    all.push(first);
    all.extend_from_slice(rest);
    all
}

fn unnamed(ndim: usize) -> Vec<&'static str> {
    vec![""; ndim]
}

/// All writers put the same value: the first will do.
fn value(blocks: Vec<BpBlock>) -> BlockArray {
    let first = blocks.into_iter().next();
    let pieces = first.map(|block| Piece { start: vec![], count: vec![], place: block.place });
    BlockArray { shape: vec![], dimensions: vec![], pieces: pieces.into_iter().collect(), offsets: None }
}

fn global(blocks: Vec<BpBlock>, shape: Vec<u64>) -> BlockArray {
    let pieces = blocks.into_iter().map(|BpBlock { start, count, place }| Piece { start, count, place });
    BlockArray { dimensions: unnamed(shape.len()), shape, pieces: pieces.collect(), offsets: None }
}

/// Blocks of the shape `count` each, along a new first axis.
fn side_by_side(blocks: Vec<BpBlock>, count: &[u64]) -> BlockArray {
    let mut dimensions = vec!["block"];
    dimensions.extend(unnamed(count.len()));
    let shape = behind(blocks.len() as u64, count);
    let pieces = (0..).zip(blocks).map(|(number, block)| Piece {
        start: behind(number, &vec![0; count.len()]),
        count: behind(1, count),
        place: block.place,
    });
    BlockArray { shape, dimensions, pieces: pieces.collect(), offsets: None }
}

/// Arrays of their own: side by side where they have the same shape, else end to end.
fn local(blocks: Vec<BpBlock>) -> Result<BlockArray> {
    let count = blocks.first().map(|block| block.count.clone()).unwrap_or_default();
    if blocks.iter().all(|block| block.count == count) {
        return Ok(side_by_side(blocks, &count));
    }
    let mut offsets = vec![0];
    let mut pieces = Vec::with_capacity(blocks.len());
    let mut end = 0u64;
    for block in blocks {
        let len = product(&block.count);
        pieces.push(Piece { start: vec![end], count: vec![len], place: block.place });
        end = end.checked_add(len).ok_or_else(|| Error::corrupt("more elements than can be counted"))?;
        offsets.push(end);
    }
    Ok(BlockArray { shape: vec![end], dimensions: unnamed(1), pieces, offsets: Some(offsets) })
}

/// Parts that follow each other along `axis`, in the order they were written.
fn joined(blocks: Vec<BpBlock>, axis: usize) -> Result<BlockArray> {
    let first = blocks.first().map(|block| block.count.clone()).unwrap_or_default();
    let mut shape = first.clone();
    let mut pieces = Vec::with_capacity(blocks.len());
    let mut end = 0u64;
    for BpBlock { count, place, .. } in blocks {
        let others = |count: &[u64]| {
            let mut others = count.to_vec();
            (axis < others.len()).then(|| others.remove(axis))?;
            Some(others)
        };
        if others(&count).is_none() || others(&count) != others(&first) {
            return Err(Error::corrupt(format!(
                "blocks of shapes {first:?} and {count:?} are joined along axis {axis}"
            )));
        }
        let mut start = vec![0; count.len()];
        start[axis] = end;
        end = end
            .checked_add(count[axis])
            .ok_or_else(|| Error::corrupt("more elements than can be counted"))?;
        pieces.push(Piece { start, count, place });
    }
    if let Some(len) = shape.get_mut(axis) {
        *len = end;
    }
    Ok(BlockArray { dimensions: unnamed(shape.len()), shape, pieces, offsets: None })
}
