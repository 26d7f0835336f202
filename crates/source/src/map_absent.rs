//! Where files are not mapped, all are read.

use std::fs::File;

use crate::{ByteRange, Fill};

/// Whether this process copies near files from mappings, and how it learns what is in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// It does, and the kernel tells by `cachestat`.
    ByCachestat,
    /// It does, and tries bytes to learn it: the kernel has no `cachestat`, or does not answer it.
    ByTrying,
    /// It does not: it was told not to, or cannot.
    Off,
}

/// How it stands with mappings in this process.
pub fn mapping() -> Mapping {
    Mapping::Off
}

/// A file's mapping: none.
#[derive(Debug)]
pub(crate) struct Mapped;

/// Whether bytes were copied from a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
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

    pub(crate) fn copy(&self, _: &mut [Fill<'_>]) -> Copied {
        Copied::Not
    }

    pub(crate) fn expect(&self, _: ByteRange) {}

    pub(crate) fn is_due(&self, _: u64) -> bool {
        false
    }

    pub(crate) fn decide(&self, _: &File) {}
}
