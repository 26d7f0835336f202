//! Steps of a transform once they were checked: axes by place, numbers in the precision that is computed with.

use forebay_container::Number;

use crate::spec::CropPlace;

/// A change of places along one axis of the sample.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisMove {
    pub(crate) axis: usize,
    /// The same, counted from the end: 1 is the last.
    pub(crate) from_end: usize,
    pub(crate) key: u32,
    pub(crate) kind: MoveKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MoveKind {
    Crop { size: usize, place: CropPlace },
    Flip { probability: f64 },
    Roll,
}

/// A change of values, in 32-bit floats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ValueOp {
    Normalize { mean: Vec<f32>, std: Vec<f32>, axis: Option<usize> },
    Log { add: f64 },
    Clip { low: f32, high: f32 },
}

/// What values end as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndType {
    /// What they were, byte by byte.
    Kept,
    /// Another number.
    Number(Number),
    /// A row with one number for each class.
    OneHot { classes: usize, to: Number },
}
