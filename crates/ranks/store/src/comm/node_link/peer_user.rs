//! Which user is at the other end of a unix socket (`SO_PEERCRED`).

#![expect(
    unsafe_code,
    reason = "rustix's call holds that a process has a number, which one of another namespace has not"
)]

use std::os::fd::{AsRawFd, BorrowedFd};

use forebay_process::{Error, ErrorKind, Result};

/// An error where the other end belongs to another user.
pub(super) fn check_peer_user(socket: BorrowedFd<'_>) -> Result<()> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: the descriptor is open, `peer` is a place for a `ucred`, and `len` says how long it is.
    let answer = unsafe {
        let place = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut len)
    };
    if answer != 0 {
        return Err(Error::from_io(std::io::Error::last_os_error()));
    }
    if peer.uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Denied,
        format!("a process of user {} is at the other end of a socket of ours", peer.uid),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsFd, unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_socket_of_this_user_is_taken_and_what_is_no_socket_is_not() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        check_peer_user(one.as_fd()).expect("this user");
        let file = tempfile::tempfile().expect("a file");
        assert!(check_peer_user(file.as_fd()).is_err());
    }
}
