//! Ctrl-C in a wait: how often it is looked for, and the error that the wait ends with.

use std::time::Duration;

use forebay::{Error, ErrorKind};

/// How often a wait looks whether the run was interrupted.
pub(crate) const GLANCE: Duration = Duration::from_millis(50);

/// What an interrupted wait ends with; [`is_interruption`] knows it again.
pub(crate) fn interrupted() -> Error {
    Error::new(ErrorKind::Unavailable, INTERRUPTED)
}

const INTERRUPTED: &str = "interrupted";

/// True for the end of a wait by Ctrl-C.
pub(crate) fn is_interruption(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable && error.to_string().contains(INTERRUPTED)
}
