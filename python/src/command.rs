//! The `forebay` command, for the entry point that the package installs.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line `args`, whose first is the program's name, and gives the exit code; `program` is the command line
/// that starts it again.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, args: Vec<OsString>, program: Vec<OsString>) -> u8 {
    py.detach(|| forebay_cli::run_as(program, args))
}
