//! Types as people read them.

use std::fmt;

use super::{ByteOrder, Dtype, NonstandardBits};

impl fmt::Display for Dtype {
    /// NumPy's notation where it has one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |order: &ByteOrder, len: usize| match order {
            _ if len == 1 => '|',
            ByteOrder::Little => '<',
            ByteOrder::Big => '>',
        };
        match self {
            Self::Number { number, order } => write!(f, "{}{}", sign(order, number.size()), number.code()),
            Self::Bits { number, order, precision, .. } => {
                write!(f, "{}{}:{precision}", sign(order, number.size()), number.code())
            }
            Self::Nonstandard { len, order, bits: NonstandardBits::Integer { precision, .. }, .. } => {
                write!(f, "{}{}-byte integer of {precision} bits", sign(order, *len), len)
            }
            Self::Nonstandard {
                len, order, bits: NonstandardBits::Float { exponent, mantissa, .. }, ..
            } => {
                let (exponent, mantissa) = (exponent.1, mantissa.1);
                write!(f, "{}{len}-byte float of {exponent}+{mantissa} bits", sign(order, *len))
            }
            Self::Complex { part, order } => write!(f, "{}c{}", sign(order, 2), 2 * part.size()),
            Self::Enum { .. } if self.is_bool() => f.write_str("bool"),
            Self::Enum { base, members } => {
                write!(f, "enum {base} {{")?;
                for (index, member) in members.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}={}", member.name, member.value)?;
                }
                f.write_str("}")
            }
            Self::Text { len, .. } => write!(f, "|S{len}"),
            Self::VarText { .. } => f.write_str("string"),
            Self::Opaque { len, .. } => write!(f, "|V{len}"),
            Self::Compound { fields, .. } => {
                f.write_str("{")?;
                for (index, field) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}: {}", field.name, field.dtype)?;
                }
                f.write_str("}")
            }
            Self::Array { shape, item } => write!(f, "{item}{shape:?}"),
            Self::Sequence { item, .. } => write!(f, "sequence of {item}"),
            Self::Reference { to, .. } => write!(f, "{to} reference"),
            Self::Other { what, .. } => f.write_str(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Number;

    #[test]
    fn types_are_shown_as_numpy_writes_them() {
        let big = Dtype::Number { number: Number::F32, order: ByteOrder::Big };
        assert_eq!(big.to_string(), ">f4");
        assert_eq!(Dtype::native(Number::U8).to_string(), "|u1");
        assert_eq!(Dtype::Array { shape: vec![2, 3], item: Box::new(big) }.to_string(), ">f4[2, 3]");
    }
}
