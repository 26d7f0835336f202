//! Numbers of any type in filters that reckon with them: a type is one parameter, a number is its value.

use forebay_source::Result;

use super::corrupt;
use crate::{ByteOrder, Number};

/// The types that filters reckon with; a parameter is a position in here, plus 16 for big-endian.
const NUMBERS: [Number; 10] = [
    Number::I8,
    Number::I16,
    Number::I32,
    Number::I64,
    Number::U8,
    Number::U16,
    Number::U32,
    Number::U64,
    Number::F32,
    Number::F64,
];

/// The parameter that stands for `number` in `order`, for those that filters reckon with.
pub(crate) fn code(number: Number, order: ByteOrder) -> Option<u32> {
    let position = u32::try_from(NUMBERS.iter().position(|known| *known == number)?).ok()?;
    Some(position + if order == ByteOrder::Big { 16 } else { 0 })
}

/// A number's type and byte order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    number: Number,
    order: ByteOrder,
}

/// A number's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Whole(i128),
    Single(f32),
    Double(f64),
}

impl Element {
    /// The type that parameter `index` stands for.
    pub(super) fn from(params: &[u32], index: usize) -> Result<Self> {
        let code = params.get(index).copied().ok_or_else(|| corrupt("a type is missing"))?;
        let number = NUMBERS.get((code & 15) as usize).ok_or_else(|| corrupt("a type nobody knows"))?;
        let order = if code & 16 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        Ok(Self { number: *number, order })
    }

    /// Bytes of one number.
    pub(super) fn len(self) -> usize {
        self.number.size()
    }

    /// The value of `stored`, which is one number long.
    pub(super) fn get(self, stored: &[u8]) -> Value {
        let mut bytes = [0; 8];
        let len = self.len();
        bytes[..len].copy_from_slice(stored);
        if self.order == ByteOrder::Big {
            bytes[..len].reverse();
        }
        let bits = u64::from_le_bytes(bytes);
        let unused = 64 - 8 * len;
        match self.number {
            Number::F64 => Value::Double(f64::from_bits(bits)),
            Number::F32 => {
                let [a, b, c, d, ..] = bytes;
                Value::Single(f32::from_le_bytes([a, b, c, d]))
            }
            number if number.is_signed_integer() => {
                Value::Whole(i128::from((bits << unused).cast_signed() >> unused))
            }
            _ => Value::Whole(i128::from(bits)),
        }
    }

    /// Stores `value` as this type: whole numbers wrap, fractions of whole numbers are dropped.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "NumPy's casts, which these filters are made of, do so"
    )]
    pub(super) fn put(self, value: Value, place: &mut [u8]) {
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
impl Value {
    pub(super) fn as_f64(self) -> f64 {
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
    pub(super) fn plus(self, other: Self, of: Element) -> Self {
        match of.number {
            Number::F64 => Self::Double(self.as_f64() + other.as_f64()),
            Number::F32 => Self::Single(self.as_f32() + other.as_f32()),
            // Cut to the type's own width when it is stored: until then nothing is lost.
            _ => Self::Whole(self.as_whole().wrapping_add(other.as_whole())),
        }
    }
}

/// Turns each number of type `from` in `input` into one of type `to` in `out`; gives the length written.
pub(super) fn map(
    (from, to): (Element, Element),
    input: &[u8],
    out: &mut [u8],
    mut change: impl FnMut(Value) -> Value,
) -> Result<usize> {
    if !input.len().is_multiple_of(from.len()) {
        return Err(corrupt(format!("{} bytes are no whole number of elements", input.len())));
    }
    let len = input.len() / from.len() * to.len();
    let out = out.get_mut(..len).ok_or_else(super::too_long)?;
    for (stored, place) in input.chunks_exact(from.len()).zip(out.chunks_exact_mut(to.len())) {
        to.put(change(from.get(stored)), place);
    }
    Ok(len)
}
