//! Values of a row, computed in 32-bit floats, a stretch at a time.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "instructions that not every processor has, used where they are there")
)]

use forebay_container::Number;

use crate::{
    layout::RowLayout,
    single::{self, STRETCH},
    step::ValueOp,
};

/// How the values of rows are computed.
#[derive(Debug)]
pub(crate) struct FloatRows {
    pub(crate) from: Number,
    pub(crate) to: Number,
    pub(crate) steps: Vec<FloatStep>,
    /// Elements that stay together where a row is turned round.
    pub(crate) block: usize,
}

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

/// Neighbouring elements of the source, and where in the row they go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPart {
    /// The first, in the source.
    pub(crate) from: usize,
    pub(crate) len: usize,
    /// The first, in the row.
    pub(crate) to: usize,
    /// True when blocks come last first.
    pub(crate) is_reversed: bool,
}

impl FloatRows {
    /// Computes `part` of the row `to` from `from`; `outer` are the indexes of the row.
    pub(crate) fn run(&self, from: &[u8], to: &mut [u8], part: RowPart, outer: &[usize]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.run_wide(from, to, part, outer) };
        }
        self.run_plain(from, to, part, outer);
    }

    /// The same, compiled for processors that compute eight numbers at a time. No product and sum are made one: results are the same.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn run_wide(&self, from: &[u8], to: &mut [u8], part: RowPart, outer: &[usize]) {
        self.run_plain(from, to, part, outer);
    }

    #[inline(always)]
    fn run_plain(&self, from: &[u8], to: &mut [u8], part: RowPart, outer: &[usize]) {
        let mut scratch = [0f32; STRETCH];
        let (from_len, to_len) = (self.from.size(), self.to.size());
        let mut done = 0;
        while done < part.len {
            let len = self.stretch(part, done);
            let values = &mut scratch[..len];
            let start = if part.is_reversed { part.from + part.len - done - len } else { part.from + done };
            single::load(self.from, &from[start * from_len..(start + len) * from_len], values);
            if part.is_reversed {
                turn_round(values, self.block);
            }
            let at = part.to + done;
            for step in &self.steps {
                step.run(values, at, outer);
            }
            single::store(self.to, values, &mut to[at * to_len..(at + len) * to_len]);
            done += len;
        }
    }

    /// Elements that are computed together, once `done` of `part` are.
    fn stretch(&self, part: RowPart, done: usize) -> usize {
        let most = if part.is_reversed { STRETCH / self.block * self.block } else { STRETCH };
        let within = self.steps.iter().filter_map(|step| match step {
            FloatStep::Tiled { mean, .. } => Some(mean.len() - (part.to + done) % mean.len()),
            _ => None,
        });
        within.chain([most, part.len - done]).min().unwrap_or(most)
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
