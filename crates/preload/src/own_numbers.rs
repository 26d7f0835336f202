//! Which descriptors of this process are ours: a program that closes all numbers in a loop leaves these open, and sees that they are not its own.
//!
//! A mark may be out of date, as a number can be closed and given to another file by a call that no hook sees. It says which file
//! the number was open on, and is compared with what it is open on now.

use std::{
    os::fd::RawFd,
    sync::atomic::{
        AtomicI32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use crate::kernel;

/// Numbers from here on are not marked.
const COUNT: usize = 1 << 17;

/// 0, or which file a number of ours is open on.
static MARKS: [AtomicU64; COUNT] = [const { AtomicU64::new(0) }; COUNT];
/// The highest number that was ever marked.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

fn mark_of(fd: RawFd) -> Option<&'static AtomicU64> {
    MARKS.get(usize::try_from(fd).ok()?)
}

/// What is marked for the file that `fd` is open on.
fn file_mark(fd: RawFd) -> Option<u64> {
    kernel::inode_hash(fd).map(|hash| hash | 1)
}

/// Notes that `fd` is ours.
pub(crate) fn take(fd: RawFd) {
    if let (Some(mark), Some(file)) = (mark_of(fd), file_mark(fd)) {
        HIGHEST.fetch_max(fd, Relaxed);
        mark.store(file, Release);
    }
}

/// True while `fd` is a descriptor of ours, which the program has not opened.
#[inline]
pub(crate) fn has(fd: RawFd) -> bool {
    mark_of(fd).is_some_and(|mark| mark.load(Acquire) != 0) && is_still_ours(fd)
}

#[cold]
fn is_still_ours(fd: RawFd) -> bool {
    let marked = mark_of(fd).map(|mark| mark.load(Acquire));
    let is_ours = marked.is_some() && marked == file_mark(fd);
    if !is_ours {
        forget(fd);
    }
    is_ours
}

/// Notes that `fd` is not ours, or not for long.
#[inline]
pub(crate) fn forget(fd: RawFd) {
    if let Some(mark) = mark_of(fd)
        && mark.load(Relaxed) != 0
    {
        mark.store(0, Release);
    }
}

/// The numbers of ours from `first` to `last`, in their order.
pub(crate) fn between(first: u32, last: u32) -> impl Iterator<Item = RawFd> {
    let end = RawFd::try_from(last).unwrap_or(RawFd::MAX).min(HIGHEST.load(Relaxed));
    (RawFd::try_from(first).unwrap_or(RawFd::MAX)..=end).filter(|fd| has(*fd))
}
