//! Numbers of widths and makes no tensor has, widened to the plain number that holds all their values.

use crate::{
    ByteOrder, Number,
    dtype::{Dtype, NonstandardBits, PLAIN},
};

/// Widens `stored` elements of an odd type into `out`, which has as many plain ones.
pub fn widen(dtype: &Dtype, stored: &[u8], out: &mut [u8]) {
    let Dtype::Nonstandard { len, order, number, bits } = dtype else { return };
    let size = number.size();
    for (element, slot) in stored.chunks_exact(*len).zip(out.chunks_exact_mut(size)) {
        let mut bytes = [0; 8];
        bytes[..*len].copy_from_slice(element);
        if *order == ByteOrder::Big {
            bytes[..*len].reverse();
        }
        let value = u64::from_le_bytes(bytes);
        let plain = match *bits {
            NonstandardBits::Integer { shift, precision } => integer(value, shift, precision, *number),
            NonstandardBits::Float { sign, exponent, mantissa, bias } => {
                let field =
                    |(at, count): (u8, u8)| value >> at & !(u64::MAX.checked_shl(count.into()).unwrap_or(0));
                let float = Float {
                    is_negative: value >> sign & 1 == 1,
                    exponent: field(exponent),
                    all_ones: (1 << exponent.1) - 1,
                    mantissa: field(mantissa),
                    mantissa_bits: mantissa.1.into(),
                    bias: bias.into(),
                };
                float.plain(*number)
            }
        };
        slot.copy_from_slice(&plain.to_le_bytes()[..size]);
    }
}

fn integer(value: u64, shift: u16, precision: u16, number: Number) -> u64 {
    let unused = 64 - u32::from(precision);
    let bits = value >> shift << unused;
    if number.is_signed_integer() { (bits.cast_signed() >> unused).cast_unsigned() } else { bits >> unused }
}

struct Float {
    is_negative: bool,
    exponent: u64,
    all_ones: u64,
    mantissa: u64,
    mantissa_bits: i64,
    bias: i64,
}

impl Float {
    /// The bits of the plain float of the same value.
    fn plain(&self, number: Number) -> u64 {
        let Some((exponent_bits, mantissa_bits, bias, _)) = PLAIN.iter().find(|plain| plain.3 == number)
        else {
            return 0;
        };
        let (mantissa_bits, bias) = (i64::from(*mantissa_bits), i64::from(*bias));
        let sign = u64::from(self.is_negative) << (i64::from(*exponent_bits) + mantissa_bits);
        let widened = self.mantissa << (mantissa_bits - self.mantissa_bits);
        let all_ones = (1u64 << exponent_bits) - 1;
        if self.exponent == self.all_ones {
            // Infinity stays infinity; the library makes every NaN one of all ones.
            let nan = (1 << mantissa_bits) - 1;
            return sign | all_ones << mantissa_bits | if self.mantissa == 0 { 0 } else { nan };
        }
        if self.exponent == 0 && self.mantissa == 0 {
            return sign;
        }
        // The value is 1.fraction times two to the exponent, once a leading one is found.
        let (exponent, fraction) = if self.exponent == 0 {
            let shift = i64::from(widened.leading_zeros()) - (63 - mantissa_bits);
            (1 - self.bias - shift, widened << shift)
        } else {
            (self.exponent.cast_signed() - self.bias, widened | 1 << mantissa_bits)
        };
        let stored = exponent + bias;
        if stored >= 1 {
            return sign | stored.cast_unsigned() << mantissa_bits | fraction & !(1 << mantissa_bits);
        }
        sign | fraction >> (1 - stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::holder;

    #[test]
    fn a_three_byte_integer_keeps_its_sign() {
        let bits = NonstandardBits::Integer { shift: 0, precision: 24 };
        let dtype = Dtype::Nonstandard { len: 3, order: ByteOrder::Big, number: Number::I32, bits };
        let mut out = [0; 8];
        widen(&dtype, &[0xff, 0xff, 0xfe, 0x00, 0x01, 0x00], &mut out);
        assert_eq!(out, [[0xfe, 0xff, 0xff, 0xff], [0, 1, 0, 0]].concat()[..]);
    }

    #[test]
    fn a_float_without_a_mantissa_or_outside_its_bytes_has_no_holder() {
        let float = |exponent, mantissa| NonstandardBits::Float { sign: 15, exponent, mantissa, bias: 15 };
        assert_eq!(holder(float((8, 5), (0, 8)), 2), Some(Number::F16));
        for bits in
            [float((8, 5), (16, 0)), float((8, 0), (0, 8)), float((12, 5), (0, 8)), float((8, 5), (0, 17))]
        {
            assert_eq!(holder(bits, 2), None, "{bits:?}");
        }
    }

    #[test]
    fn every_eight_bit_float_has_its_value() {
        let bits = NonstandardBits::Float { sign: 7, exponent: (3, 4), mantissa: (0, 3), bias: 7 };
        assert_eq!(holder(bits, 1), Some(Number::F16));
        let dtype = Dtype::Nonstandard { len: 1, order: ByteOrder::Little, number: Number::F32, bits };
        for code in 0..=255u8 {
            let mut out = [0; 4];
            widen(&dtype, &[code], &mut out);
            let value = f32::from_le_bytes(out);
            let (exponent, mantissa) = (i32::from(code >> 3 & 15), f32::from(code & 7));
            let size = match exponent {
                15 if mantissa == 0.0 => f32::INFINITY,
                15 => f32::NAN,
                0 => mantissa * 2f32.powi(-9),
                _ => (8.0 + mantissa) * 2f32.powi(exponent - 10),
            };
            let wanted = if code & 0x80 != 0 { -size } else { size };
            assert!(value == wanted || value.is_nan() && wanted.is_nan(), "{code}: {value} for {wanted}");
        }
    }
}
