//! Errors that a file system tells when a file is closed (`close(2)`), and that Rust drops.
//!
//! Network file systems write behind the program and tell of a full disk or a quota at the close. Every close of a descriptor
//! asks for it, so a second descriptor of the same open file is closed and the file stays open.

#![expect(unsafe_code, reason = "the standard library closes files without telling how it went")]

use std::{fs::File, io, os::fd::IntoRawFd};

/// Has the file system say what it has to say when `file` is closed.
pub(crate) fn close_error(file: &File) -> io::Result<()> {
    let second = file.try_clone()?.into_raw_fd();
    // SAFETY: the descriptor was made here, and nothing else has its number.
    if unsafe { libc::close(second) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // The descriptor is closed all the same.
        error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_file_that_was_asked_stays_open() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"bytes", 0).unwrap();
        close_error(&file).unwrap();
        file.write_all_at(b"more", 5).unwrap();
    }
}
