//! A watcher of the calls that a thread makes.

use std::{cell::RefCell, os::fd::BorrowedFd, rc::Rc};

use rustix::io::Errno;

use super::call::Call;

/// Watcher of a thread's file-system calls.
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

/// Installs `watcher` for the calls of this thread, or removes it.
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
