//! What is refused before anything is drawn.

use forebay_process::{Error, ErrorKind, Result};

/// Refuses counts that tables of 32 bits cannot hold.
pub(super) fn check_count(what: &str, count: u64) -> Result<()> {
    if count > u64::from(u32::MAX) {
        let what = format!("{what} {count} is more than {}", u32::MAX);
        return Err(Error::new(ErrorKind::Unsupported, what).hint("draw from a part of the set"));
    }
    Ok(())
}

/// An error of the caller's, and what to do about it.
pub(super) fn invalid(what: impl Into<String>, hint: &str) -> Error {
    Error::new(ErrorKind::Invalid, what.into()).hint(hint.to_owned())
}
