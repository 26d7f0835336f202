//! Whole-file locks (`flock`), and waiting for them with a limit.
//!
//! The kernel gives a lock back when the last descriptor of the open file is closed, however the process ends. Processes
//! that were forked share the open file, and with it the lock.

use std::{
    fs::File,
    thread,
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// Who else may hold the lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Others that want it shared.
    Shared,
    /// Nobody.
    Exclusive,
}

/// The first wait; each further one is twice as long, up to the last. Most holders are done after a few system calls.
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

/// Takes the lock of `file`, or changes its mode, without waiting; false while another open file holds it.
///
/// A lock that was held and cannot be changed may be lost.
pub fn try_lock(file: &File, mode: LockMode) -> Result<bool> {
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(Error::from_io(errno.into())),
    }
}

/// Takes the lock of `file`; an error of the kind `Unavailable` where another open file still holds it after `limit`.
pub fn lock_within(file: &File, mode: LockMode, limit: Duration) -> Result<()> {
    // A limit beyond what clocks have is none.
    let until = Instant::now().checked_add(limit);
    let mut pause = PAUSES.0;
    while !try_lock(file, mode)? {
        if until.is_some_and(|until| Instant::now() >= until) {
            return Err(held_by_another());
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSES.1);
    }
    Ok(())
}

/// Gives the lock of `file` back, for all processes that share the open file.
pub fn unlock(file: &File) {
    // Fails only where there is no lock to give back.
    let _ = flock(file, FlockOperation::Unlock);
}

pub(crate) fn held_by_another() -> Error {
    Error::new(ErrorKind::Unavailable, "another process holds it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_lock_ends_at_the_limit_or_when_it_is_given_back() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let open = || File::options().read(true).write(true).open(named.path()).unwrap();
        let (one, other) = (open(), open());
        assert!(try_lock(&one, LockMode::Exclusive).unwrap());
        assert!(!try_lock(&other, LockMode::Shared).unwrap());
        let error = lock_within(&other, LockMode::Exclusive, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock_within(&other, LockMode::Exclusive, Duration::from_secs(60)));
            unlock(&one);
            waiting.join().unwrap().unwrap();
        });
        assert!(!try_lock(&one, LockMode::Shared).unwrap());
    }
}
