//! One counter of bytes for all processes that use a folder.
//!
//! A process that is killed between taking bytes and using them leaves the counter too high, never too low: the tier
//! is then a little smaller until nobody uses it, and is counted anew by the next who does.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use forebay_source::{Result, private};
use rustix::fs::{FlockOperation, flock};

/// The counter's file.
pub(super) const NAME: &str = "usage";

#[derive(Debug)]
pub(super) struct Counter {
    /// Held by one thread at a time: the file's lock is that of the process.
    file: Mutex<File>,
}

/// Nobody holds the lock longer than two small reads and writes take, unless it was stopped.
const PATIENCE: Duration = Duration::from_secs(1);
/// Where the number of processes stands that use the folder; the bytes taken stand before it.
const USERS_AT: u64 = 8;

impl Counter {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        Ok(Self { file: Mutex::new(private::own_file(&folder.join(NAME))?) })
    }

    /// Bytes taken.
    pub(super) fn used(&self) -> u64 {
        read(&self.file.lock().unwrap_or_else(PoisonError::into_inner), 0)
    }

    /// Takes `len` bytes, if no more than `quota` are taken then.
    pub(super) fn reserve(&self, len: u64, quota: u64) -> bool {
        self.change(|used| used.checked_add(len).filter(|used| *used <= quota))
    }

    /// Gives `len` bytes back.
    pub(super) fn release(&self, len: u64) {
        self.change(|used| Some(used.saturating_sub(len)));
    }

    pub(super) fn set(&self, used: u64) {
        self.change(|_| Some(used));
    }

    /// True when every process that used the folder left it in order: none was killed with bytes in its hands.
    pub(super) fn was_left(&self) -> bool {
        read(&self.file.lock().unwrap_or_else(PoisonError::into_inner), USERS_AT) == 0
    }

    /// Says that nobody uses the folder.
    pub(super) fn forget_users(&self) {
        self.change_at(USERS_AT, |_| Some(0));
    }

    pub(super) fn enter(&self) {
        self.change_at(USERS_AT, |users| Some(users.saturating_add(1)));
    }

    pub(super) fn leave(&self) {
        self.change_at(USERS_AT, |users| Some(users.saturating_sub(1)));
    }

    /// Makes the counter what `change` says, if it says anything and it can be written.
    fn change(&self, change: impl FnOnce(u64) -> Option<u64>) -> bool {
        self.change_at(0, change)
    }

    fn change_at(&self, at: u64, change: impl FnOnce(u64) -> Option<u64>) -> bool {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + PATIENCE;
        while flock(&*file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() > until {
                return false;
            }
            thread::sleep(Duration::from_micros(50));
        }
        let changed = change(read(&file, at))
            .is_some_and(|number| file.write_all_at(&number.to_le_bytes(), at).is_ok());
        let _ = flock(&*file, FlockOperation::Unlock);
        changed
    }
}

/// The counter of `folder`, as it stands.
pub(super) fn peek(folder: &Path) -> u64 {
    File::open(folder.join(NAME)).map_or(0, |file| read(&file, 0))
}

fn read(file: &File, at: u64) -> u64 {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_who_count_together_never_take_more_than_the_quota() {
        let folder = tempfile::tempdir().unwrap();
        let counters = [(); 2].map(|()| Counter::open(folder.path()).unwrap());
        let taken: u64 = thread::scope(|scope| {
            let each = counters.iter().flat_map(|counter| {
                [(); 2].map(|()| scope.spawn(|| (0..500).filter(|_| counter.reserve(1, 700)).count() as u64))
            });
            each.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((taken, counters[0].used()), (700, 700));
        counters[1].release(100);
        assert!(counters[0].reserve(100, 700) && !counters[0].reserve(1, 700));
    }
}
