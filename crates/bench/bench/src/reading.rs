//! HDF5 files read sample by sample, by a rank alone or by all together, and the drivers for it.

pub(crate) mod parallel_access;
pub(crate) mod sample_reader;
pub(crate) mod subfiling;
