//! Lock files that forked children do not keep open.
//!
//! A lock ends when the last process that has the file open closes it. Workers that a process has forked would hide that the
//! process was killed, and `recover` would wait for them. So every child replaces the file by `/dev/null` as it begins
//! (`pthread_atfork`): the number stays taken, and whatever owns it in the child's copy of the memory closes nothing else.

#![expect(unsafe_code, reason = "no library has a way to run something in a forked child")]

use std::{
    fs::File,
    os::fd::{AsRawFd, BorrowedFd, IntoRawFd},
    sync::{
        Once,
        atomic::{AtomicI32, Ordering::SeqCst},
    },
};

/// Areas of a process; a lock that finds no place stays open in children.
const MOST: usize = 64;
const NONE: i32 = -1;

static LOCKS: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];
static NULL: AtomicI32 = AtomicI32::new(NONE);
static REGISTERED: Once = Once::new();

/// Keeps a lock file from forked children; dropped before the file is closed.
#[derive(Debug)]
pub(crate) struct LeftToParent {
    place: Option<&'static AtomicI32>,
}

impl LeftToParent {
    /// For `lock`, which outlives it.
    pub(crate) fn new(lock: BorrowedFd<'_>) -> Self {
        REGISTERED.call_once(register);
        let number = lock.as_raw_fd();
        let is_free = |place: &&AtomicI32| place.compare_exchange(NONE, number, SeqCst, SeqCst).is_ok();
        Self { place: LOCKS.iter().find(is_free) }
    }
}

impl Drop for LeftToParent {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.store(NONE, SeqCst);
        }
    }
}

fn register() {
    if let Ok(null) = File::open("/dev/null") {
        NULL.store(null.into_raw_fd(), SeqCst);
        // SAFETY: the function has the type that is asked for, and is never unloaded: it is part of this library, which the
        // system keeps as long as a handler of it is registered.
        unsafe { libc::pthread_atfork(None, None, Some(replace_locks)) };
    }
}

/// Runs in the child, where only what is safe in a signal handler may be called: atomics and `dup3` are.
extern "C" fn replace_locks() {
    let null = NULL.load(SeqCst);
    for place in &LOCKS {
        let number = place.swap(NONE, SeqCst);
        if number != NONE {
            // SAFETY: both numbers are of descriptors that are open in the child as they were in the parent.
            unsafe { libc::dup2(null, number) };
            // SAFETY: the number is open, and the call takes no memory.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}
