//! Boxes of one size at regular places along one axis.

/// How boxes lie along one axis.
#[derive(Clone, Copy, Debug)]
pub struct WindowAxis {
    /// Elements of a box.
    pub size: u64,
    /// From one element to the next.
    pub step: u64,
    /// From one box to the next.
    pub stride: u64,
    /// How many boxes.
    pub count: u64,
}

impl WindowAxis {
    /// The whole of an axis.
    pub fn whole(len: u64) -> Self {
        Self { size: len, step: 1, stride: len.max(1), count: 1 }
    }
}
