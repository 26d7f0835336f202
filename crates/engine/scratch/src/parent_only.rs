//! Sockets and lock files that forked children do not keep open (`pthread_atfork`).
//!
//! A connection or a lock ends when the last process that has it open closes it. Workers that a process has forked would hide
//! that it was killed, for as long as they live. So every child replaces them by `/dev/null` as it begins: the numbers stay
//! taken, and whatever owns them in the child's copy of the memory closes nothing else.

#![expect(unsafe_code, reason = "no library has a way to run something in a forked child")]

use std::{
    fs::File,
    os::fd::{AsRawFd, BorrowedFd, IntoRawFd},
    sync::{
        Once,
        atomic::{AtomicI32, Ordering::SeqCst},
    },
};

/// Sockets of a job of thousands of ranks; a descriptor that finds no place stays open in children.
const MOST: usize = 8192;
const NONE: i32 = -1;

static DESCRIPTORS: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];
static NULL: AtomicI32 = AtomicI32::new(NONE);
static REGISTERED: Once = Once::new();

/// Keeps a descriptor from forked children; dropped before it is closed.
#[derive(Debug)]
pub struct ParentOnly {
    place: Option<&'static AtomicI32>,
    number: i32,
}

impl ParentOnly {
    /// For `descriptor`, which outlives it.
    pub fn new(descriptor: BorrowedFd<'_>) -> Self {
        REGISTERED.call_once(register);
        let number = descriptor.as_raw_fd();
        let is_free = |place: &&AtomicI32| place.compare_exchange(NONE, number, SeqCst, SeqCst).is_ok();
        Self { place: DESCRIPTORS.iter().find(is_free), number }
    }
}

impl Drop for ParentOnly {
    fn drop(&mut self) {
        // In a child the place may be taken for a descriptor of its own.
        let _ = self.place.map(|place| place.compare_exchange(self.number, NONE, SeqCst, SeqCst));
    }
}

fn register() {
    if let Ok(null) = File::open("/dev/null") {
        NULL.store(null.into_raw_fd(), SeqCst);
        // SAFETY: the function has the type that is asked for, and is never unloaded: it is part of this library, which the
        // system keeps as long as a handler of it is registered.
        unsafe { libc::pthread_atfork(None, None, Some(leave_to_parent)) };
    }
}

/// Runs in the child, where only what is safe in a signal handler may be called: atomics and `dup3` are.
extern "C" fn leave_to_parent() {
    let null = NULL.load(SeqCst);
    for place in &DESCRIPTORS {
        // A grandchild must not replace what the child opens under the same number.
        let number = place.swap(NONE, SeqCst);
        if number != NONE {
            // SAFETY: both numbers are of descriptors that are open in the child as they were in the parent.
            unsafe { libc::dup3(null, number, libc::O_CLOEXEC) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::{fd::AsFd, unix::net::UnixStream},
        time::Duration,
    };

    use super::*;

    #[test]
    fn a_connection_ends_with_the_process_though_its_child_lives() {
        let (one, mut other) = UnixStream::pair().expect("sockets");
        let (held, mut holder) = UnixStream::pair().expect("sockets");
        let guard = ParentOnly::new(one.as_fd());
        // SAFETY: the child calls only what is safe after a fork, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "fork");
        if child == 0 {
            drop(held);
            let _ = holder.read(&mut [0]);
            // SAFETY: it ends the child at once, running nothing of the parent's.
            unsafe { libc::_exit(0) };
        }
        drop((guard, one, holder));
        other.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        assert_eq!(other.read(&mut [0]).expect("the end, though the child lives"), 0);
        drop(held);
        // SAFETY: `child` is ours and not yet waited for.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    }
}
