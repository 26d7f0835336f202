//! Files under the prefix that this process has open for writing: of these no copy is used, so that it reads what it writes.

use std::{
    os::fd::RawFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::system::kernel::{self, KernelIdentity};

/// A descriptor that was opened for writing, and the file it was opened on.
#[derive(Debug)]
struct OpenWriter {
    /// Nothing for a shared map, which outlives its descriptor and may be written to for ever.
    number: Option<RawFd>,
    device: u64,
    inode: u64,
}

static WRITERS: Mutex<Vec<OpenWriter>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes that `fd` is open for writing.
pub(crate) fn add(fd: RawFd, file: &KernelIdentity) {
    let Some(mut writers) = lock() else { return };
    writers.retain(|writer| writer.number != Some(fd));
    writers.push(OpenWriter { number: Some(fd), device: file.device, inode: file.inode });
    COUNT.store(writers.len(), Relaxed);
}

/// True where anything was opened for writing.
#[inline]
pub(crate) fn has_any() -> bool {
    COUNT.load(Relaxed) != 0
}

/// Notes that `new` is a duplicate of `fd`.
pub(crate) fn duplicated(fd: RawFd, new: RawFd) {
    let Some(mut writers) = lock() else { return };
    writers.retain(|writer| writer.number != Some(new));
    if let Some((device, inode)) = writers.iter().find_map(|writer| writer.open_as(fd)) {
        writers.push(OpenWriter { number: Some(new), device, inode });
    }
    COUNT.store(writers.len(), Relaxed);
}

/// Notes that the file that `fd` may write to has a shared map.
pub(crate) fn mapped(fd: RawFd) {
    let Some(mut writers) = lock() else { return };
    let Some(file) = writers.iter().find_map(|writer| writer.open_as(fd)) else { return };
    let is_known = |writer: &OpenWriter| writer.number.is_none() && (writer.device, writer.inode) == file;
    if !writers.iter().any(is_known) {
        writers.push(OpenWriter { number: None, device: file.0, inode: file.1 });
        COUNT.store(writers.len(), Relaxed);
    }
}

impl OpenWriter {
    /// Its file, where `fd` is its number.
    fn open_as(&self, fd: RawFd) -> Option<(u64, u64)> {
        (self.number == Some(fd) && self.is_open()).then_some((self.device, self.inode))
    }

    fn is_open(&self) -> bool {
        let is_file = |found: KernelIdentity| (found.device, found.inode) == (self.device, self.inode);
        self.number.is_none_or(|number| kernel::identity(number).is_some_and(is_file))
    }
}

/// True while a descriptor of this process is open for writing on `file`. Closing one is noticed here and nowhere else.
pub(crate) fn has(file: &KernelIdentity) -> bool {
    if COUNT.load(Relaxed) == 0 {
        return false;
    }
    // In a forked child the lock may be held for ever by a thread of the parent: then it counts as written.
    let Some(mut writers) = lock() else { return true };
    writers.retain(OpenWriter::is_open);
    COUNT.store(writers.len(), Relaxed);
    writers.iter().any(|writer| (writer.device, writer.inode) == (file.device, file.inode))
}

fn lock() -> Option<MutexGuard<'static, Vec<OpenWriter>>> {
    // Held for a moment only: a thread that finds it taken may wait, but not for ever.
    for _ in 0..1000 {
        match WRITERS.try_lock() {
            Ok(writers) => return Some(writers),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                return Some(PoisonError::into_inner(poisoned));
            }
            Err(std::sync::TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}
