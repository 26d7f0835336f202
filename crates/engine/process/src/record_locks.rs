//! POSIX record locks (`fcntl`, `lockf`) of the program around us: to close any descriptor of a file drops the locks that the process holds
//! on it. Descriptors of ours that are open on a locked file are therefore parked, and closed once that lock is gone; none is opened
//! meanwhile, so that few are parked.
//!
//! A lock is known by the file, and the number that it was taken by last: it is gone at the latest when that number is closed, or any other that the program has
//! of the file. Locks are not inherited by forked children, and neither is what is known of them here.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    ops::Deref,
    os::fd::{AsFd, AsRawFd, OwnedFd, RawFd},
    path::Path,
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use crate::process::PerProcess;

/// A file that the program has locked, or is about to.
#[derive(Debug)]
struct LockedInode {
    /// By which it was locked last.
    number: RawFd,
    is_held: bool,
    /// Attempts to lock it that are under way.
    attempts: u32,
    /// Descriptors of ours that cannot be closed.
    parked: Vec<OwnedFd>,
}

/// A lock that the program is about to take.
#[must_use]
#[derive(Debug)]
pub struct LockAttempt(InodeKey);

/// Which file it is, with whichever bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InodeKey {
    device: i128,
    inode: u64,
}

impl InodeKey {
    /// What the kernel knows: neither device nor inode is another at the file's server.
    #[cfg(target_os = "linux")]
    fn found(folder: impl AsFd, path: &Path, how: rustix::fs::AtFlags) -> Option<Self> {
        use rustix::fs::{AtFlags, StatxFlags, makedev, statx};
        let found = statx(folder, path, how | AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
        let device = i128::from(makedev(found.stx_dev_major, found.stx_dev_minor));
        Some(Self { device, inode: found.stx_ino })
    }

    #[cfg(target_os = "linux")]
    fn of(file: impl AsFd) -> Option<Self> {
        Self::found(file, Path::new(""), rustix::fs::AtFlags::EMPTY_PATH)
    }

    #[cfg(target_os = "linux")]
    fn at(path: &Path) -> Option<Self> {
        Self::found(rustix::fs::CWD, path, rustix::fs::AtFlags::empty())
    }

    #[cfg(not(target_os = "linux"))]
    fn new(stat: &rustix::fs::Stat) -> Self {
        Self { device: i128::from(stat.st_dev), inode: stat.st_ino }
    }

    #[cfg(not(target_os = "linux"))]
    fn of(file: impl AsFd) -> Option<Self> {
        Some(Self::new(&rustix::fs::fstat(file).ok()?))
    }

    #[cfg(not(target_os = "linux"))]
    fn at(path: &Path) -> Option<Self> {
        Some(Self::new(&rustix::fs::stat(path).ok()?))
    }
}

#[derive(Debug, Default)]
struct RecordLocks {
    /// Held while a descriptor is closed, so that no lock is taken between the look and the close.
    inodes: RwLock<LockedInodes>,
}

/// Files with locks. Whether one is still locked is asked when it is concerned, and of all of them only when there are twice as many as the last time: each
/// lock costs the same whatever their number.
#[derive(Debug, Default)]
struct LockedInodes {
    by_key: HashMap<InodeKey, LockedInode>,
    /// How many there were after all were looked at.
    swept: usize,
}

/// So many are known before all are looked at.
const SWEEP_AT: usize = 16;

static LOCKS: PerProcess<RecordLocks> = PerProcess::empty();
/// True once anything was locked.
static HAS_ANY: AtomicBool = AtomicBool::new(false);

/// True where the program may have record locks.
#[inline]
pub fn has_any() -> bool {
    HAS_ANY.load(Relaxed)
}

/// Notes that the program is about to take a record lock by `descriptor`.
pub fn will_lock(descriptor: impl AsFd) -> Option<LockAttempt> {
    let descriptor = descriptor.as_fd();
    let (file, number) = (InodeKey::of(descriptor)?, descriptor.as_raw_fd());
    HAS_ANY.store(true, Relaxed);
    LOCKS.with(RecordLocks::default, |locks| {
        let mut inodes = locks.write();
        inodes.forget_if_gone(file);
        match inodes.by_key.entry(file) {
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                (known.number, known.attempts) = (number, known.attempts + 1);
            }
            Entry::Vacant(place) => {
                place.insert(LockedInode { number, is_held: false, attempts: 1, parked: Vec::new() });
                inodes.sweep_now_and_then();
            }
        }
    });
    Some(LockAttempt(file))
}

/// Notes whether the program got the lock.
pub fn tried_to_lock(attempt: LockAttempt, is_taken: bool) {
    LOCKS.with(RecordLocks::default, |locks| {
        let mut inodes = locks.write();
        if let Some(inode) = inodes.by_key.get_mut(&attempt.0) {
            inode.attempts = inode.attempts.saturating_sub(1);
            inode.is_held |= is_taken;
        }
        inodes.forget_if_gone(attempt.0);
    });
}

/// The program is about to close `descriptor`, by which it loses all locks on the file; not by one that was opened as a mere path.
pub fn unlocking(descriptor: impl AsFd) {
    let descriptor = descriptor.as_fd();
    let Some(file) = InodeKey::of(descriptor) else { return };
    LOCKS.with(RecordLocks::default, |locks| {
        if !locks.read().by_key.contains_key(&file) || is_path_alone(descriptor) {
            return;
        }
        let mut inodes = locks.write();
        if let Some(inode) = inodes.by_key.get_mut(&file) {
            inode.is_held = false;
        }
        inodes.forget_if_gone(file);
    });
}

#[cfg(target_os = "linux")]
fn is_path_alone(descriptor: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(rustix::fs::OFlags::PATH))
}

#[cfg(not(target_os = "linux"))]
fn is_path_alone(_descriptor: impl AsFd) -> bool {
    false
}

/// The program has just opened `number`: locks that were taken by it before are gone.
pub fn opened(number: RawFd) {
    if !has_any() {
        return;
    }
    LOCKS.with(RecordLocks::default, |locks| {
        if locks.read().by_key.values().any(|inode| inode.number == number) {
            locks.write().by_key.retain(|_, inode| inode.number != number || inode.attempts > 0);
        }
    });
}

/// Closes what was parked for locks that are gone.
pub fn close_parked() {
    LOCKS.with(RecordLocks::default, |locks| {
        if !locks.read().by_key.is_empty() {
            locks.write().sweep();
        }
    });
}

/// Closes `file`; where the program has a lock on it, later.
pub fn close(file: OwnedFd) {
    LOCKS.with(RecordLocks::default, |locks| {
        let inodes = locks.read();
        if inodes.by_key.is_empty() {
            drop(file);
            return;
        }
        let Some(key) = InodeKey::of(&file).filter(|key| inodes.by_key.contains_key(key)) else {
            drop(file);
            return;
        };
        drop(inodes);
        let mut inodes = locks.write();
        inodes.forget_if_gone(key);
        match inodes.by_key.get_mut(&key) {
            Some(inode) => inode.parked.push(file),
            None => drop(file),
        }
    });
}

/// What `close` gives, which closes a descriptor of `file`; nothing, and without a call, where the program has a lock on it.
pub fn unless_locked<R>(file: impl AsFd, close: impl FnOnce() -> R) -> Option<R> {
    LOCKS.with(RecordLocks::default, |locks| {
        let inodes = locks.read();
        if !inodes.by_key.is_empty() && InodeKey::of(file).is_some_and(|key| inodes.has(key)) {
            return None;
        }
        Some(close())
    })
}

/// True where the program has a lock on `file`: a descriptor of it that is opened now cannot be closed.
pub fn is_locked(file: impl AsFd) -> bool {
    has_any() && InodeKey::of(file).is_some_and(is_locked_inode)
}

/// The number by which the program has locked the file of `device` and `inode` last.
pub fn locked_number(device: u64, inode: u64) -> Option<RawFd> {
    let file = InodeKey { device: i128::from(device), inode };
    if !has_any() {
        return None;
    }
    LOCKS.with(RecordLocks::default, |locks| {
        let inodes = locks.read();
        inodes.by_key.get(&file).filter(|inode| inode.may_be_held(file)).map(|inode| inode.number)
    })
}

/// True where the program around us may hold a record lock on the file at `path`.
pub fn is_locked_at(path: &Path) -> bool {
    has_any() && InodeKey::at(path).is_some_and(is_locked_inode)
}

fn is_locked_inode(file: InodeKey) -> bool {
    LOCKS.with(RecordLocks::default, |locks| locks.read().has(file))
}

impl RecordLocks {
    // Each change is whole or absent, whichever thread panicked elsewhere.
    fn read(&self) -> RwLockReadGuard<'_, LockedInodes> {
        self.inodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, LockedInodes> {
        self.inodes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LockedInodes {
    fn has(&self, file: InodeKey) -> bool {
        self.by_key.get(&file).is_some_and(|inode| inode.may_be_held(file))
    }

    /// Closes what was parked for `file`, where its lock is gone.
    fn forget_if_gone(&mut self, file: InodeKey) {
        if self.by_key.get(&file).is_some_and(|inode| !inode.may_be_held(file)) {
            self.by_key.remove(&file);
        }
    }

    fn sweep_now_and_then(&mut self) {
        if self.by_key.len() >= SWEEP_AT.max(self.swept.saturating_mul(2)) {
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        self.by_key.retain(|file, inode| inode.may_be_held(*file));
        self.swept = self.by_key.len();
    }
}

impl LockedInode {
    /// True while the lock on `file` may be held: the program may have closed the number by a call that nobody sees.
    fn may_be_held(&self, file: InodeKey) -> bool {
        let is_open = || InodeKey::at(Path::new(&format!("/proc/self/fd/{}", self.number))) == Some(file);
        self.attempts > 0 || self.is_held && is_open()
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
    use std::fs;

    use super::*;

    /// Whether the number is open on a file.
    fn is_open(number: RawFd) -> bool {
        fs::read_link(format!("/proc/self/fd/{number}")).is_ok()
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
        tried_to_lock(will_lock(&program).unwrap(), true);
        assert!(is_locked(&program) && is_locked_at(&locked) && !is_locked_at(&free));
        let (ours, other) = (open(&locked), open(&free));
        let (number, other_number) = (ours.as_raw_fd(), other.as_raw_fd());
        assert_eq!(unless_locked(&*ours, || ()), None);
        drop((ours, other));
        assert!(is_open(number), "it would have dropped the lock");
        assert!(!is_open(other_number), "nobody has locked this one");
        drop(program);
        // As long as the same number is open on the same file, nobody can tell that it was closed meanwhile.
        let _of_that_number = open(&free);
        let next = open(&locked);
        assert_eq!(unless_locked(&*next, || ()), Some(()));
        drop(next);
        assert!(!is_open(number));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_parked_is_closed_with_any_descriptor_of_the_program_and_nothing_is_for_a_lock_that_failed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let [program, second] = [(), ()].map(|()| File::open(file.path()).unwrap());
        let ours = LockSafeFile::new(File::open(file.path()).unwrap());
        let number = ours.as_raw_fd();
        let refused = will_lock(&program).unwrap();
        assert!(is_locked(&program), "it may be taken at any moment");
        tried_to_lock(refused, false);
        assert!(!is_locked(&program));
        tried_to_lock(will_lock(&program).unwrap(), true);
        drop(ours);
        assert!(is_open(number));
        unlocking(&second);
        assert!(!is_open(number) && !is_locked(&program));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_mere_path_unlocks_nothing_and_the_number_of_a_lock_is_known() {
        use rustix::fs::{Mode, OFlags, makedev, open};
        let file = tempfile::NamedTempFile::new().unwrap();
        let program = File::open(file.path()).unwrap();
        let path = open(file.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tried_to_lock(will_lock(&program).unwrap(), true);
        unlocking(&path);
        assert!(is_locked(&program));
        let found = rustix::fs::fstat(&program).unwrap();
        let device = makedev(rustix::fs::major(found.st_dev), rustix::fs::minor(found.st_dev));
        assert_eq!(locked_number(device, found.st_ino), Some(program.as_raw_fd()));
        unlocking(&program);
        assert_eq!(locked_number(device, found.st_ino), None);
    }
}
