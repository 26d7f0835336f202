//! Standard output, whose reader may leave.

use std::{
    fmt::Display,
    io::{self, BufWriter, StdoutLock, Write},
};

use forebay::{Error, Result};

use crate::show;

/// Standard output, buffered.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Tells the user on standard error what is not as he may think; the command goes on.
pub(crate) fn warn(what: &str) {
    // A user who closed it does not want to know.
    let _ = writeln!(io::stderr(), "forebay: warning: {}", show::message(what));
}

/// Writes a line to standard output.
pub(crate) fn say(line: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::from_io)
}
