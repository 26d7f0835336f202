//! Which descriptors of this process are ours: a program that closes all numbers in a loop leaves these open, and sees that they are not its own.
//!
//! A mark may be out of date, as a number can be closed and given to another file by a call that no hook sees. It says which file
//! the number was open on, and is compared with what it is open on now. It stays until the number is closed: a program that closes the number
//! meanwhile is refused, so that what is closed is never a file that the program has got under the number since.

use std::{
    os::fd::RawFd,
    sync::atomic::{
        AtomicI32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::{engine::inside, system::kernel};

/// Numbers from here on are not marked.
const COUNT: usize = 1 << 17;

/// 0, or which file a number of ours is open on, and in the lowest bits which of our descriptors it is.
static MARKS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
/// The highest number that was ever marked.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);
/// How many were marked.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The bits of a mark that tell one descriptor from the next of the same number and file.
const TURN: u64 = 0xffff;

fn mark_of(fd: RawFd) -> Option<&'static AtomicU64> {
    MARKS.get(usize::try_from(fd).ok()?)
}

/// What is marked for the file that `fd` is open on.
fn file_mark(fd: RawFd) -> Option<u64> {
    kernel::inode_hash(fd).map(|hash| hash & !TURN)
}

/// Notes that `fd` is ours.
pub(crate) fn take(fd: RawFd) {
    if let (Some(mark), Some(file)) = (mark_of(fd), file_mark(fd)) {
        HIGHEST.fetch_max(fd, Relaxed);
        let turn = TAKEN.fetch_add(1, Relaxed) & (TURN >> 1);
        mark.store(file | turn << 1 | 1, Release);
    }
}

/// True where any number was ever ours.
pub(crate) fn has_any() -> bool {
    HIGHEST.load(Relaxed) >= 0
}

/// True while `fd` is a descriptor of ours, which the program has not opened.
#[inline]
pub(crate) fn has(fd: RawFd) -> bool {
    mark_of(fd).is_some_and(|mark| mark.load(Acquire) != 0) && is_still_ours(fd)
}

#[cold]
fn is_still_ours(fd: RawFd) -> bool {
    let Some(mark) = mark_of(fd) else { return false };
    let marked = mark.load(Acquire);
    if marked == 0 || file_mark(fd) == Some(marked & !TURN) {
        return marked != 0;
    }
    // Not in a child of `vfork`, which has other descriptors and our memory; and unless it was marked anew meanwhile.
    if inside::is_this_process() {
        let _changed = mark.compare_exchange(marked, 0, Release, Relaxed);
    }
    false
}

/// The number that a call of the program by `fd` is about: none where it is one of ours, so that the kernel refuses it as one that is not open.
#[inline]
pub(crate) fn as_seen(fd: RawFd) -> RawFd {
    let is_marked = mark_of(fd).is_some_and(|mark| mark.load(Acquire) != 0);
    if is_marked && inside::is_program() && is_still_ours(fd) { -1 } else { fd }
}

/// Notes that the program has got the number `fd`.
#[inline]
pub(crate) fn forget(fd: RawFd) {
    if let Some(mark) = mark_of(fd)
        && mark.load(Relaxed) != 0
        && inside::is_this_process()
    {
        mark.store(0, Release);
    }
}

/// What `close` gives, which closes `fd`, perhaps one of ours.
#[inline]
pub(crate) fn closing<R>(fd: RawFd, close: impl FnOnce() -> R) -> R {
    let marked = mark_of(fd).map_or(0, |mark| mark.load(Acquire));
    let closed = close();
    if marked != 0
        && let Some(mark) = mark_of(fd)
    {
        // Unless another descriptor has got the number by now.
        let _changed = mark.compare_exchange(marked, 0, Release, Relaxed);
    }
    closed
}

/// The numbers of ours from `first` to `last`, in their order.
pub(crate) fn between(first: u32, last: u32) -> impl Iterator<Item = RawFd> {
    let end = RawFd::try_from(last).unwrap_or(RawFd::MAX).min(HIGHEST.load(Relaxed));
    (RawFd::try_from(first).unwrap_or(RawFd::MAX)..=end).filter(|fd| has(*fd))
}
