//! Blocks that tile an n-dimensional chunk, brought back to C order.

use crate::error::{too_long, unsupported};
use forebay_process::{Error, Result};

use super::msgpack::expect;
use crate::blosc::{BloscBlocks, Chunk};
use crate::byte_cursor::ByteCursor;

const NDIM_LIMIT: u8 = 16;
const SHORT_ARRAY: u8 = 0x90;
const INT32: u8 = 0xd2;
const INT64: u8 = 0xd3;

/// The shape of a chunk and of the blocks that tile it, the last ones reaching over its edge.
pub(crate) struct Tiles {
    element_len: usize,
    shape: Vec<usize>,
    block_shape: Vec<usize>,
    /// Product of `shape` in bytes.
    len: usize,
}

impl Tiles {
    /// Reads the metalayer: version, number of dimensions, and the shapes of the array, its chunks and its blocks.
    pub(crate) fn parse(layer: &[u8], element_len: usize) -> Result<Self> {
        let mut cursor = ByteCursor::new(layer, crate::ByteOrder::Big);
        let [_marker, version, ndim] = cursor.array()?;
        if version != 0 || ndim > NDIM_LIMIT {
            return Err(unsupported(format!(
                "box of version {version} and {ndim} dimensions is not supported"
            )));
        }
        let shape = read_shape(&mut cursor, ndim, |cursor| {
            expect(cursor, INT64)?;
            usize::try_from(cursor.u64()?).map_err(|_| too_long())
        })?;
        let mut narrow = |cursor: &mut ByteCursor<'_>| {
            expect(cursor, INT32)?;
            Ok(cursor.u32()? as usize)
        };
        let chunk_shape = read_shape(&mut cursor, ndim, &mut narrow)?;
        let block_shape = read_shape(&mut cursor, ndim, narrow)?;
        if shape != chunk_shape {
            return Err(unsupported("box of several chunks is not supported"));
        }
        if shape.iter().zip(&block_shape).any(|(len, block_len)| *block_len == 0 || block_len > len) {
            return Err(Error::corrupt("blocks do not fit their chunk"));
        }
        let len = product(&shape, element_len).ok_or_else(too_long)?;
        Ok(Self { element_len, shape, block_shape, len })
    }

    /// Length of the decoded box.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Decodes `chunk` block by block into the box at the front of `out`.
    pub(crate) fn decode(&self, chunk: &Chunk<'_>, out: &mut [u8]) -> Result<usize> {
        let out = out.get_mut(..self.len).ok_or_else(too_long)?;
        let grid: Vec<usize> =
            self.shape.iter().zip(&self.block_shape).map(|(len, block)| len.div_ceil(*block)).collect();
        let block_count = product(&grid, 1).ok_or_else(too_long)?;
        let block_len = product(&self.block_shape, self.element_len).ok_or_else(too_long)?;
        // A block fits the box, so one block's memory is at most that of `out`.
        let is_sound = block_len > 0
            && block_len == chunk.block_len
            && block_count.checked_mul(block_len) == Some(chunk.len);
        if !is_sound {
            return Err(Error::corrupt(format!(
                "blocks of {block_len} bytes do not tile a chunk of {} bytes",
                self.len
            )));
        }
        let mut blocks = BloscBlocks::new(chunk);
        let mut block = vec![0; block_len];
        for index in 0..block_count {
            blocks.decode(index, &mut block)?;
            self.place(&origin(index, &grid, &self.block_shape), &block, out);
        }
        Ok(self.len)
    }

    /// Copies the part of `block` that lies in the box, row by row.
    fn place(&self, origin: &[usize], block: &[u8], out: &mut [u8]) {
        let extent: Vec<usize> = (self.shape.iter().zip(origin).zip(&self.block_shape))
            .map(|((len, start), block_len)| (len - start).min(*block_len))
            .collect();
        let Some((row_extent, outer)) = extent.split_last() else {
            // Without dimensions there is one element.
            return out.copy_from_slice(block);
        };
        let row_len = row_extent * self.element_len;
        for row in 0..outer.iter().product() {
            let mut rest: usize = row;
            let (mut from, mut to) = (0, 0);
            let (mut from_stride, mut to_stride) = (self.element_len, self.element_len);
            for dim in (0..extent.len()).rev() {
                // A row lies along the last dimension, so `row` counts through the others.
                let index = if dim == outer.len() { 0 } else { rest % extent[dim] };
                rest = if dim == outer.len() { rest } else { rest / extent[dim] };
                from += index * from_stride;
                to += (origin[dim] + index) * to_stride;
                from_stride *= self.block_shape[dim];
                to_stride *= self.shape[dim];
            }
            out[to..to + row_len].copy_from_slice(&block[from..from + row_len]);
        }
    }
}

fn read_shape(
    cursor: &mut ByteCursor<'_>,
    ndim: u8,
    mut read: impl FnMut(&mut ByteCursor<'_>) -> Result<usize>,
) -> Result<Vec<usize>> {
    let marker = cursor.u8()?;
    if marker != SHORT_ARRAY + ndim % 16 {
        return Err(Error::corrupt("box has shapes of different dimensions"));
    }
    (0..ndim).map(|_| read(cursor)).collect()
}

fn product(shape: &[usize], element_len: usize) -> Option<usize> {
    shape.iter().try_fold(element_len, |product, len| product.checked_mul(*len))
}

/// Where block `index` begins in the chunk.
fn origin(index: usize, grid: &[usize], block_shape: &[usize]) -> Vec<usize> {
    let mut rest = index;
    let mut origin = vec![0; grid.len()];
    for dim in (0..grid.len()).rev() {
        origin[dim] = rest % grid[dim] * block_shape[dim];
        rest /= grid[dim];
    }
    origin
}
