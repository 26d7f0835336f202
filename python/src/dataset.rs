//! Sets of samples: by number, in part, drawn, measured, and copied to tiers.

pub(crate) mod sampler;
pub(crate) mod samples;
pub(crate) mod statistics;
pub(crate) mod warming;
