//! Numbers of 16 bits as ones of 64.

/// The half-precision number with these bits.
pub(crate) fn f16(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3ff);
    let size = match bits >> 10 & 0x1f {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2f64.powi(i32::from(exponent) - 15),
    };
    if bits >> 15 == 0 { size } else { -size }
}

/// The bfloat16 number with these bits: the upper half of a single-precision one.
pub(crate) fn bf16(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// The number with the fewest decimal digits that is nearer to the one with these `bits` than to any other.
///
/// What 16 bits hold is 0.0999755859375; what was meant, and what reads back as the same bits, is 0.1.
pub(crate) fn shortest(bits: u16, number: fn(u16) -> f64) -> f64 {
    let exact = number(bits);
    if !exact.is_finite() || exact == 0.0 {
        return exact;
    }
    // One bit pattern up or down is one step away from or to zero.
    let (above, below) = (number(bits + 1), number(bits - 1));
    let near = |guess: f64| {
        let step = if guess.abs() > exact.abs() { above - exact } else { exact - below };
        // Beyond the greatest number lies infinity; the step below it is as wide as the one it lacks.
        let step = if step.is_finite() { step } else { exact - below };
        (guess - exact).abs() < step.abs() / 2.0
    };
    let guesses = (0..10).filter_map(|digits| format!("{exact:.digits$e}").parse().ok());
    guesses.into_iter().find(|guess| near(*guess)).unwrap_or(exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_what_the_standard_says() {
        assert_eq!(f16(0x3c00), 1.0);
        assert_eq!(f16(0xc000), -2.0);
        assert_eq!(f16(0x7bff), 65504.0);
        assert_eq!(f16(0x0001), 2f64.powi(-24));
        assert_eq!(f16(0xfc00), f64::NEG_INFINITY);
        assert!(f16(0x7e00).is_nan());
        assert_eq!(bf16(0x3f80), 1.0);
        assert_eq!(bf16(0x7f80), f64::INFINITY);
    }

    #[test]
    fn the_shortest_decimal_is_the_one_that_was_meant() {
        assert_eq!(shortest(0x2e66, f16), 0.1);
        assert_eq!(shortest(0x3555, f16), 0.3333);
        assert_eq!(shortest(0x7bff, f16), 65500.0);
        assert_eq!(shortest(0x0001, f16), 6e-8);
        assert_eq!(shortest(0xae66, f16), -0.1);
        assert_eq!(shortest(0x3dcd, bf16), 0.1);
        assert_eq!(shortest(0x8000, f16).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn no_two_halves_have_the_same_shortest_decimal() {
        for number in [f16 as fn(u16) -> f64, bf16] {
            let mut all: Vec<_> =
                (0..0x8000).map(|bits| shortest(bits, number)).filter(|one| one.is_finite()).collect();
            let count = all.len();
            all.dedup();
            assert_eq!(all.len(), count);
            assert!(all.is_sorted());
        }
    }
}
