//! Numbers stored as `(number - offset) * scale`, numcodecs' fixed scale and offset.

use forebay_process::Result;

use crate::stored_number::{NumberValue, StoredNumber, map};

/// What was done to each number.
pub(crate) struct FixedScaleCoding {
    pub(crate) scale: f64,
    pub(crate) offset: f64,
}

impl FixedScaleCoding {
    pub(crate) fn decode(
        &self,
        decoded: StoredNumber,
        encoded: StoredNumber,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<usize> {
        map((encoded, decoded), input, out, |stored| self.restore(stored))
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "4-byte floats are computed with as such, as NumPy does"
    )]
    fn restore(&self, stored: NumberValue) -> NumberValue {
        match stored {
            NumberValue::Single(stored) => {
                NumberValue::Single(stored / self.scale as f32 + self.offset as f32)
            }
            stored => NumberValue::Double(stored.as_f64() / self.scale + self.offset),
        }
    }
}
