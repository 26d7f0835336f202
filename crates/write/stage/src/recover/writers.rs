//! Whether any process has a file open for writing, or mapped so: the kernel gives a read lease only where none has.

#![expect(unsafe_code, reason = "no library has leases")]

use std::{
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
};

use forebay_process::{Error, Result};

/// `F_SETSIG`, which the `libc` crate does not have: the signal by which the kernel says that a lease is wanted back.
const F_SETSIG: libc::c_int = 10;

/// True while some process has the file of `reader`, which is open for reading alone, open for writing.
pub(crate) fn has_writers(reader: &File) -> Result<bool> {
    let fd = reader.as_raw_fd();
    // A writer that opens the file between the two calls below makes the kernel send a signal: one that is ignored by default.
    control(fd, F_SETSIG, libc::SIGURG).map_err(Error::from_io)?;
    match control(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => {
            control(fd, libc::F_SETLEASE, libc::F_UNLCK).map_err(Error::from_io)?;
            Ok(false)
        }
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(true),
        Err(error) => Err(Error::from_io(error)),
    }
}

fn control(fd: RawFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as the file is borrowed; these commands take a number.
    let answer = unsafe { libc::fcntl(fd, command, argument) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_writers_until_the_last_descriptor_for_writing_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let writer = File::create(&path).unwrap();
        let another = writer.try_clone().unwrap();
        let reader = File::open(&path).unwrap();
        assert!(has_writers(&reader).unwrap());
        drop(writer);
        assert!(has_writers(&reader).unwrap(), "a duplicate is still there");
        drop(another);
        assert!(!has_writers(&reader).unwrap());
        assert!(!has_writers(&reader).unwrap(), "the lease was given back");
        drop(File::options().write(true).open(&path).unwrap());
    }
}
