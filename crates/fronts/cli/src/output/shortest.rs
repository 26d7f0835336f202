//! Half-precision numbers with no more digits than they need.

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

    fn f16(bits: u16) -> f64 {
        half::f16::from_bits(bits).into()
    }

    fn bf16(bits: u16) -> f64 {
        half::bf16::from_bits(bits).into()
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
