//! A data set cut into units: what is read, kept and evicted at once.
//!
//! A unit is a box of the data set, whole chunks or whole rows, of about `hdf5.unit` bytes. Its elements lie in C order in the cache,
//! in the file's own type, and every unit begins on a block of the tier.

use std::ops::Range;

/// Bytes of a tier's block: each unit wastes half of one on average, 6 % of 1 MiB.
const BLOCK_BYTES: u64 = 128 << 10;
/// The least: a page.
const LEAST_BLOCK: u64 = 4 << 10;

/// Bytes of a tier's block where units have about `unit` bytes.
pub(crate) fn block_len(unit: u64) -> u64 {
    (unit / 8).max(1).next_power_of_two().clamp(LEAST_BLOCK, BLOCK_BYTES)
}

/// The most dimensions that HDF5 has.
pub(crate) const MOST_DIMENSIONS: usize = 32;

/// How a data set is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitGrid {
    shape: Vec<u64>,
    unit: Vec<u64>,
    /// Units along each dimension.
    counts: Vec<u64>,
    element_len: u64,
    unit_len: u64,
    block_len: u64,
    /// The last dimension that units divide; all dimensions after it lie in a unit as they lie in the data set.
    divided: usize,
    /// Elements in one step along `divided`.
    inner: u64,
}

/// Bytes of one unit that a read wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitPiece {
    /// Which unit.
    pub(crate) unit: u64,
    /// The first byte, counted from the start of the unit.
    pub(crate) from: u64,
    /// How many.
    pub(crate) len: u64,
}

/// The part of the data set that a unit holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnitBox {
    /// The first element along each dimension.
    pub(crate) start: Vec<u64>,
    /// How many along each.
    pub(crate) count: Vec<u64>,
}

impl UnitGrid {
    /// A data set of `shape`, with elements of `element_len` bytes, in units of about `target` bytes that hold whole chunks.
    ///
    /// `None` where there is nothing to cut or the sizes do not fit into 64 bits.
    pub(crate) fn new(shape: &[u64], chunk: Option<&[u64]>, element_len: u64, target: u64) -> Option<Self> {
        if shape.is_empty() || shape.len() > MOST_DIMENSIONS || shape.contains(&0) || element_len == 0 {
            return None;
        }
        // The whole must be addressable, padding included.
        shape
            .iter()
            .try_fold(element_len, |len, extent| len.checked_mul(*extent))
            .filter(|len| *len < 1 << 56)?;
        let mut unit = match chunk {
            Some(chunk) if chunk.len() == shape.len() && !chunk.contains(&0) => {
                chunk.iter().zip(shape).map(|(chunk, extent)| (*chunk).min(*extent)).collect()
            }
            Some(_) => return None,
            None => vec![1; shape.len()],
        };
        widen(&mut unit, shape, element_len, target.max(element_len));
        let counts: Vec<u64> = shape.iter().zip(&unit).map(|(extent, unit)| extent.div_ceil(*unit)).collect();
        let divided = (0..shape.len()).rev().find(|axis| unit[*axis] < shape[*axis]).unwrap_or(0);
        let inner = shape[divided + 1..].iter().product();
        let unit_len = unit.iter().product::<u64>().checked_mul(element_len)?;
        let count = counts.iter().try_fold(1_u64, |count, next| count.checked_mul(*next))?;
        let block_len = block_len(target);
        unit_len.checked_add(block_len)?.checked_mul(count)?;
        Some(Self { shape: shape.to_vec(), unit, counts, element_len, unit_len, block_len, divided, inner })
    }

    /// Extents of the data set.
    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Extents of a unit that the data set's end does not cut.
    pub(crate) fn unit_shape(&self) -> &[u64] {
        &self.unit
    }

    /// Bytes of an element.
    pub(crate) fn element_len(&self) -> u64 {
        self.element_len
    }

    /// Bytes of a unit in the cache; at the data set's ends some mean nothing.
    pub(crate) fn unit_len(&self) -> u64 {
        self.unit_len
    }

    /// How many units there are.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().product()
    }

    /// Bytes of the whole in the cache.
    pub(crate) fn cache_len(&self) -> u64 {
        self.count() * self.padded_len()
    }

    /// Bytes of a unit in the cache, with what fills up its last block.
    pub(crate) fn padded_len(&self) -> u64 {
        self.blocks_per_unit() * self.block_len
    }

    /// Bytes of a block.
    pub(crate) fn block_len(&self) -> u64 {
        self.block_len
    }

    /// Tier blocks that a unit takes.
    pub(crate) fn blocks_per_unit(&self) -> u64 {
        self.unit_len.div_ceil(self.block_len)
    }

    /// The blocks of `unit`.
    pub(crate) fn blocks(&self, unit: u64) -> Range<u64> {
        let each = self.blocks_per_unit();
        unit * each..(unit + 1) * each
    }

    /// The part of the data set that `unit` holds.
    pub(crate) fn unit_box(&self, unit: u64) -> UnitBox {
        let (mut start, mut rest) = (vec![0; self.shape.len()], unit);
        for axis in (0..self.shape.len()).rev() {
            start[axis] = rest % self.counts[axis] * self.unit[axis];
            rest /= self.counts[axis];
        }
        let ends = start.iter().zip(&self.unit).zip(&self.shape);
        let count = ends.map(|((start, unit), extent)| (*unit).min(extent - start)).collect();
        UnitBox { start, count }
    }

    /// Bytes of `unit` that mean something.
    pub(crate) fn filled_len(&self, unit: u64) -> u64 {
        self.unit_box(unit).count.iter().product::<u64>() * self.element_len
    }

    /// Cuts `len` bytes of the data set, from byte `from` of it in C order, into pieces of units, in that order.
    pub(crate) fn split(&self, from: u64, len: u64, mut each: impl FnMut(UnitPiece)) {
        let (mut element, mut left) = (from / self.element_len, len / self.element_len);
        while left > 0 {
            let (piece, count) = self.piece_at(element, left);
            each(piece);
            element += count;
            left -= count;
        }
    }

    /// The piece that begins at `element`, of at most `most` elements, and how many it has.
    fn piece_at(&self, element: u64, most: u64) -> (UnitPiece, u64) {
        let (within, mut rest) = (element % self.inner, element / self.inner);
        let place = rest % self.shape[self.divided];
        let end =
            ((place / self.unit[self.divided] + 1) * self.unit[self.divided]).min(self.shape[self.divided]);
        let count = ((end - place) * self.inner - within).min(most);
        // From the inside out: which unit, and how far into it.
        let (mut unit, mut units_inside, mut at, mut inside) = (0, 1, within, self.inner);
        for axis in (0..=self.divided).rev() {
            let place = rest % self.shape[axis];
            rest /= self.shape[axis];
            unit += place / self.unit[axis] * units_inside;
            units_inside *= self.counts[axis];
            at += place % self.unit[axis] * inside;
            inside *= self.unit[axis];
        }
        let piece = UnitPiece { unit, from: at * self.element_len, len: count * self.element_len };
        (piece, count)
    }
}

/// Makes `unit` larger, along the last dimensions first and by whole chunks, while it stays within `target` bytes.
fn widen(unit: &mut [u64], shape: &[u64], element_len: u64, target: u64) {
    let mut len = unit.iter().fold(element_len, |len, extent| len.saturating_mul(*extent));
    for axis in (0..shape.len()).rev() {
        let chunks = shape[axis].div_ceil(unit[axis]);
        let times = (target / len.max(1)).clamp(1, chunks);
        let wider = (unit[axis] * times).min(shape[axis]);
        len = len / unit[axis] * wider;
        unit[axis] = wider;
        if wider < shape[axis] {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(grid: &UnitGrid, from: u64, len: u64) -> Vec<(u64, u64, u64)> {
        let mut found = Vec::new();
        grid.split(from, len, |piece| found.push((piece.unit, piece.from, piece.len)));
        found
    }

    /// Where an element lies, found coordinate by coordinate.
    fn place_of(grid: &UnitGrid, element: u64) -> (u64, u64) {
        let (mut rest, mut place) = (element, vec![0; grid.shape.len()]);
        for axis in (0..grid.shape.len()).rev() {
            place[axis] = rest % grid.shape[axis];
            rest /= grid.shape[axis];
        }
        let (mut unit, mut at) = (0, 0);
        for (axis, place) in place.into_iter().enumerate() {
            unit = unit * grid.counts[axis] + place / grid.unit[axis];
            at = at * grid.unit[axis] + place % grid.unit[axis];
        }
        (unit, at * grid.element_len)
    }

    #[test]
    fn rows_are_joined_until_they_make_a_unit() {
        let grid = UnitGrid::new(&[1000, 16, 16], None, 4, 64 << 10).unwrap();
        assert_eq!(grid.unit_shape(), [64, 16, 16]);
        assert_eq!((grid.count(), grid.unit_len(), grid.blocks_per_unit()), (16, 64 << 10, 8));
        assert_eq!(grid.unit_box(15), UnitBox { start: vec![960, 0, 0], count: vec![40, 16, 16] });
        assert_eq!(grid.filled_len(15), 40 << 10);
    }

    #[test]
    fn a_row_longer_than_a_unit_is_divided_and_a_small_data_set_is_one_unit() {
        let grid = UnitGrid::new(&[3, 1 << 20], None, 8, 1 << 20).unwrap();
        assert_eq!(grid.unit_shape(), [1, 1 << 17]);
        assert_eq!(grid.count(), 24);
        let grid = UnitGrid::new(&[10, 10], None, 8, 1 << 20).unwrap();
        assert_eq!((grid.count(), grid.unit_len(), grid.cache_len()), (1, 800, 128 << 10));
        assert_eq!(pieces(&grid, 80, 160), [(0, 80, 160)]);
    }

    #[test]
    fn units_hold_whole_chunks_and_a_chunk_longer_than_a_unit_is_one() {
        let grid = UnitGrid::new(&[100, 60, 60], Some(&[10, 20, 20]), 4, 64 << 10).unwrap();
        assert_eq!(grid.unit_shape(), [10, 20, 60]);
        let grid = UnitGrid::new(&[100, 60, 60], Some(&[100, 60, 60]), 4, 64 << 10).unwrap();
        assert_eq!(grid.count(), 1);
        let grid = UnitGrid::new(&[5, 7], Some(&[64, 64]), 1, 16).unwrap();
        assert_eq!((grid.unit_shape(), grid.count()), (&[5, 7][..], 1));
    }

    #[test]
    fn pieces_of_any_run_lie_where_each_element_does() {
        let grids = [
            UnitGrid::new(&[7, 11, 13], Some(&[3, 4, 5]), 2, 1).unwrap(),
            UnitGrid::new(&[7, 11, 13], Some(&[3, 11, 13]), 2, 1).unwrap(),
            UnitGrid::new(&[7, 11, 13], Some(&[7, 4, 13]), 2, 1).unwrap(),
            UnitGrid::new(&[7, 11, 13], Some(&[1, 1, 1]), 2, 1).unwrap(),
            UnitGrid::new(&[7, 11, 13], None, 2, 100).unwrap(),
            UnitGrid::new(&[1001], None, 2, 64).unwrap(),
        ];
        for grid in grids {
            let all = 1001;
            for (from, len) in [(0, all), (5, 200), (143, 1), (142, 3), (999, 2), (77, 0)] {
                let mut element = from;
                grid.split(from * 2, len * 2, |piece| {
                    for step in 0..piece.len / 2 {
                        assert_eq!(place_of(&grid, element), (piece.unit, piece.from + step * 2), "{grid:?}");
                        element += 1;
                    }
                });
                assert_eq!(element, from + len);
            }
        }
    }

    #[test]
    fn sizes_that_mean_nothing_are_refused() {
        assert!(UnitGrid::new(&[], None, 4, 100).is_none());
        assert!(UnitGrid::new(&[3, 0], None, 4, 100).is_none());
        assert!(UnitGrid::new(&[u64::MAX, 2], None, 4, 100).is_none());
        assert!(UnitGrid::new(&[4], Some(&[0]), 4, 100).is_none());
        assert!(UnitGrid::new(&[4], Some(&[2, 2]), 4, 100).is_none());
        assert!(UnitGrid::new(&[4], None, 0, 100).is_none());
    }
}
