//! What is known of a field before the first batch.

use forebay_container::{Dtype, Number, cf::ValueKind};

/// Name, type and shape of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldForm {
    /// Its name.
    pub name: String,
    /// The type of its elements in a batch.
    pub dtype: Dtype,
    /// What they stand for.
    pub kind: ValueKind,
    /// The shape of one sample; `None` along the axis whose length differs.
    pub sample_shape: Vec<Option<u64>>,
}

impl FieldForm {
    /// The type of its elements, where they are numbers to compute with.
    pub(crate) fn number(&self) -> Option<Number> {
        match self.kind {
            ValueKind::Number | ValueKind::Days(_) => self.dtype.number(),
            // Truth values are bytes of 0 and 1.
            ValueKind::Bool => Some(Number::U8),
            _ => None,
        }
    }

    /// True when samples differ in length.
    pub(crate) fn is_ragged(&self) -> bool {
        self.sample_shape.contains(&None)
    }
}
