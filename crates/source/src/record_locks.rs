//! POSIX record locks (`fcntl`, `lockf`) of the program around us: to close any descriptor of a file drops the locks that the process holds
//! on it. Descriptors of ours that are open on a locked file are therefore parked, and closed once that lock is gone.
//!
//! A lock is known by the number that it was taken by: it is gone at the latest when that number is closed. Locks are not inherited
//! by forked children, and neither is what is known of them here.

use std::{
    fs::File,
    ops::Deref,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rustix::fs::Stat;

use crate::process::PerProcess;

/// A number that a lock was taken by, and the file it was open on.
#[derive(Debug, PartialEq, Eq)]
struct RecordLock {
    number: RawFd,
    file: InodeKey,
}

/// Which file it is, with whichever bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InodeKey {
    device: i128,
    inode: u64,
}

impl InodeKey {
    fn new(stat: &Stat) -> Self {
        Self { device: i128::from(stat.st_dev), inode: stat.st_ino }
    }

    fn of(file: impl AsFd) -> Option<Self> {
        Some(Self::new(&rustix::fs::fstat(file).ok()?))
    }
}

#[derive(Debug, Default)]
struct RecordLocks {
    /// Held for reading while a descriptor is closed, so that no lock is taken between the look and the close.
    locked: RwLock<Vec<RecordLock>>,
    parked: Mutex<Vec<OwnedFd>>,
}

static LOCKS: PerProcess<RecordLocks> = PerProcess::empty();
static ARE_TAKEN: AtomicBool = AtomicBool::new(false);

/// Notes that the program is about to take a record lock by `descriptor`.
pub fn will_lock(descriptor: impl AsFd) {
    let descriptor = descriptor.as_fd();
    let Some(file) = InodeKey::of(descriptor) else { return };
    let lock = RecordLock { number: descriptor.as_raw_fd(), file };
    LOCKS.with(RecordLocks::default, |locks| {
        locks.close_parked();
        let mut locked = locks.locked.write().unwrap_or_else(PoisonError::into_inner);
        locked.retain(|known| known.is_held() && *known != lock);
        locked.push(lock);
        ARE_TAKEN.store(true, Relaxed);
    });
}

/// True once the program has taken a lock.
#[inline]
pub fn are_taken() -> bool {
    ARE_TAKEN.load(Relaxed)
}

/// The program closes `number`, or has just opened it: locks that were taken by it before are gone.
pub fn forget(number: RawFd) {
    LOCKS.with(RecordLocks::default, |locks| {
        if locks.read().iter().any(|lock| lock.number == number) {
            let mut locked = locks.locked.write().unwrap_or_else(PoisonError::into_inner);
            locked.retain(|lock| lock.number != number);
        }
    });
}

/// Closes `file`; where the program has a lock on it, later.
pub fn close(file: OwnedFd) {
    LOCKS.with(RecordLocks::default, |locks| {
        let locked = locks.read();
        if !locked.is_empty() && is_locked(&locked, &file) {
            locks.parked().push(file);
            return;
        }
        drop(file);
        drop(locked);
        locks.close_parked();
    });
}

/// What `close` gives, which closes a descriptor of `file`; nothing, and without a call, where the program has a lock on it.
pub fn unless_locked<R>(file: impl AsFd, close: impl FnOnce() -> R) -> Option<R> {
    LOCKS.with(RecordLocks::default, |locks| {
        let locked = locks.read();
        if !locked.is_empty() && is_locked(&locked, file) {
            return None;
        }
        Some(close())
    })
}

impl RecordLocks {
    fn read(&self) -> RwLockReadGuard<'_, Vec<RecordLock>> {
        self.locked.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes what was parked for locks that are gone.
    fn close_parked(&self) {
        let locked = self.read();
        let mut parked = self.parked();
        parked.retain(|file| is_locked(&locked, file));
    }

    fn parked(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        // Descriptors are added and taken as a whole.
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_locked(locked: &[RecordLock], file: impl AsFd) -> bool {
    let file = file.as_fd();
    let Some(inode) = InodeKey::of(file) else { return false };
    // A number that is ours by now is none that the program has a lock by.
    let is_other = |lock: &RecordLock| lock.number != file.as_raw_fd();
    locked.iter().any(|lock| lock.file == inode && is_other(lock) && lock.is_held())
}

impl RecordLock {
    /// True while the lock may be held.
    fn is_held(&self) -> bool {
        let link = format!("/proc/self/fd/{}", self.number);
        rustix::fs::stat(link).is_ok_and(|found| InodeKey::new(&found) == self.file)
    }
}

/// A file of an origin that is open here, and whose closing leaves the program its record locks.
#[derive(Debug)]
pub struct LockSafeFile(Option<File>);

impl LockSafeFile {
    /// `file`, from now on.
    pub fn new(file: impl Into<File>) -> Self {
        Self(Some(file.into()))
    }
}

impl Deref for LockSafeFile {
    type Target = File;

    #[inline]
    fn deref(&self) -> &File {
        self.0.as_ref().expect("it is taken when this is dropped and no earlier")
    }
}

impl Drop for LockSafeFile {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            close(file.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Whether the number is open on the file at `path`: other tests may have it by now.
    fn is_open(number: RawFd, path: &Path) -> bool {
        fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|found| found == path)
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_descriptor_of_a_locked_file_is_closed_after_the_one_that_it_was_locked_by() {
        let folder = tempfile::tempdir().unwrap();
        let (locked, free) = (folder.path().join("locked"), folder.path().join("free"));
        fs::write(&locked, "a").unwrap();
        fs::write(&free, "b").unwrap();
        let open = |path| LockSafeFile::new(File::open(path).unwrap());
        let program = File::open(&locked).unwrap();
        will_lock(&program);
        let (ours, other) = (open(&locked), open(&free));
        let (number, other_number) = (ours.as_raw_fd(), other.as_raw_fd());
        assert_eq!(unless_locked(&*ours, || ()), None);
        drop((ours, other));
        assert!(is_open(number, &locked), "it would have dropped the lock");
        assert!(!is_open(other_number, &free), "nobody has locked this one");
        drop(program);
        let next = open(&locked);
        assert_eq!(unless_locked(&*next, || ()), Some(()));
        drop(next);
        assert!(!is_open(number, &locked));
    }
}
