//! A descriptor that becomes readable when this process ends, for other processes to watch.

use std::os::fd::OwnedFd;

use forebay_process::{Error, Result};
use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::{PidfdFlags, getpid, pidfd_open},
};

/// What tells others that this process has ended.
///
/// A pidfd says so although forked children live on, which hold all sockets of the process open. Where the system has none
/// (Linux before 5.3, or a filter that forbids them) it is a pipe, whose end its children delay.
#[derive(Debug)]
pub(crate) struct ProcessEnd {
    pub(crate) watched: OwnedFd,
    /// The end of the pipe that closes with the process.
    _held: Option<OwnedFd>,
}

impl ProcessEnd {
    pub(crate) fn new() -> Result<Self> {
        match pidfd_open(getpid(), PidfdFlags::empty()) {
            Ok(watched) => Ok(Self { watched, _held: None }),
            Err(_) => Self::by_pipe(),
        }
    }

    fn by_pipe() -> Result<Self> {
        let (watched, held) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| Error::from_io(errno.into()))?;
        Ok(Self { watched, _held: Some(held) })
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_ended(watched: &OwnedFd) -> bool {
        let mut polled = [PollFd::new(watched, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") > 0
    }

    #[test]
    fn a_process_that_runs_has_not_ended_and_a_pipe_ends_with_its_holder() {
        assert!(!is_ended(&ProcessEnd::new().expect("a descriptor").watched));
        let end = ProcessEnd::by_pipe().expect("a pipe");
        let watched = end.watched.try_clone().expect("a descriptor");
        assert!(!is_ended(&watched));
        drop(end);
        assert!(is_ended(&watched));
    }
}
