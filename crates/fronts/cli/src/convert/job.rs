//! What is converted, and what came of it.

use std::path::Path;

use forebay::{JoinedFiles, Variable};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::interrupt::Interrupt;

/// What became of a variable.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    /// Only where the format has chunks.
    pub(super) chunk: Option<Vec<u64>>,
    /// Chunks that were written.
    pub(super) chunk_count: u64,
    pub(super) logical_bytes: u64,
    pub(super) stored_bytes: u64,
}

/// What all writers are given.
pub(super) struct ConvertJob<'a> {
    pub(super) opened: &'a JoinedFiles,
    pub(super) variables: Vec<&'a Variable>,
    pub(super) output: &'a Path,
    pub(super) bar: &'a ProgressBar,
    pub(super) interrupt: &'a Interrupt,
}

/// What was written, or nothing where the user wanted an end.
pub(super) type Done = Option<Vec<Written>>;
