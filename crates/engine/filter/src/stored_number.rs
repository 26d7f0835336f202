//! Numbers of any type in the filters that compute with them.

use crate::error::too_long;
use forebay_process::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::{ByteOrder, Number};

/// A number's type and byte order, of the types that filters of numcodecs compute with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredNumber {
    number: Number,
    order: ByteOrder,
}

/// A number's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NumberValue {
    Whole(i128),
    Single(f32),
    Double(f64),
}

impl StoredNumber {
    /// `number` in `order`; `None` for half-precision floats, which these filters do not compute with.
    pub fn new(number: Number, order: ByteOrder) -> Option<Self> {
        (!matches!(number, Number::F16 | Number::Bf16)).then_some(Self { number, order })
    }

    /// Bytes of one number.
    pub(crate) fn len(self) -> usize {
        self.number.size()
    }

    /// The value of `stored`, which is one number long.
    pub(crate) fn get(self, stored: &[u8]) -> NumberValue {
        let mut bytes = [0; 8];
        let len = self.len();
        bytes[..len].copy_from_slice(stored);
        if self.order == ByteOrder::Big {
            bytes[..len].reverse();
        }
        let bits = u64::from_le_bytes(bytes);
        let unused = 64 - 8 * len;
        match self.number {
            Number::F64 => NumberValue::Double(f64::from_bits(bits)),
            Number::F32 => {
                let [a, b, c, d, ..] = bytes;
                NumberValue::Single(f32::from_le_bytes([a, b, c, d]))
            }
            number if number.is_signed_integer() => {
                NumberValue::Whole(i128::from((bits << unused).cast_signed() >> unused))
            }
            _ => NumberValue::Whole(i128::from(bits)),
        }
    }

    /// Stores `value` as this type: whole numbers wrap, fractions of whole numbers are dropped.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "NumPy's casts, which these filters are made of, do so"
    )]
    pub(crate) fn put(self, value: NumberValue, place: &mut [u8]) {
        let bits = match self.number {
            Number::F64 => value.as_f64().to_bits(),
            Number::F32 => u64::from(value.as_f32().to_bits()),
            _ => value.as_whole().cast_unsigned() as u64,
        };
        let len = self.len();
        place.copy_from_slice(&bits.to_le_bytes()[..len]);
        if self.order == ByteOrder::Big {
            place.reverse();
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "NumPy's casts, which these filters are made of, do so"
)]
impl NumberValue {
    pub(crate) fn as_f64(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Single(value) => f64::from(value),
            Self::Double(value) => value,
        }
    }

    fn as_f32(self) -> f32 {
        match self {
            Self::Whole(value) => value as f32,
            Self::Single(value) => value,
            Self::Double(value) => value as f32,
        }
    }

    fn as_whole(self) -> i128 {
        match self {
            Self::Whole(value) => value,
            Self::Single(value) => value as i128,
            Self::Double(value) => value as i128,
        }
    }

    /// The sum as numbers of type `of` add up.
    pub(crate) fn plus(self, other: Self, of: StoredNumber) -> Self {
        match of.number {
            Number::F64 => Self::Double(self.as_f64() + other.as_f64()),
            Number::F32 => Self::Single(self.as_f32() + other.as_f32()),
            // Cut to the type's own width when it is stored: until then nothing is lost.
            _ => Self::Whole(self.as_whole().wrapping_add(other.as_whole())),
        }
    }
}

/// Turns each number of type `from` in `input` into one of type `to` in `out`; gives the length written.
pub(crate) fn map(
    (from, to): (StoredNumber, StoredNumber),
    input: &[u8],
    out: &mut [u8],
    mut change: impl FnMut(NumberValue) -> NumberValue,
) -> Result<usize> {
    if !input.len().is_multiple_of(from.len()) {
        return Err(Error::corrupt(format!("{} bytes are no whole number of elements", input.len())));
    }
    let len = input.len() / from.len() * to.len();
    let out = out.get_mut(..len).ok_or_else(too_long)?;
    for (stored, place) in input.chunks_exact(from.len()).zip(out.chunks_exact_mut(to.len())) {
        to.put(change(from.get(stored)), place);
    }
    Ok(len)
}
