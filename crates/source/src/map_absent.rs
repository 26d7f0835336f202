//! Where files are not mapped, all are read.

use std::fs::File;

use crate::{ByteRange, Fill};

/// Whether this process copies near files from mappings, and how it learns what is in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingMode {
    /// It does, and the kernel tells by `cachestat`.
    ByCachestat,
    /// It does, and tries bytes to learn it: the kernel has no `cachestat`, or does not answer it.
    ByTrying,
    /// It does not: `FOREBAY_MAP=off`, or it cannot.
    Off,
}

/// Whether and how this process maps files.
pub fn mapping() -> MappingMode {
    MappingMode::Off
}

/// A file's mapping: none.
#[derive(Debug)]
pub(crate) struct Mapped;

/// Whether bytes were copied from a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappedCopy {
    /// All were.
    #[expect(dead_code, reason = "the same answers as where files are mapped")]
    Whole,
    /// They have to be read.
    Not,
}

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
