//! The program that the benchmark is part of.

use std::ffi::OsString;

use forebay::{Origins, tier::Tiered};

/// The program that runs the benchmark.
pub struct BenchHost<'a> {
    /// The command line that starts this program.
    pub program: Vec<OsString>,
    /// The arguments that it was started with.
    pub arguments: Vec<OsString>,
    /// Where files are read by engine forebay, tiers included.
    pub origins: &'a Origins,
    /// The tiers that they are read through.
    pub tiers: Option<&'a Tiered>,
    /// True when programs read the answer.
    pub is_json: bool,
    /// True when the user wants an end.
    pub is_interrupted: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for BenchHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.program)
    }
}
