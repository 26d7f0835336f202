//! Whether and how files are mapped, the same where none can be.

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

/// Whether bytes were copied from a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MappedCopy {
    /// All were, and are unverified.
    #[cfg_attr(
        not(all(target_os = "linux", target_pointer_width = "64")),
        expect(dead_code, reason = "the same answers as where files are mapped")
    )]
    Whole,
    /// They have to be read.
    Not,
}
