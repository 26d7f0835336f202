//! Blocks joined into one array.
//!
//! Blocks of one shape and type are stacked along a new first axis. Others are laid end to end, and a variable
//! `NAME@offsets` says where each of them starts.

use std::collections::HashMap;

use forebay_process::{Error, ErrorKind, Result};

use super::{fields::reshape, tree::single};
use forebay_container::{
    Boxes, ChunkTable, Dtype, Extent, Extents, Grid, HyperslabAxis, Mapping, Number, Segments, Variable,
};

/// Arrays that joined ones are mapped from.
pub(super) struct Parts {
    /// The parts, in the order of the container.
    pub(super) all: Vec<Variable>,
    /// Positions of blocks in `all`, by name and number of axes.
    numbers: HashMap<(String, usize), usize>,
}

impl Parts {
    /// Begins with what the file itself has.
    pub(super) fn new(all: Vec<Variable>) -> Self {
        Self { all, numbers: HashMap::new() }
    }

    /// The position of `part`, which is added when it is first asked for.
    fn part(&mut self, mut part: Variable) -> usize {
        let key = (part.name.clone(), part.grid.shape.len());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        part.attributes = Vec::new();
        self.all.push(part);
        self.numbers.insert(key, self.all.len() - 1);
        self.all.len() - 1
    }

    /// The arrays of one name of all blocks, joined under `name`; none for a block that has no such array.
    pub(super) fn join(&mut self, name: &str, arrays: &[Option<&Variable>]) -> Result<Vec<Variable>> {
        let Some(first) = arrays.iter().flatten().next() else { return Ok(Vec::new()) };
        if let Some(other) = arrays.iter().flatten().find(|array| array.dtype != first.dtype) {
            let what = format!("blocks of different types: {} and {}", first.dtype, other.dtype);
            return Err(Error::new(ErrorKind::Unsupported, what).hint("read the blocks by their own names"));
        }
        let is_alike =
            arrays.iter().all(|array| array.is_some_and(|array| array.grid.shape == first.grid.shape));
        if is_alike {
            let blocks: Vec<&Variable> = arrays.iter().flatten().copied().collect();
            return self.stack(name, &blocks).map(|variable| vec![variable]);
        }
        self.lay_end_to_end(name, first, arrays)
    }

    /// Blocks of one shape, along a new first axis.
    fn stack(&mut self, name: &str, blocks: &[&Variable]) -> Result<Variable> {
        let first = blocks[0];
        let shape = [&[blocks.len() as u64], &first.grid.shape[..]].concat();
        let mut joined =
            Variable { layout: "blocks".into(), ..Variable::new(name, first.dtype.clone(), shape) };
        check_len(&joined)?;
        joined.attributes.clone_from(&first.attributes);
        joined.fill.clone_from(&first.fill);
        joined.dimensions = std::iter::once("block".to_owned())
            .chain(first.grid.shape.iter().map(|_| String::new()))
            .collect();
        let extents: Option<Vec<Extent>> = blocks.iter().map(|block| single(block)).collect();
        let is_filtered_alike =
            blocks.iter().all(|block| block.filters == first.filters && block.fill == first.fill);
        joined.extents = match extents {
            _ if joined.grid.element_count() == 0 => Extents::Chunks(ChunkTable::default()),
            Some(extents) if is_filtered_alike => {
                joined.grid =
                    Grid { chunk: [&[1], &first.grid.chunk[..]].concat(), shape: joined.grid.shape };
                joined.filters.clone_from(&first.filters);
                let count = extents.len() as u64;
                Extents::Chunks(ChunkTable::new((0..).zip(extents).collect(), count)?)
            }
            _ => {
                let map = |(number, block): (u64, &&Variable)| {
                    let axes: Vec<HyperslabAxis> =
                        block.grid.shape.iter().map(|len| stretch(0, *len)).collect();
                    let to = [&[stretch(number, 1)], &axes[..]].concat();
                    Mapping::new(self.part((*block).clone()), axes, to)
                        .ok_or_else(|| Error::new(ErrorKind::Bug, "a block that does not map to itself"))
                };
                Extents::Mapped((0..).zip(blocks).map(map).collect::<Result<Vec<_>>>()?.into())
            }
        };
        Ok(joined)
    }

    /// Blocks of any shapes end to end, and where each starts.
    fn lay_end_to_end(
        &mut self,
        name: &str,
        first: &Variable,
        arrays: &[Option<&Variable>],
    ) -> Result<Vec<Variable>> {
        let mut offsets = vec![0u64];
        for array in arrays {
            let len = array.map_or(0, |array| array.grid.element_count());
            let end = offsets.last().copied().unwrap_or(0).checked_add(len);
            offsets.push(end.ok_or_else(too_long)?);
        }
        let total = offsets.last().copied().unwrap_or(0);
        let mut joined =
            Variable { layout: "blocks".into(), ..Variable::new(name, first.dtype.clone(), vec![total]) };
        check_len(&joined)?;
        joined.attributes.clone_from(&first.attributes);
        joined.extents = self.end_to_end(&mut joined, &offsets, arrays)?;
        let bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let dtype = Dtype::native(Number::I64);
        let starts = Variable {
            layout: "inline".into(),
            extents: Extents::Inline(bytes),
            ..Variable::new(format!("{name}@offsets"), dtype, vec![offsets.len() as u64])
        };
        Ok(vec![joined, starts])
    }

    fn end_to_end(
        &mut self,
        joined: &mut Variable,
        offsets: &[u64],
        arrays: &[Option<&Variable>],
    ) -> Result<Extents> {
        let full = arrays.iter().zip(offsets).filter_map(|(array, start)| Some(((*array)?, *start)));
        let full: Vec<(&Variable, u64)> = full.filter(|(array, _)| array.grid.element_count() > 0).collect();
        let plain = |(array, _): &(&Variable, u64)| {
            let extent = single(array).filter(|_| array.filters.is_empty())?;
            (extent.range.len() == array.logical_len()).then_some((extent.source, extent.range))
        };
        if let Some(ranges) = full.iter().map(plain).collect::<Option<Vec<_>>>() {
            return Segments::over(ranges).map(Extents::Segments);
        }
        if let Some(boxes) = boxes_of(&full) {
            joined.filters.clone_from(&full[0].0.filters);
            return Ok(Extents::Boxes(boxes));
        }
        let map = |(array, start): (&Variable, u64)| {
            let mut part = array.clone();
            let len = part.grid.element_count();
            reshape(&mut part, vec![len])?;
            Mapping::new(self.part(part), vec![stretch(0, len)], vec![stretch(start, len)])
                .ok_or_else(|| Error::new(ErrorKind::Bug, "a block that does not map to itself"))
        };
        full.into_iter().map(map).collect::<Result<Vec<_>>>().map(|mappings| Extents::Mapped(mappings.into()))
    }
}

/// Blocks and where each starts, as boxes, where each is one chunk and all went through the same filters.
fn boxes_of(blocks: &[(&Variable, u64)]) -> Option<Boxes> {
    let (first, _) = blocks.first()?;
    let mut boxes = Boxes::new(1);
    for (block, start) in blocks {
        let extent = single(block).filter(|extent| extent.skipped == 0 && block.filters == first.filters)?;
        boxes.push(&[*start], &[block.grid.element_count()], extent.source, extent.range);
    }
    Some(boxes)
}

/// `len` indexes from `start` on.
fn stretch(start: u64, len: u64) -> HyperslabAxis {
    HyperslabAxis { start, stride: len.max(1), count: 1, block: len }
}

/// Few blocks that are named over and over can come to more elements than can be counted.
fn check_len(variable: &Variable) -> Result<()> {
    if variable.logical_len() < u64::MAX { Ok(()) } else { Err(too_long()) }
}

fn too_long() -> Error {
    Error::new(ErrorKind::Corrupt, "blocks of more bytes than 64 bits count")
}
