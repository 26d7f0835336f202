//! Which descriptors are managed: a table by their numbers, in memory that the kernel provides when it is first touched.
//!
//! A byte of each says at once what it is, so that a descriptor that is not managed costs one load. A slot may be out of date: a
//! number can be closed and given to another file by a system call that no hook sees. Whoever uses a slot therefore compares
//! the file that the number is open on with the one that the slot is about.
//!
//! A lock orders what the program does to a number and what is laid over it ([`changing`], [`replacing`]): a number that is closed is none that the origin is
//! laid over, whoever has got it since. Descriptors that are not managed never take it.

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

use crate::{
    engine::inside,
    manage::program_file::ProgramFile,
    system::process_lock::{ProcessLock, ReadHeld, WriteHeld},
};

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

/// [`SlotKind::Copy`], while the origin is laid over the number: who moves its position waits until that is done.
const MOVING: u8 = 3;

/// Numbers from here on are never managed.
const COUNT: usize = 1 << 17;

static KINDS: [AtomicU8; COUNT] = [const { AtomicU8::new(0) }; COUNT];
static FILES: [ArcSwapOption<ProgramFile>; COUNT] = [const { ArcSwapOption::const_empty() }; COUNT];
/// The highest number that was ever managed.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);
static NUMBERS: ProcessLock = ProcessLock::new();

/// Held while a slot is set or cleared because of what the program does to the number. Taken as work of ours.
pub(crate) fn changing() -> ReadHeld<'static> {
    NUMBERS.read(inside::known_process())
}

/// Held from the look which numbers are open on a file until another one is laid over them.
pub(crate) fn replacing() -> WriteHeld<'static> {
    NUMBERS.write(inside::known_process())
}

fn index(fd: RawFd) -> Option<usize> {
    usize::try_from(fd).ok().filter(|index| *index < COUNT)
}

/// How `fd` is served.
#[inline]
pub(crate) fn kind(fd: RawFd) -> SlotKind {
    match index(fd).map_or(0, |index| KINDS[index].load(Acquire)) {
        1 | MOVING => SlotKind::Copy,
        2 => SlotKind::Blocks,
        _ => SlotKind::Plain,
    }
}

/// True where the kernel reads by `fd`, and nothing is laid over it at the moment.
#[inline]
pub(crate) fn is_read_by_kernel(fd: RawFd) -> bool {
    index(fd).is_none_or(|index| KINDS[index].load(Acquire) < SlotKind::Blocks as u8)
}

/// Has those who read by `fd`, which is open on a copy, wait until it is cleared.
pub(crate) fn hold_readers(fd: RawFd) {
    if let Some(index) = index(fd) {
        let _is_copy = KINDS[index].compare_exchange(SlotKind::Copy as u8, MOVING, Release, Relaxed);
    }
}

/// Waits until nothing is laid over `fd` any more. Called as work of ours.
pub(crate) fn wait_for_readers_turn(fd: RawFd) {
    if let Some(index) = index(fd)
        && KINDS[index].load(Acquire) == MOVING
    {
        let held = changing();
        // It is still so where a thread of the parent was at it when this process was forked, and ends here.
        let _ended = KINDS[index].compare_exchange(MOVING, SlotKind::Copy as u8, Release, Relaxed);
        drop(held);
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

/// True where any number was ever managed.
#[inline]
pub(crate) fn has_any() -> bool {
    HIGHEST.load(Relaxed) >= 0
}

/// The numbers that are managed at the moment.
pub(crate) fn numbers() -> impl Iterator<Item = RawFd> {
    (0..=HIGHEST.load(Relaxed)).filter(|fd| kind(*fd) != SlotKind::Plain)
}
