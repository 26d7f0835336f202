//! Errors of ours, told as HDF5's own driver would tell them: programs read the number of the system's error from the text.

use std::{io, path::Path};

use forebay_libhdf5::{
    ErrorStack,
    error_stack::{ErrorNumbers, MajorError, MinorError},
};
use forebay_process::{Error, ErrorKind};

/// What could not be done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    Open,
    Read { at: u64, len: usize },
    Write { at: u64, len: usize },
    Truncate,
    Flush,
    Close,
}

/// Puts `error` on top of the error stack.
pub(crate) fn tell(stack: &ErrorStack, failure: Failure, file: &Path, error: &Error) {
    let (major, minor) = match failure {
        Failure::Open => (MajorError::File, MinorError::CantOpenFile),
        Failure::Read { .. } => (MajorError::Io, MinorError::Read),
        Failure::Write { .. } | Failure::Flush => (MajorError::Io, MinorError::Write),
        Failure::Truncate => (MajorError::Io, MinorError::Seek),
        Failure::Close => (MajorError::Io, MinorError::CantCloseFile),
    };
    stack.push(ErrorNumbers { major, minor }, &text(failure, file, error));
}

fn text(failure: Failure, file: &Path, error: &Error) -> String {
    let number = error.raw_os_error().unwrap_or(number_of(error.kind()));
    let system = io::Error::from_raw_os_error(number).to_string();
    // Without Rust's own ending.
    let system = system.split(" (os error").next().unwrap_or_default();
    let file = file.display();
    let numbers = format!("errno = {number}, error message = '{system}'");
    match failure {
        Failure::Open => format!("unable to open file: name = '{file}', {numbers}, forebay: {error}"),
        Failure::Read { at, len } => {
            format!(
                "file read failed: filename = '{file}', {numbers}, total read size = {len}, offset = {at}, forebay: {error}"
            )
        }
        Failure::Write { at, len } => {
            format!(
                "file write failed: filename = '{file}', {numbers}, total write size = {len}, offset = {at}, forebay: {error}"
            )
        }
        Failure::Truncate => format!("unable to extend file properly, {numbers}, forebay: {error}"),
        Failure::Flush => format!("file write failed: filename = '{file}', {numbers}, forebay: {error}"),
        Failure::Close => format!("unable to close file, {numbers}, forebay: {error}"),
    }
}

/// The system's number for an error that did not come from it.
fn number_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Denied => libc::EACCES,
        ErrorKind::Full => libc::ENOSPC,
        ErrorKind::Unavailable => libc::EAGAIN,
        ErrorKind::Invalid => libc::EINVAL,
        ErrorKind::Unsupported => libc::ENOTSUP,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_system_stands_where_the_own_driver_has_it() {
        let error = Error::from_io(io::Error::from_raw_os_error(libc::ENOSPC)).at("x.h5");
        let text = text(Failure::Write { at: 5, len: 7 }, Path::new("/a/x.h5"), &error);
        assert!(text.starts_with(
            "file write failed: filename = '/a/x.h5', errno = 28, error message = 'No space left"
        ));
        assert!(text.contains("total write size = 7, offset = 5"), "{text}");
    }

    #[test]
    fn an_error_of_ours_has_the_nearest_number() {
        let error = Error::new(ErrorKind::Corrupt, "bad record");
        assert!(text(Failure::Flush, Path::new("x"), &error).contains("errno = 5"));
    }
}
