//! Locks on single bytes of an open file (open file description locks), for processes of one machine.
//!
//! A byte stands for whatever its number means to the user: a block that one process fetches for all, for example.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "no library has locks of open file descriptions")
)]

use std::{fs::File, sync::Arc};

/// A lock on one byte, given back when it is dropped or when the process ends, however it does.
#[derive(Debug)]
pub struct ByteLock {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "held open while the lock is"))]
    file: Arc<File>,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "said when the lock is given back"))]
    at: u64,
}

impl ByteLock {
    /// The lock on the byte `at` of `file`, unless another open file has it. Threads of one process share `file`, and with it
    /// the lock. The byte need not exist.
    pub fn take(file: Arc<File>, at: u64) -> Option<Self> {
        set(&file, at, true).then_some(Self { file, at })
    }
}

#[cfg(target_os = "linux")]
impl Drop for ByteLock {
    fn drop(&mut self) {
        set(&self.file, self.at, false);
    }
}

/// Locks the byte `at` of `file`, or unlocks it. The lock is that of the open file, not of the process: a library that
/// opens and closes the same file does not undo it.
#[cfg(target_os = "linux")]
fn set(file: &File, at: u64, locked: bool) -> bool {
    use std::os::fd::AsRawFd;

    let Ok(start) = i64::try_from(at) else { return true };
    // SAFETY: zeros are a valid description of a lock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    let kind = if locked { libc::F_WRLCK } else { libc::F_UNLCK };
    lock.l_type = i16::try_from(kind).unwrap_or_default();
    lock.l_whence = 0;
    lock.l_start = start;
    lock.l_len = 1;
    // SAFETY: the descriptor is open, and `lock` outlives the call.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    let busy = std::io::Error::last_os_error().raw_os_error();
    // A file system without locks grants every one: each process then does the work for itself.
    answer == 0 || !matches!(busy, Some(libc::EAGAIN | libc::EACCES))
}

#[cfg(not(target_os = "linux"))]
fn set(_: &File, _: u64, _: bool) -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_opened_the_file_one_has_a_byte_at_a_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || Arc::new(File::options().read(true).write(true).open(file.path()).unwrap());
        let (one, other) = (open(), open());
        let lock = ByteLock::take(Arc::clone(&one), 7);
        assert!(lock.is_some());
        assert!(ByteLock::take(Arc::clone(&other), 7).is_none());
        assert!(ByteLock::take(Arc::clone(&other), 8).is_some());
        drop(lock);
        assert!(ByteLock::take(other, 7).is_some());
    }
}
