//! Boxes that many samples have in common.

use crate::{grid::selection::Span, samples::window_axis::WindowAxis};

/// A box that many samples have in common.
#[derive(Clone, Debug)]
pub struct RepeatedBox {
    /// How many samples.
    pub count: u64,
    /// How it lies along each axis of the array.
    pub axes: Vec<RepeatedAxis>,
    /// True when it is all of the array.
    pub is_whole: bool,
}

/// How boxes that samples have in common lie along one axis.
#[derive(Clone, Copy, Debug)]
pub struct RepeatedAxis {
    /// Where boxes lie.
    pub window: WindowAxis,
    /// How many samples follow each other with the same place.
    pub every: u64,
}

impl RepeatedAxis {
    /// How `windows` lie along axes of which the last goes fastest, and how many samples they are.
    pub fn all(windows: &[WindowAxis]) -> (Vec<Self>, u64) {
        let mut every = 1u64;
        let mut axes: Vec<Self> = Vec::with_capacity(windows.len());
        for window in windows.iter().rev() {
            axes.push(Self { window: *window, every });
            every = every.saturating_mul(window.count);
        }
        axes.reverse();
        (axes, every)
    }

    /// What sample `number` has of the axis.
    pub(crate) fn span(&self, number: u64) -> Span {
        let Self { window, every } = self;
        let place = number / every.max(&1) % window.count.max(1);
        Span { start: place * window.stride, count: window.size, step: window.step }
    }
}

impl RepeatedBox {
    /// All of an array of `shape`, for each of `count` samples.
    pub fn whole(shape: &[u64], count: u64) -> Self {
        let whole = |len: &u64| RepeatedAxis { window: WindowAxis::whole(*len), every: 1 };
        Self { count, axes: shape.iter().map(whole).collect(), is_whole: true }
    }

    /// Puts the box of sample `number` into `out`.
    pub fn spans(&self, number: u64, out: &mut [Span]) {
        for (span, axis) in out.iter_mut().zip(&self.axes) {
            *span = axis.span(number);
        }
    }
}
