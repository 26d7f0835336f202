//! HDF5 among the formats, and with it NetCDF-4 and every other format built on HDF5.

use forebay_container::Container;
use forebay_process::Result;

use crate::{Format, Found};

/// The HDF5 format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hdf5;

impl Format for Hdf5 {
    fn name(&self) -> &str {
        "hdf5"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        found.probe_superblock()
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        forebay_hdf5::describe_opened(found.origin, found.at, found.hdf5()?)
    }
}
