//! Standard output, whose reader may leave.

pub(crate) mod color;
pub(crate) mod layout;
pub(crate) mod progress;
mod shortest;
pub(crate) mod show;
pub(crate) mod value;

use std::{
    fmt::Display,
    io::{self, BufWriter, StdoutLock, Write},
};

use forebay::{Error, Result};

/// Standard output, buffered.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Writes a line to standard output.
pub(crate) fn say(line: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::from_io)
}
