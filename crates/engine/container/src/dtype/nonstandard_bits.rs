//! How numbers of nonstandard width or make lie in their bytes, and which plain number holds all their values.

use forebay_filter::Number;
use serde::{Deserialize, Serialize};

/// Where the parts of an odd number lie, in bits from the least significant one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NonstandardBits {
    /// An integer.
    Integer {
        /// Bits below the value.
        shift: u16,
        /// Bits of the value.
        precision: u16,
    },
    /// A float whose leading one is not stored.
    Float {
        /// Position of the sign.
        sign: u8,
        /// Position and number of the exponent's bits.
        exponent: (u8, u8),
        /// Position and number of the mantissa's bits.
        mantissa: (u8, u8),
        /// What is taken from the stored exponent.
        bias: u32,
    },
}

/// Exponent bits, mantissa bits and bias of the plain floats.
pub(crate) const PLAIN: [(u8, u8, u32, Number); 3] =
    [(5, 10, 15, Number::F16), (8, 23, 127, Number::F32), (11, 52, 1023, Number::F64)];

/// The smallest plain float that holds every value of a float made of `bits` in `len` bytes.
pub fn holder(bits: NonstandardBits, len: usize) -> Option<Number> {
    let NonstandardBits::Float { sign, exponent, mantissa, bias } = bits else { return None };
    let room = u8::try_from(len.checked_mul(8)?).ok().filter(|room| *room <= 64)?;
    let fits = |(at, count): (u8, u8)| count > 0 && at.checked_add(count).is_some_and(|end| end <= room);
    if sign >= room || !fits(exponent) || !fits(mantissa) || exponent.1 > 11 {
        return None;
    }
    let highest = (1u32 << exponent.1) - 2;
    PLAIN
        .iter()
        .find(|(exponent_bits, mantissa_bits, plain_bias, _)| {
            let plain_highest = (1u32 << exponent_bits) - 2 - plain_bias;
            exponent.1 <= *exponent_bits
                && mantissa.1 <= *mantissa_bits
                && bias <= *plain_bias
                && highest.saturating_sub(bias) <= plain_highest
        })
        .map(|plain| plain.3)
}
