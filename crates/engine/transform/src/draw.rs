//! Random numbers of transforms: a formula of the sample's seed, given to users in Python too.

use forebay_plan::splitmix64;

/// What a number is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrawKind {
    Crop = 1,
    Flip = 2,
    Roll = 3,
    Picture = 4,
}

/// What one transform draws for one axis of a sample: `splitmix64(seed ^ splitmix64(kind << 48 | from_end << 32 | key))`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// `from_end` is 1 for the last axis: a picture with channels and a mask without have the same rows and columns.
    pub(crate) fn new(seed: u64, kind: DrawKind, from_end: usize, key: u32) -> Self {
        let purpose = (kind as u64) << 48 | (from_end as u64 & 0xffff) << 32 | u64::from(key);
        Self(splitmix64(seed ^ splitmix64(purpose)))
    }

    /// A number below `len`: the upper half of the product.
    pub(crate) fn below(self, len: u64) -> u64 {
        u64::try_from((u128::from(self.0) * u128::from(len)) >> u64::BITS)
            .expect("the upper half of 128 bits")
    }

    /// A number from 0 to 1, 1 left out: the upper 53 bits.
    pub(crate) fn fraction(self) -> f64 {
        ((self.0 >> 11) as f64) * (1.0 / (1u64 << 53) as f64)
    }

    /// True with `probability`: the fraction is less.
    pub(crate) fn happens(self, probability: f64) -> bool {
        self.fraction() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_python_computes() {
        // forebay.transforms.draw(7, "crop", 1), and so on.
        assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(1), 0x910a_2dec_8902_5cc1);
        let draw = Draw::new(7, DrawKind::Crop, 1, 0);
        assert_eq!(draw.0, splitmix64(7 ^ splitmix64(1 << 48 | 1 << 32)));
        assert!(draw.below(10) < 10);
    }

    #[test]
    fn a_coin_falls_on_either_side_as_often_as_said() {
        let heads = (0..10_000).filter(|seed| Draw::new(*seed, DrawKind::Flip, 1, 0).happens(0.25)).count();
        assert!((2_300..2_700).contains(&heads), "{heads}");
        assert!((0..100).all(|seed| Draw::new(seed, DrawKind::Flip, 1, 0).happens(1.0)));
        assert!(!(0..100).any(|seed| Draw::new(seed, DrawKind::Flip, 1, 0).happens(0.0)));
    }

    #[test]
    fn axes_kinds_and_keys_draw_apart() {
        let all =
            [(DrawKind::Crop, 1, 0), (DrawKind::Crop, 2, 0), (DrawKind::Crop, 1, 1), (DrawKind::Roll, 1, 0)];
        let drawn: Vec<u64> =
            all.iter().map(|(kind, axis, key)| Draw::new(9, *kind, *axis, *key).below(1 << 40)).collect();
        assert!((1..4).all(|at| !drawn[..at].contains(&drawn[at])), "{drawn:?}");
    }
}
