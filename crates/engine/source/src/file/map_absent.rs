//! Where files are not mapped, all are read.

use std::fs::File;

use crate::{
    file::mapping_mode::{MappedCopy, MappingMode},
    range::{ByteRange, Fill},
};

/// Whether and how this process maps files.
pub fn mapping() -> MappingMode {
    MappingMode::Off
}

/// A file's mapping: none.
#[derive(Debug)]
pub(crate) struct Mapped;

impl Mapped {
    pub(crate) fn new(_: u64) -> Self {
        Self
    }

    pub(crate) fn never(_: u64) -> Self {
        Self
    }

    pub(crate) fn copy(&self, _: &mut [Fill<'_>]) -> MappedCopy {
        MappedCopy::Not
    }

    pub(crate) fn will_read(&self, _: ByteRange) {}

    pub(crate) fn is_due(&self, _: u64) -> bool {
        false
    }

    pub(crate) fn decide(&self, _: &File) {}
}
