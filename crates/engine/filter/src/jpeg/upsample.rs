//! From a component that is sampled less often to one sample a pixel, as libjpeg-turbo does it: between two samples lie
//! three quarters of the nearer and one of the farther ("fancy"), and past the last one there is none.

use super::{
    header::{Component, JpegHeader},
    scan::Plane,
    wide,
};

/// How a component is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    None,
    /// Twice across.
    Across,
    /// Twice down.
    Down,
    /// Twice both ways.
    Both,
    /// So often, without anything between.
    Repeat(usize, usize),
}

/// One component of a file, row by row.
pub(crate) struct ComponentRows<'a> {
    plane: &'a Plane,
    component: &'a Component,
    spread: Spread,
    /// The row that was made last; some samples longer than a row of pixels.
    row: Vec<u8>,
}

impl<'a> ComponentRows<'a> {
    pub(crate) fn new(header: &JpegHeader, component: &'a Component, plane: &'a Plane) -> Self {
        let ratio = (header.most.0 / component.factors.0, header.most.1 / component.factors.1);
        let is_wide = component.width > 2;
        let spread = match ratio {
            (1, 1) => Spread::None,
            (2, 1) if is_wide => Spread::Across,
            (1, 2) => Spread::Down,
            (2, 2) if is_wide => Spread::Both,
            (across, down) => Spread::Repeat(across, down),
        };
        Self { plane, component, spread, row: vec![0; component.width * ratio.0] }
    }

    fn stored(&self, row: usize) -> &'a [u8] {
        &self.plane.samples[row * self.plane.stride..][..self.component.width]
    }

    /// Row `number` of the stored ones, and the one that lies farther from row `at` of the pixels.
    fn near_and_far(&self, at: usize) -> (&'a [u8], &'a [u8]) {
        let near = at / 2;
        let far = if at.is_multiple_of(2) { near.saturating_sub(1) } else { near + 1 };
        (self.stored(near), self.stored(far.min(self.component.height - 1)))
    }

    /// The samples of row `at` of the pixels.
    pub(crate) fn get(&mut self, at: usize) -> &[u8] {
        match self.spread {
            Spread::None => return self.stored(at),
            Spread::Across => wide::across(self.stored(at), &mut self.row),
            Spread::Down => {
                let (near, far) = self.near_and_far(at);
                let bias = if at.is_multiple_of(2) { 1 } else { 2 };
                for ((out, near), far) in self.row.iter_mut().zip(near).zip(far) {
                    *out = ((3 * u16::from(*near) + u16::from(*far) + bias) >> 2) as u8;
                }
            }
            Spread::Both => {
                let (near, far) = self.near_and_far(at);
                wide::both(near, far, &mut self.row);
            }
            Spread::Repeat(times, down) => {
                let stored = self.stored(at / down);
                for (out, sample) in self.row.chunks_exact_mut(times).zip(stored) {
                    out.fill(*sample);
                }
            }
        }
        &self.row
    }
}
