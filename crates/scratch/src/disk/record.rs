//! A watcher of the calls that a thread makes.

use std::{cell::RefCell, os::fd::BorrowedFd, rc::Rc};

use rustix::io::Errno;

use super::Call;

/// Sees the calls of a thread.
pub trait Watch {
    /// Called before each call; an error is what the call then returns instead of being made.
    fn before(&mut self, call: &Call<'_>) -> rustix::io::Result<()>;
    /// Called after each call that succeeded, with what it opened.
    fn after(&mut self, call: &Call<'_>, made: Option<BorrowedFd<'_>>);
    /// The identity (inode, time of birth) to report for a file whose own is this one: a rebuilt file stands for the one it was built from.
    fn identity_of(&mut self, inode: u64, born_ns: u64) -> (u64, u64) {
        (inode, born_ns)
    }
    /// The start of the machine to report, where it is another than the real one.
    fn boot(&self) -> Option<String> {
        None
    }
}

thread_local! {
    static WATCHER: RefCell<Option<Rc<RefCell<dyn Watch>>>> = const { RefCell::new(None) };
}

/// Has `watcher` see the calls of this thread from now on, or nobody.
pub fn watch(watcher: Option<Rc<RefCell<dyn Watch>>>) {
    WATCHER.set(watcher);
}

fn watcher() -> Option<Rc<RefCell<dyn Watch>>> {
    // A file may be closed, and a directory removed, while the thread ends.
    WATCHER.try_with(|watcher| watcher.borrow().clone()).ok().flatten()
}

pub(super) fn before(call: &Call<'_>) -> rustix::io::Result<()> {
    watcher().map_or(Ok::<(), Errno>(()), |watcher| watcher.borrow_mut().before(call))
}

pub(super) fn after(call: &Call<'_>, made: Option<BorrowedFd<'_>>) {
    if let Some(watcher) = watcher() {
        watcher.borrow_mut().after(call, made);
    }
}

/// The identity to report for a file whose inode and time of birth are these.
pub fn identity_of(inode: u64, born_ns: u64) -> (u64, u64) {
    watcher().map_or((inode, born_ns), |watcher| watcher.borrow_mut().identity_of(inode, born_ns))
}

/// The start of the machine to report instead of the real one.
pub fn boot() -> Option<String> {
    watcher().and_then(|watcher| watcher.borrow().boot())
}

#[cfg(test)]
mod tests {
    use std::{fs, fs::File, io, path::Path};

    use super::*;
    use crate::disk::rename_new_at;

    /// A file system that knows no rename without replacement, and maybe no hard links.
    struct Poor {
        has_links: bool,
        renames: usize,
    }

    impl Watch for Poor {
        fn before(&mut self, call: &Call<'_>) -> rustix::io::Result<()> {
            match call {
                Call::Rename { .. } if self.renames == 0 => {
                    self.renames += 1;
                    Err(Errno::INVAL)
                }
                Call::Link { .. } if !self.has_links => Err(Errno::PERM),
                _ => Ok(()),
            }
        }

        fn after(&mut self, _: &Call<'_>, _: Option<BorrowedFd<'_>>) {}
    }

    #[test]
    fn a_file_gets_a_name_that_nothing_has_on_any_file_system_and_no_other() {
        for has_links in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let directory = File::open(folder.path()).unwrap();
            let path = |name: &str| folder.path().join(name);
            let publish = || {
                watch(Some(Rc::new(RefCell::new(Poor { has_links, renames: 0 }))));
                let renamed = rename_new_at(&directory, Path::new("from"), Path::new("to"));
                watch(None);
                renamed
            };
            fs::write(path("from"), "new").unwrap();
            publish().unwrap();
            assert_eq!((fs::read(path("to")).unwrap(), path("from").exists()), (b"new".to_vec(), false));
            fs::write(path("from"), "newer").unwrap();
            assert_eq!(publish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(path("to")).unwrap(), b"new");
            // The answer to an earlier link was lost.
            fs::remove_file(path("to")).unwrap();
            fs::hard_link(path("from"), path("to")).unwrap();
            assert_eq!(publish().is_ok(), has_links);
            assert_eq!(fs::read(path("to")).unwrap(), b"newer");
        }
    }
}
