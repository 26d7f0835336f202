//! Who fetches a block, among the processes of a machine.
#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "no library has locks of open file descriptions")
)]

use std::{fs::File, sync::Arc};

/// A lock on one block, given back when it is dropped or when the process ends, however it does.
#[derive(Debug)]
pub(super) struct BlockLock {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "held open while the lock is"))]
    file: Arc<File>,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "said when the lock is given back"))]
    block: u64,
}

impl BlockLock {
    /// The lock on `block`, unless another process has it. Threads of one process share `file`, and with it the lock.
    pub(super) fn take(file: Arc<File>, block: u64) -> Option<Self> {
        set(&file, block, true).then_some(Self { file, block })
    }
}

#[cfg(target_os = "linux")]
impl Drop for BlockLock {
    fn drop(&mut self) {
        set(&self.file, self.block, false);
    }
}

/// Locks byte `block` of `file`, or unlocks it. The lock is that of the open file, not of the process: a library that
/// opens and closes the same file does not undo it.
#[cfg(target_os = "linux")]
fn set(file: &File, block: u64, locked: bool) -> bool {
    use std::os::fd::AsRawFd;

    let Ok(start) = i64::try_from(block) else { return true };
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
    // Where locks are not to be had, each process fetches for itself.
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
    fn one_of_two_who_opened_the_file_has_a_block_at_a_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || Arc::new(File::options().read(true).write(true).open(file.path()).unwrap());
        let (one, other) = (open(), open());
        let lock = BlockLock::take(Arc::clone(&one), 7);
        assert!(lock.is_some());
        assert!(BlockLock::take(Arc::clone(&other), 7).is_none());
        assert!(BlockLock::take(Arc::clone(&other), 8).is_some());
        drop(lock);
        assert!(BlockLock::take(other, 7).is_some());
    }
}
