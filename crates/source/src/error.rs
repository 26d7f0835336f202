//! The one error type of the workspace.

use std::{error, fmt, io};

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, told by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing is there. Ask for something else.
    NotFound,
    /// The request makes no sense. Fix the caller.
    Invalid,
    /// The bytes break their own format. Restore the file.
    Corrupt,
    /// A valid request this build cannot serve. Read it another way.
    Unsupported,
    /// It may work if tried again later.
    Unavailable,
    /// No room is left. Free some, or ask for less.
    Full,
    /// The system does not let this user do it.
    Denied,
    /// The system refused, and trying again will not help.
    Io,
    /// A promise inside forebay was broken. Report it.
    Bug,
}

/// An error: its kind, what was wrong, where, what helps, and what caused it.
///
/// Shown as `file: variable 't2m': chunk 418 at 0x1f3a0000: bad checksum; restore the file`.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    what: String,
    /// Innermost first: each level that lets the error pass adds the place it knows.
    places: Vec<String>,
    hint: Option<String>,
    cause: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`, described by `what`: lower case, no full stop.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, what: what.into(), places: Vec::new(), hint: None, cause: None }))
    }

    /// The error for what the operating system answered.
    pub fn from_io(cause: io::Error) -> Self {
        use io::ErrorKind as Io;
        let kind = match cause.kind() {
            Io::NotFound | Io::NotADirectory => ErrorKind::NotFound,
            Io::PermissionDenied => ErrorKind::Denied,
            Io::StorageFull | Io::QuotaExceeded | Io::OutOfMemory => ErrorKind::Full,
            Io::TimedOut | Io::WouldBlock | Io::ResourceBusy | Io::ConnectionReset => ErrorKind::Unavailable,
            Io::InvalidInput | Io::IsADirectory => ErrorKind::Invalid,
            _ => ErrorKind::Io,
        };
        Self::new(kind, cause.to_string()).because(cause)
    }

    /// Says where it happened, from the inside out: the last place added is shown first.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.0.places.push(place.to_string());
        self
    }

    /// Says what the reader of the message can do about it.
    #[must_use]
    pub fn hint(mut self, remedy: impl Into<String>) -> Self {
        self.0.hint = Some(remedy.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for place in self.0.places.iter().rev() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.0.what)?;
        match &self.0.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| &**cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_costs_one_pointer() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn places_are_shown_from_the_outside_in_and_the_hint_last() {
        let error = Error::new(ErrorKind::Corrupt, "bad checksum")
            .at("chunk 3 at 0x10")
            .at("a.h5")
            .hint("restore the file");
        assert_eq!(error.to_string(), "a.h5: chunk 3 at 0x10: bad checksum; restore the file");
    }

    #[test]
    fn a_missing_file_is_not_found_and_keeps_its_cause() {
        let error = Error::from_io(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error::Error::source(&error).is_some());
    }
}
