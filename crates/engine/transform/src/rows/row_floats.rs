//! Values of a row, computed in 32-bit floats, a stretch at a time.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "instructions that not every processor has, used where they are there")
)]

use forebay_container::Number;
use half::f16;

use crate::{
    program::step::ValueOp,
    rows::{
        layout::RowLayout,
        single::{self, STRETCH},
    },
};

/// How the values of rows are computed.
#[derive(Debug)]
pub(crate) struct FloatRows {
    pub(crate) from: Number,
    pub(crate) to: Number,
    pub(crate) steps: Vec<FloatStep>,
    /// Elements that stay together where a row is turned round.
    pub(crate) block: usize,
    /// True when what comes out is so long that the caches would not hold it until somebody reads it.
    pub(crate) is_streamed: bool,
}

/// Bytes of a sample from which on it is streamed: a batch of some dozens is then longer than a second-level cache.
pub(crate) const STREAMED: usize = 64 << 10;

/// One step, with the numbers it needs at hand.
#[derive(Debug)]
pub(crate) enum FloatStep {
    Same {
        mean: f32,
        std: f32,
    },
    /// The numbers of the index along `axis` that the row belongs to.
    OfRow {
        axis: usize,
        mean: Vec<f32>,
        std: Vec<f32>,
    },
    /// Numbers for each element of a row, again and again.
    Tiled {
        mean: Vec<f32>,
        std: Vec<f32>,
    },
    Log {
        add: f64,
    },
    Clip {
        low: f32,
        high: f32,
    },
}

impl FloatStep {
    /// The step that is `value` for rows of `layout`.
    pub(crate) fn new(value: &ValueOp, layout: &RowLayout) -> Self {
        match value {
            ValueOp::Normalize { mean, std, axis: None } => Self::Same { mean: mean[0], std: std[0] },
            ValueOp::Normalize { mean, std, axis: Some(axis) } if *axis < layout.row_axis => {
                Self::OfRow { axis: *axis, mean: mean.clone(), std: std.clone() }
            }
            ValueOp::Normalize { mean, std, axis: Some(axis) } => {
                let len = layout.tile_len(*axis, STRETCH);
                let (count, stride) = (layout.shape[*axis], layout.strides[*axis]);
                let tiled = |of: &[f32]| (0..len).map(|at| of[at / stride % count]).collect();
                Self::Tiled { mean: tiled(mean), std: tiled(std) }
            }
            ValueOp::Log { add } => Self::Log { add: *add },
            ValueOp::Clip { low, high } => Self::Clip { low: *low, high: *high },
        }
    }
}

/// Memory for a stretch, for as long as rows of a sample are computed, which need not be cleared for each row.
#[derive(Debug)]
pub(crate) struct RowScratch {
    floats: [f32; STRETCH],
    halves: [f16; STRETCH],
}

/// Rows may have been streamed: what this thread does next, such as handing the sample to another, comes after them.
#[cfg(target_arch = "x86_64")]
impl Drop for RowScratch {
    fn drop(&mut self) {
        crate::rows::wide::store_fence();
    }
}

impl Default for RowScratch {
    fn default() -> Self {
        Self { floats: [0.0; STRETCH], halves: [f16::ZERO; STRETCH] }
    }
}

/// Where in a row elements go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartPlace<'a> {
    /// The first.
    pub(crate) at: usize,
    /// The indexes of the row.
    pub(crate) outer: &'a [usize],
    /// True when blocks come last first.
    pub(crate) is_reversed: bool,
}

impl FloatRows {
    /// Computes `to`, a part of a row, from `from`.
    ///
    /// Numbers cross by registers: what is passed in memory waits until all stores before it have arrived there, which are those of
    /// the row before. This and the scratch took 187 us for a picture of 3 x 224 x 224 to 154.
    pub(crate) fn run(&self, from: &[u8], to: &mut [u8], place: PartPlace<'_>, scratch: &mut RowScratch) {
        let PartPlace { at, outer, is_reversed } = place;
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("f16c") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.run_wide(from, to, at, outer, is_reversed, scratch) };
        }
        self.run_plain(from, to, at, outer, is_reversed, scratch, single::store);
    }

    /// The same, compiled for processors that compute eight numbers at a time. No product and sum are made one: results are the same.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,f16c")]
    fn run_wide(
        &self,
        from: &[u8],
        to: &mut [u8],
        at: usize,
        outer: &[usize],
        is_reversed: bool,
        scratch: &mut RowScratch,
    ) {
        let is_half = self.to == Number::F16;
        if let (false, Some((mean, std))) = (is_reversed, self.only_normalize(outer)) {
            let by = crate::rows::wide::Normalized { mean, std, is_half };
            let is_float = is_half || self.to == Number::F32;
            if self.is_streamed && is_float && crate::rows::wide::stream_normalized(self.from, from, to, by) {
                return;
            } else if self.to == Number::F32 {
                return single::normalize(self.from, from, to, (mean, std));
            }
        }
        self.run_plain(from, to, at, outer, is_reversed, scratch, |number, values, to, halves| {
            if is_half {
                crate::rows::wide::store_halves(values, to)
            } else {
                single::store(number, values, to, halves)
            }
        });
    }

    #[expect(clippy::too_many_arguments, reason = "they cross by registers, see `run`")]
    #[inline(always)]
    fn run_plain(
        &self,
        from: &[u8],
        to: &mut [u8],
        at: usize,
        outer: &[usize],
        is_reversed: bool,
        scratch: &mut RowScratch,
        store: impl Fn(Number, &[f32], &mut [u8], &mut [f16; STRETCH]),
    ) {
        let (from_len, to_len) = (self.from.size(), self.to.size());
        let count = from.len() / from_len;
        let mut done = 0;
        while done < count {
            let len = self.stretch(at + done, count - done, is_reversed);
            let values = &mut scratch.floats[..len];
            let start = if is_reversed { count - done - len } else { done };
            single::load(
                self.from,
                &from[start * from_len..(start + len) * from_len],
                values,
                &mut scratch.halves,
            );
            if is_reversed {
                turn_round(values, self.block);
            }
            for step in &self.steps {
                step.run(values, at + done, outer);
            }
            let to = &mut to[done * to_len..(done + len) * to_len];
            store(self.to, values, to, &mut scratch.halves);
            done += len;
        }
    }

    /// The numbers of the only step, where that is one and has the same for all of the row of `outer`.
    #[inline(always)]
    fn only_normalize(&self, outer: &[usize]) -> Option<(f32, f32)> {
        match &self.steps[..] {
            [FloatStep::Same { mean, std }] => Some((*mean, *std)),
            [FloatStep::OfRow { axis, mean, std }] => Some((mean[outer[*axis]], std[outer[*axis]])),
            _ => None,
        }
    }

    /// Elements that are computed together from place `at` of a row on, where `left` are left.
    fn stretch(&self, at: usize, left: usize, is_reversed: bool) -> usize {
        let most = if is_reversed { STRETCH / self.block * self.block } else { STRETCH };
        let within = self.steps.iter().filter_map(|step| match step {
            FloatStep::Tiled { mean, .. } => Some(mean.len() - at % mean.len()),
            _ => None,
        });
        within.chain([most, left]).min().unwrap_or(most)
    }
}

/// Puts blocks of `block` elements in the opposite order.
fn turn_round(values: &mut [f32], block: usize) {
    values.reverse();
    if block > 1 {
        values.chunks_exact_mut(block).for_each(<[f32]>::reverse);
    }
}

impl FloatStep {
    /// `values` stand from place `at` of a row on.
    #[inline(always)]
    fn run(&self, values: &mut [f32], at: usize, outer: &[usize]) {
        match self {
            Self::Same { mean, std } => normalize(values, *mean, *std),
            Self::OfRow { axis, mean, std } => normalize(values, mean[outer[*axis]], std[outer[*axis]]),
            Self::Tiled { mean, std } => {
                let start = at % mean.len();
                for ((value, mean), std) in values.iter_mut().zip(&mean[start..]).zip(&std[start..]) {
                    *value = (*value - mean) / std;
                }
            }
            Self::Log { add } => values.iter_mut().for_each(|value| *value = log(*value, *add)),
            Self::Clip { low, high } => {
                for value in values {
                    *value = if *value < *low { *low } else { *value };
                    *value = if *value > *high { *high } else { *value };
                }
            }
        }
    }
}

#[inline(always)]
fn normalize(values: &mut [f32], mean: f32, std: f32) {
    for value in values {
        *value = (*value - mean) / std;
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounded once, as said")]
fn log(value: f32, add: f64) -> f32 {
    (f64::from(value) + add).ln() as f32
}
