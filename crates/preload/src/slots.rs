//! Which descriptors are managed: a table by their numbers, in memory that the kernel provides when it is first touched.
//!
//! A byte of each says at once what it is, so that a descriptor that is not managed costs one load. A slot may be out of date: a
//! number can be closed and given to another file by a system call that no hook sees. Whoever uses a slot therefore compares
//! the file that the number is open on with the one that the slot is about.

use std::{
    os::fd::RawFd,
    sync::{
        Arc,
        atomic::{
            AtomicI32, AtomicU8,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

use arc_swap::ArcSwapOption;

use crate::program_file::ProgramFile;

/// How a descriptor is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotKind {
    /// By the kernel, as if this library were not there.
    Plain = 0,
    /// By the kernel, from a copy; the origin is asked for all but bytes.
    Copy = 1,
    /// Block by block through the tiers.
    Blocks = 2,
}

/// Numbers from here on are never managed.
const COUNT: usize = 1 << 17;

static KINDS: [AtomicU8; COUNT] = [const { AtomicU8::new(0) }; COUNT];
static FILES: [ArcSwapOption<ProgramFile>; COUNT] = [const { ArcSwapOption::const_empty() }; COUNT];
/// The highest number that was ever managed.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

fn index(fd: RawFd) -> Option<usize> {
    usize::try_from(fd).ok().filter(|index| *index < COUNT)
}

/// How `fd` is served.
#[inline]
pub(crate) fn kind(fd: RawFd) -> SlotKind {
    match index(fd).map_or(0, |index| KINDS[index].load(Acquire)) {
        1 => SlotKind::Copy,
        2 => SlotKind::Blocks,
        _ => SlotKind::Plain,
    }
}

/// The file that `fd` is managed as.
pub(crate) fn file(fd: RawFd) -> Option<Arc<ProgramFile>> {
    FILES[index(fd)?].load_full()
}

/// Manages `fd` as `file` from now on; false where its number is too high.
pub(crate) fn set(fd: RawFd, kind: SlotKind, file: Arc<ProgramFile>) -> bool {
    let Some(index) = index(fd) else { return false };
    HIGHEST.fetch_max(fd, Relaxed);
    FILES[index].store(Some(file));
    KINDS[index].store(kind as u8, Release);
    true
}

/// Leaves `fd` to the kernel, and gives what it was managed as.
pub(crate) fn clear(fd: RawFd) -> Option<Arc<ProgramFile>> {
    let index = index(fd)?;
    if KINDS[index].swap(SlotKind::Plain as u8, Release) == SlotKind::Plain as u8 {
        return None;
    }
    FILES[index].swap(None)
}

/// The numbers that are managed at the moment.
pub(crate) fn numbers() -> impl Iterator<Item = RawFd> {
    (0..=HIGHEST.load(Relaxed)).filter(|fd| kind(*fd) != SlotKind::Plain)
}
