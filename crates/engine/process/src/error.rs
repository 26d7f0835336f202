//! The one error type of the workspace.

use std::{error, fmt, io, sync::Arc};

use rustix::io::Errno;

use crate::descriptors::is_exhausted;

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, by what the caller can do about it.
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
///
/// A clone keeps all of it: each reader that waits for one fetch gets the whole error.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    what: String,
    /// Innermost first: each level that lets the error pass adds the place it knows.
    places: Vec<String>,
    hint: Option<String>,
    cause: Option<Arc<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`, described by `what`: lower case, no full stop.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, what: what.into(), places: Vec::new(), hint: None, cause: None }))
    }

    /// An error for bytes that break the rules of their format.
    pub fn corrupt(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, what)
    }

    /// An error for what is sound, but cannot be read by this build.
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, what)
    }

    /// An error for what the caller asked.
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, what)
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
            _ if is_exhausted(&cause) => {
                let error = Self::new(ErrorKind::Full, cause.to_string()).because(cause);
                return error.hint("raise the limit of open files (ulimit -n)");
            }
            _ => ErrorKind::Io,
        };
        Self::new(kind, cause.to_string()).because(cause)
    }

    /// Says where it happened, from the inside out: the last place added is shown first.
    ///
    /// A place that is named already moves outwards instead: a source names its locator, and so does each layer around
    /// it.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        let place = place.to_string();
        self.0.places.retain(|named| *named != place);
        self.0.places.push(place);
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
        self.0.cause = Some(Arc::from(cause.into()));
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The number of the operating system's error (`errno`) that caused this one, if one did.
    pub fn raw_os_error(&self) -> Option<i32> {
        let mut causes = std::iter::successors(error::Error::source(self), |cause| cause.source());
        causes.find_map(|cause| match cause.downcast_ref::<io::Error>() {
            Some(cause) => cause.raw_os_error(),
            None => cause.downcast_ref::<Errno>().map(|errno| errno.raw_os_error()),
        })
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
    fn a_place_that_is_named_already_is_not_named_twice() {
        let error = Error::new(ErrorKind::Io, "cannot be read").at("byte 0").at("a.h5");
        assert_eq!(error.clone().at("a.h5").to_string(), "a.h5: byte 0: cannot be read");
        assert_eq!(error.at("chunk 3").at("a.h5").to_string(), "a.h5: chunk 3: byte 0: cannot be read");
    }

    #[test]
    fn the_number_of_the_systems_error_is_found_behind_other_causes_and_in_a_clone() {
        let full = || Error::from_io(io::Error::from_raw_os_error(28)).at("byte 0").hint("free some");
        assert_eq!((full().kind(), full().raw_os_error()), (ErrorKind::Full, Some(28)));
        let around = Error::new(ErrorKind::Unavailable, "cannot be copied").because(full());
        assert_eq!(around.clone().raw_os_error(), Some(28));
        assert_eq!(
            Error::new(ErrorKind::Full, "too many files").because(Errno::MFILE).raw_os_error(),
            Some(24)
        );
        assert_eq!(Error::new(ErrorKind::Bug, "a promise was broken").raw_os_error(), None);
        assert_eq!(full().clone().to_string(), full().to_string());
    }

    #[test]
    fn a_missing_file_is_not_found_and_keeps_its_cause() {
        let error = Error::from_io(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error::Error::source(&error).is_some());
    }
}
