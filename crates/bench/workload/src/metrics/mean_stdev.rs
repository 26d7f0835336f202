//! Mean and standard deviation.

use serde::{Deserialize, Serialize};

/// Mean and standard deviation of the whole population, as `numpy.mean` and `numpy.std` give them; both 0 of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeanStdev {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub stdev: f64,
}

impl MeanStdev {
    /// The spread of `values`.
    pub fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Self { mean, stdev: variance.sqrt() }
    }

    /// The same in other units.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, stdev: self.stdev * factor }
    }
}

/// `part / whole`, and 0 where there is no whole.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
