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

/// Some thirty years: nobody waits for it, and clocks can still count it.
const LONGEST_S: f64 = 1e9;

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

    /// The same, where times can be drawn from it; what is wrong otherwise.
    pub(crate) fn checked(self) -> Result<Self, String> {
        let (negative, largest) = match self {
            Self::Fixed { mean } => (None, mean),
            Self::Normal { mean, stdev } => (Some(("stdev", stdev)), mean.abs() + stdev.abs()),
            Self::Uniform { min, max } => (None, min.abs().max(max.abs())),
            Self::Gamma { shape, scale } if shape <= 0.0 => (Some(("shape", -1.0)), scale),
            Self::Gamma { shape, scale } => (Some(("scale", scale)), shape * scale),
            Self::Exponential { scale } => (Some(("scale", scale)), scale),
            Self::Poisson { lam } => (Some(("lam", lam)), lam),
        };
        match negative {
            Some((name, value)) if value < 0.0 => Err(format!("a {name} is above 0")),
            _ if largest.abs() > LONGEST_S => Err(format!("a time of more than {LONGEST_S} seconds")),
            _ => Ok(self),
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
