//! Random numbers: NumPy's legacy generator (MT19937), whose shuffles DLIO's orders are, and the distributions of times.

use crate::distribution::TimeDistribution;

const N: usize = 624;
const M: usize = 397;

/// The Mersenne Twister MT19937, seeded as `numpy.random.seed` seeds it.
#[derive(Clone, Debug)]
pub struct Mt19937 {
    words: Box<[u32; N]>,
    next: usize,
}

impl Mt19937 {
    /// The generator that `numpy.random.seed(seed)` makes.
    pub fn seeded(seed: u32) -> Self {
        let mut words = Box::new([0; N]);
        words[0] = seed;
        for index in 1..N {
            let before: u32 = words[index - 1];
            let position = u32::try_from(index).expect("624 numbers");
            words[index] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(position);
        }
        Self { words, next: N }
    }

    /// 32 random bits.
    pub(crate) fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.twist();
        }
        let mut word = self.words[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number from 0 to `last`, by masking and rejection, as NumPy draws it for shuffles.
    pub fn up_to(&mut self, last: u64) -> u64 {
        if last == 0 {
            return 0;
        }
        let mask = u64::MAX >> last.leading_zeros();
        loop {
            let value = match u32::try_from(mask) {
                Ok(mask) => u64::from(self.next_u32() & mask),
                Err(_) => ((u64::from(self.next_u32()) << 32) | u64::from(self.next_u32())) & mask,
            };
            if value <= last {
                return value;
            }
        }
    }

    /// Shuffles as `numpy.random.shuffle` does.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.up_to(last as u64)).expect("an index below the length");
            items.swap(last, other);
        }
    }

    /// A number from 0 to 1, without 1, of 53 random bits.
    pub fn next_f64(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    fn twist(&mut self) {
        for index in 0..N {
            let word = (self.words[index] & 0x8000_0000) | (self.words[(index + 1) % N] & 0x7fff_ffff);
            let odd = if word & 1 == 1 { 0x9908_b0df } else { 0 };
            self.words[index] = self.words[(index + M) % N] ^ (word >> 1) ^ odd;
        }
        self.next = 0;
    }

    fn normal(&mut self) -> f64 {
        // Box-Muller; 1 - u is never 0.
        let radius = (-2.0 * (1.0 - self.next_f64()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.next_f64()).cos()
    }

    fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let boost = (1.0 - self.next_f64()).powf(1.0 / shape);
            return self.gamma(shape + 1.0) * boost;
        }
        // Marsaglia and Tsang, 2000.
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && (1.0 - self.next_f64()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }

    fn poisson(&mut self, lam: f64) -> f64 {
        // A sum of exponential times: `lam` steps, which are seconds of a sleep.
        let mut count = 0.0;
        let mut time = -(1.0 - self.next_f64()).ln();
        while time < lam {
            count += 1.0;
            time -= (1.0 - self.next_f64()).ln();
        }
        count
    }
}

impl TimeDistribution {
    /// Draws a time in seconds, never negative.
    pub fn draw(&self, random: &mut Mt19937) -> f64 {
        let drawn = match *self {
            Self::Fixed { mean } => mean,
            Self::Normal { mean, stdev } => mean + stdev * random.normal(),
            Self::Uniform { min, max } => min + (max - min) * random.next_f64(),
            Self::Gamma { shape, scale } => scale * random.gamma(shape),
            Self::Exponential { scale } => -scale * (1.0 - random.next_f64()).ln(),
            Self::Poisson { lam } => random.poisson(lam),
        };
        drawn.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean and the standard deviation of many draws.
    fn moments(distribution: TimeDistribution) -> (f64, f64) {
        let mut random = Mt19937::seeded(7);
        let draws: Vec<f64> = (0..100_000).map(|_| distribution.draw(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn distributions_have_the_mean_and_deviation_they_are_given() {
        let near = |distribution, mean: f64, stdev: f64| {
            let found = moments(distribution);
            assert!(
                (found.0 - mean).abs() < 0.02 * mean && (found.1 - stdev).abs() < 0.03 * stdev.max(0.01),
                "{distribution:?}: {found:?}"
            );
        };
        near(TimeDistribution::Fixed { mean: 0.323 }, 0.323, 0.0);
        near(TimeDistribution::Normal { mean: 5.0, stdev: 0.5 }, 5.0, 0.5);
        near(TimeDistribution::Uniform { min: 1.0, max: 3.0 }, 2.0, (4.0f64 / 12.0).sqrt());
        near(TimeDistribution::Gamma { shape: 2.0, scale: 3.0 }, 6.0, 3.0 * 2.0f64.sqrt());
        near(TimeDistribution::Gamma { shape: 0.5, scale: 1.0 }, 0.5, 0.5f64.sqrt());
        near(TimeDistribution::Exponential { scale: 0.2 }, 0.2, 0.2);
        near(TimeDistribution::Poisson { lam: 4.0 }, 4.0, 2.0);
    }

    #[test]
    fn a_negative_draw_becomes_positive() {
        let mut random = Mt19937::seeded(1);
        let wide = TimeDistribution::Normal { mean: 0.0, stdev: 1.0 };
        assert!((0..1000).all(|_| wide.draw(&mut random) >= 0.0));
    }

    /// `import numpy as np; np.random.seed(123); print([int(np.random.randint(2**32, dtype=np.uint32)) for _ in range(3)])`
    /// and `a = np.arange(12); np.random.seed(124); np.random.shuffle(a); print(a)`, NumPy 2.4.6.
    #[test]
    fn numbers_and_shuffles_are_those_of_numpy() {
        let mut random = Mt19937::seeded(123);
        assert_eq!(
            [random.next_u32(), random.next_u32(), random.next_u32()],
            [2_991_312_382, 3_062_119_789, 1_228_959_102]
        );
        let mut items: Vec<u32> = (0..12).collect();
        Mt19937::seeded(124).shuffle(&mut items);
        assert_eq!(items, [9, 8, 11, 3, 5, 6, 10, 4, 0, 2, 7, 1]);
    }
}
