//! Distributions of simulated times: computation, preprocessing, evaluation.

use serde::{Deserialize, Serialize};

/// How long a simulated step takes, in seconds; of a negative draw the absolute value is taken, as DLIO does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TimeDistribution {
    /// Always the same.
    Fixed {
        /// The time.
        mean: f64,
    },
    /// Normally distributed.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        stdev: f64,
    },
    /// Evenly distributed.
    Uniform {
        /// The shortest.
        min: f64,
        /// The longest.
        max: f64,
    },
    /// Gamma distributed.
    Gamma {
        /// Its shape.
        shape: f64,
        /// Its scale.
        scale: f64,
    },
    /// Exponentially distributed.
    Exponential {
        /// Its scale, which is its mean.
        scale: f64,
    },
    /// Whole seconds, Poisson distributed.
    Poisson {
        /// Its rate, which is its mean.
        lam: f64,
    },
}

impl TimeDistribution {
    /// No time at all.
    pub const ZERO: Self = Self::Fixed { mean: 0.0 };

    /// The same with a standard deviation, where it is a mean alone or normal.
    pub(crate) fn with_stdev(self, stdev: f64) -> Self {
        match self {
            Self::Fixed { mean } | Self::Normal { mean, .. } if stdev > 0.0 => Self::Normal { mean, stdev },
            other => other,
        }
    }

    /// Whether every draw is 0.
    pub fn is_zero(&self) -> bool {
        match *self {
            Self::Fixed { mean } => mean == 0.0,
            Self::Normal { mean, stdev } => mean == 0.0 && stdev == 0.0,
            Self::Uniform { min, max } => min == 0.0 && max == 0.0,
            Self::Gamma { shape, scale } => shape == 0.0 || scale == 0.0,
            Self::Exponential { scale } => scale == 0.0,
            Self::Poisson { lam } => lam == 0.0,
        }
    }
}

impl Default for TimeDistribution {
    fn default() -> Self {
        Self::ZERO
    }
}
