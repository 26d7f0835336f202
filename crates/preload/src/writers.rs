//! Files under the prefix that this process has open for writing: of these no copy is used, so that it reads what it writes.

use std::{
    os::fd::RawFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use crate::kernel::{self, KernelIdentity};

/// A descriptor that was opened for writing, and the file it was opened on.
#[derive(Debug)]
struct OpenWriter {
    number: RawFd,
    device: u64,
    inode: u64,
}

static WRITERS: Mutex<Vec<OpenWriter>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Notes that `fd` is open for writing.
pub(crate) fn add(fd: RawFd, file: &KernelIdentity) {
    let Some(mut writers) = lock() else { return };
    writers.retain(|writer| writer.number != fd);
    writers.push(OpenWriter { number: fd, device: file.device, inode: file.inode });
    COUNT.store(writers.len(), Relaxed);
}

/// True while a descriptor of this process is open for writing on `file`. Closing one is noticed here and nowhere else.
pub(crate) fn has(file: &KernelIdentity) -> bool {
    if COUNT.load(Relaxed) == 0 {
        return false;
    }
    // In a forked child the lock may be held for ever by a thread of the parent: then it counts as written.
    let Some(mut writers) = lock() else { return true };
    writers.retain(|writer| {
        kernel::identity(writer.number)
            .is_some_and(|found| (found.device, found.inode) == (writer.device, writer.inode))
    });
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
