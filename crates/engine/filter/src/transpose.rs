//! The axes of a chunk in another order, as Zarr's `transpose` codec and Fortran order have it.

use forebay_process::{Error, Result};

use crate::error::too_long;

/// Elements along both sides of a tile: a tile of 8-byte elements stays in the nearest cache.
const TILE: usize = 32;

/// The chunk's axes, and how far apart neighbours along them lie.
pub(crate) struct TransposedAxes {
    element_len: usize,
    shape: Vec<usize>,
    /// The chunk's axis that the stored bytes run along.
    stored_last: usize,
    /// Elements between neighbours along each of the chunk's axes, in the stored bytes.
    from: Vec<usize>,
    /// The same where they go.
    to: Vec<usize>,
}

impl TransposedAxes {
    /// The axes of a chunk of `shape` whose stored axis `i` is axis `order[i]`.
    pub(crate) fn new(element_len: u32, shape: &[u32], order: &[u32]) -> Result<Self> {
        let bad = || Error::corrupt("parameters of transpose do not belong together");
        let (element_len, ndim) = (element_len as usize, shape.len());
        if element_len == 0 || order.len() != ndim {
            return Err(bad());
        }
        let shape: Vec<usize> = shape.iter().map(|n| *n as usize).collect();
        let order: Vec<usize> = order.iter().map(|axis| *axis as usize).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..ndim) {
            return Err(bad());
        }
        let mut from = vec![0; ndim];
        let mut stride = 1usize;
        for axis in order.iter().rev() {
            from[*axis] = stride;
            stride = stride.checked_mul(shape[*axis]).ok_or_else(bad)?;
        }
        let mut to = vec![0; ndim];
        let mut stride = 1usize;
        for axis in (0..ndim).rev() {
            to[axis] = stride;
            stride = stride.checked_mul(shape[axis]).ok_or_else(bad)?;
        }
        Ok(Self { element_len, stored_last: order.last().copied().unwrap_or(0), shape, from, to })
    }

    pub(crate) fn decode(&self, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let wanted = self.shape.iter().try_fold(self.element_len, |len, n| len.checked_mul(*n));
        if wanted != Some(input.len()) {
            let shape = &self.shape;
            return Err(Error::corrupt(format!(
                "{} bytes do not fill a chunk of shape {shape:?}",
                input.len()
            )));
        }
        let out = out.get_mut(..input.len()).ok_or_else(too_long)?;
        if input.is_empty() {
            return Ok(0);
        }
        match self.element_len {
            1 => self.each_tile(&mut Copier::<1> { input, out }),
            2 => self.each_tile(&mut Copier::<2> { input, out }),
            4 => self.each_tile(&mut Copier::<4> { input, out }),
            8 => self.each_tile(&mut Copier::<8> { input, out }),
            16 => self.each_tile(&mut Copier::<16> { input, out }),
            len => self.each_tile(&mut AnyCopier { len, input, out }),
        }
        Ok(input.len())
    }

    /// Copies tile by tile along the two axes that the bytes run along on either side.
    fn each_tile(&self, copier: &mut dyn CopyLine) {
        let Some(last) = self.shape.len().checked_sub(1) else {
            return copier.line(0, 0, CopiedRun { count: 1, from_step: 1, to_step: 1 });
        };
        let outer: Vec<usize> =
            (0..=last).filter(|axis| *axis != last && *axis != self.stored_last).collect();
        let mut at = vec![0; outer.len()];
        loop {
            let place = |strides: &[usize]| -> usize {
                outer.iter().zip(&at).map(|(axis, index)| strides[*axis] * index).sum()
            };
            self.plane(place(&self.from), place(&self.to), last, copier);
            let Some(next) = (0..outer.len()).rev().find(|axis| at[*axis] + 1 < self.shape[outer[*axis]])
            else {
                return;
            };
            at[next] += 1;
            at[next + 1..].fill(0);
        }
    }

    fn plane(&self, from: usize, to: usize, last: usize, copier: &mut dyn CopyLine) {
        let line = |count| CopiedRun { count, from_step: self.from[last], to_step: 1 };
        let across = self.stored_last;
        if across == last {
            return copier.line(from, to, line(self.shape[last]));
        }
        for column in (0..self.shape[last]).step_by(TILE) {
            let width = TILE.min(self.shape[last] - column);
            for row in 0..self.shape[across] {
                let from = from + row * self.from[across] + column * self.from[last];
                copier.line(from, to + row * self.to[across] + column, line(width));
            }
        }
    }
}

/// Elements that are copied one after the other, counted in elements.
#[derive(Clone, Copy)]
struct CopiedRun {
    count: usize,
    from_step: usize,
    to_step: usize,
}

/// Copies elements of one length.
trait CopyLine {
    fn line(&mut self, from: usize, to: usize, line: CopiedRun);
}

struct Copier<'a, const N: usize> {
    input: &'a [u8],
    out: &'a mut [u8],
}

impl<const N: usize> CopyLine for Copier<'_, N> {
    fn line(&mut self, from: usize, to: usize, line: CopiedRun) {
        let (input, out) = (self.input.as_chunks::<N>().0, self.out.as_chunks_mut::<N>().0);
        let places = out[to..].iter_mut().step_by(line.to_step).take(line.count);
        for (place, element) in places.zip(input[from..].iter().step_by(line.from_step)) {
            *place = *element;
        }
    }
}

struct AnyCopier<'a> {
    len: usize,
    input: &'a [u8],
    out: &'a mut [u8],
}

impl CopyLine for AnyCopier<'_> {
    fn line(&mut self, from: usize, to: usize, line: CopiedRun) {
        let input = self.input[from * self.len..].chunks_exact(self.len).step_by(line.from_step);
        let places = self.out[to * self.len..].chunks_exact_mut(self.len).step_by(line.to_step);
        for (place, element) in places.take(line.count).zip(input) {
            place.copy_from_slice(element);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_become_rows() {
        let mut out = [0; 6];
        assert_eq!(
            TransposedAxes::new(1, &[2, 3], &[1, 0]).unwrap().decode(&[1, 4, 2, 5, 3, 6], &mut out).unwrap(),
            6
        );
        assert_eq!(out, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn every_order_of_three_axes_is_undone() {
        let shape = [3usize, 40, 35];
        let count = shape.iter().product::<usize>();
        for element_len in [1usize, 3, 8] {
            let wanted: Vec<u8> = (0..=250).cycle().take(count * element_len).collect();
            for order in [[0usize, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                let mut stored = Vec::new();
                let stored_shape = order.map(|axis| shape[axis]);
                for number in 0..count {
                    let mut rest = number;
                    let mut at = [0; 3];
                    for axis in (0..3).rev() {
                        at[order[axis]] = rest % stored_shape[axis];
                        rest /= stored_shape[axis];
                    }
                    let element = (at[0] * shape[1] + at[1]) * shape[2] + at[2];
                    stored.extend_from_slice(&wanted[element * element_len..][..element_len]);
                }
                let small = |lens: &[usize]| -> Vec<u32> {
                    lens.iter().map(|len| u32::try_from(*len).unwrap()).collect()
                };
                let axes =
                    TransposedAxes::new(small(&[element_len])[0], &small(&shape), &small(&order)).unwrap();
                let mut out = vec![0; wanted.len()];
                axes.decode(&stored, &mut out).unwrap();
                assert_eq!(out, wanted, "{order:?} {element_len}");
            }
        }
    }

    #[test]
    fn parameters_that_do_not_belong_together_are_refused() {
        let bad: [(u32, &[u32], &[u32]); 6] = [
            (0, &[2], &[0]),
            (1, &[2, 2], &[0, 0]),
            (1, &[2, 2], &[0, 2]),
            (1, &[2, 2], &[0]),
            (1, &[5], &[0]),
            (1, &[u32::MAX, u32::MAX], &[1, 0]),
        ];
        for (element_len, shape, order) in bad {
            let done = TransposedAxes::new(element_len, shape, order)
                .and_then(|axes| axes.decode(&[0; 4], &mut [0; 4]));
            assert!(done.is_err(), "{element_len} {shape:?} {order:?}");
        }
    }
}
