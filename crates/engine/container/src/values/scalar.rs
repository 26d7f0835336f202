//! One number of any type, exactly.

use forebay_filter::Number;
use half::{bf16, f16};

/// One number, whatever its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A whole number.
    Integer(i128),
    /// A float.
    Float(f64),
}

impl Scalar {
    /// The number in `element`.
    pub fn of(number: Number, element: &[u8]) -> Self {
        let mut bytes = [0; 8];
        bytes[..element.len()].copy_from_slice(element);
        let bits = u64::from_le_bytes(bytes);
        let unused = 64 - 8 * u32::try_from(element.len()).unwrap_or(8);
        let low = u16::from_le_bytes([bytes[0], bytes[1]]);
        match number {
            Number::F32 => Self::Float(f32::from_bits(u32::try_from(bits).unwrap_or(0)).into()),
            Number::F64 => Self::Float(f64::from_bits(bits)),
            Number::F16 => Self::Float(f16::from_bits(low).into()),
            Number::Bf16 => Self::Float(bf16::from_bits(low).into()),
            _ if number.is_signed_integer() => Self::Integer((bits.cast_signed() << unused >> unused).into()),
            _ => Self::Integer(bits.into()),
        }
    }

    /// The float nearest to it.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}
