//! One counter of bytes for all processes that use a folder, in a file under `flock`.
//!
//! A process that is killed between taking bytes and using them leaves the counter too high, never too low: the tier
//! is then a little smaller until no process uses it, and is counted anew by the next one that does.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use forebay_process::Result;
use forebay_scratch::{LockMode, OwnFolder, boot_id, lock_within, unlock};
use sha2::{Digest, Sha256};

/// The counter's file.
pub(super) const NAME: &str = "usage";

#[derive(Debug)]
pub(super) struct UsageCounter {
    /// Held by one thread at a time: the file's lock is that of the process.
    file: Mutex<File>,
}

/// The lock is held for two small reads and writes, unless its process was stopped.
const LIMIT: Duration = Duration::from_secs(1);

/// The numbers of the file, eight bytes each; those that a shorter file lacks are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct UsageRecord {
    /// Bytes taken.
    used: u64,
    /// Processes that use the folder.
    users: u64,
    /// Since which start of the machine all was counted; 0 when it never was, or the file was lost.
    boot: u64,
    /// Bytes taken for what is not there yet; they are in `used`.
    pending: u64,
    /// Bytes that were ever placed: a recount that takes a while sees what was placed meanwhile.
    placed: u64,
}

const TALLY_LEN: usize = 40;

impl UsageRecord {
    fn read(file: &File) -> Self {
        let mut bytes = [0; TALLY_LEN];
        let mut len = 0;
        while let Ok(count) = file.read_at(&mut bytes[len..], len as u64)
            && count > 0
        {
            len += count;
        }
        let mut numbers = bytes.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
        let mut next = || numbers.next().unwrap_or(0);
        Self { used: next(), users: next(), boot: next(), pending: next(), placed: next() }
    }

    fn write(&self, file: &File) -> bool {
        let Self { used, users, boot, pending, placed } = self;
        let bytes = [used, users, boot, pending, placed].map(|number| number.to_le_bytes());
        file.write_all_at(bytes.as_flattened(), 0).is_ok()
    }
}

/// This start of the machine as a number, which is not 0.
fn this_boot() -> u64 {
    let hash = Sha256::digest(boot_id());
    hash.first_chunk().map_or(1, |first| u64::from_le_bytes(*first)).max(1)
}

/// What a count begins from.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountStart {
    placed: u64,
}

impl UsageCounter {
    pub(super) fn open(folder: &OwnFolder) -> Result<Self> {
        Ok(Self { file: Mutex::new(folder.open_or_create(NAME)?) })
    }

    /// Bytes taken.
    pub(super) fn used(&self) -> u64 {
        self.tally().used
    }

    /// Takes `len` bytes, if no more than `quota` are taken then. Before the first count none are given out.
    pub(super) fn reserve(&self, len: u64, quota: u64) -> bool {
        self.change(|tally| {
            let used = tally.used.checked_add(len).filter(|used| *used <= quota && tally.boot != 0)?;
            Some(UsageRecord { used, pending: tally.pending.saturating_add(len), ..tally })
        })
    }

    /// Of the bytes taken, `len` are there now.
    pub(super) fn placed(&self, len: u64) {
        self.change(|tally| {
            let (pending, placed) = (tally.pending.saturating_sub(len), tally.placed.wrapping_add(len));
            Some(UsageRecord { pending, placed, ..tally })
        });
    }

    /// Gives `len` bytes back that were taken for what did not come.
    pub(super) fn cancel(&self, len: u64) {
        self.change(|tally| {
            let (used, pending) = (tally.used.saturating_sub(len), tally.pending.saturating_sub(len));
            Some(UsageRecord { used, pending, ..tally })
        });
    }

    /// Gives `len` bytes back that were there.
    pub(super) fn release(&self, len: u64) {
        self.change(|tally| Some(UsageRecord { used: tally.used.saturating_sub(len), ..tally }));
    }

    /// True when what it says cannot be relied on: a process was killed with bytes in its hands, the machine was started
    /// anew, or the file was lost.
    pub(super) fn is_inexact(&self) -> bool {
        let tally = self.tally();
        tally.users > 0 || tally.boot != this_boot()
    }

    /// True before the first count.
    pub(super) fn is_unknown(&self) -> bool {
        self.tally().boot == 0
    }

    /// Begins a count while no other process uses the folder: none is left that has taken bytes for what is to come.
    pub(super) fn begin_count(&self) -> CountStart {
        self.change(|tally| Some(UsageRecord { users: 0, pending: 0, ..tally }));
        self.before()
    }

    /// Begins a count that another process did not finish.
    pub(super) fn before(&self) -> CountStart {
        CountStart { placed: self.tally().placed }
    }

    /// `present` bytes were found since `before`. What came meanwhile may be among them or not and is added: the counter
    /// may say too much, never too little, and not more than it did.
    pub(super) fn finish_count(&self, before: CountStart, present: u64) {
        self.change(|tally| {
            let meanwhile = tally.placed.wrapping_sub(before.placed);
            let most = present.saturating_add(meanwhile).saturating_add(tally.pending);
            // An old number is at most too high, but one from before the machine went down may be anything.
            let used = if tally.boot == this_boot() { most.min(tally.used) } else { most };
            Some(UsageRecord { used, boot: this_boot(), ..tally })
        });
    }

    pub(super) fn enter(&self) {
        self.change(|tally| Some(UsageRecord { users: tally.users.saturating_add(1), ..tally }));
    }

    pub(super) fn leave(&self) {
        self.change(|tally| Some(UsageRecord { users: tally.users.saturating_sub(1), ..tally }));
    }

    /// Records that it may be wrong: the next process that uses the folder alone counts.
    pub(super) fn mark_inexact(&self) {
        self.enter();
    }

    fn tally(&self) -> UsageRecord {
        UsageRecord::read(&self.file.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the counter what `change` says, if it says anything and it can be written.
    fn change(&self, change: impl FnOnce(UsageRecord) -> Option<UsageRecord>) -> bool {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if lock_within(&file, LockMode::Exclusive, LIMIT).is_err() {
            return false;
        }
        let changed = change(UsageRecord::read(&file)).is_some_and(|tally| tally.write(&file));
        unlock(&file);
        changed
    }
}

/// The counter of `folder`, as it stands.
pub(super) fn read_used(folder: &OwnFolder) -> u64 {
    folder.open_to_read(NAME).map_or(0, |file| UsageRecord::read(&file).used)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn own() -> (tempfile::TempDir, OwnFolder) {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFolder::create_in(folder.path(), "own").unwrap();
        (folder, own)
    }

    fn counted(folder: &OwnFolder) -> UsageCounter {
        let counter = UsageCounter::open(folder).unwrap();
        counter.finish_count(counter.before(), 0);
        counter
    }

    #[test]
    fn two_who_count_together_never_take_more_than_the_quota() {
        let (_temporary, folder) = own();
        let counters = [(); 2].map(|()| counted(&folder));
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

    #[test]
    fn a_counter_that_was_lost_gives_nothing_away_until_all_is_counted() {
        let (_temporary, folder) = own();
        let counter = counted(&folder);
        assert!(counter.reserve(10, 700) && !counter.is_inexact());
        std::fs::write(folder.path().join(NAME), [0; TALLY_LEN]).unwrap();
        assert!(counter.is_unknown() && !counter.reserve(1, 700));
        counter.finish_count(counter.before(), 500);
        assert_eq!((counter.used(), counter.reserve(201, 700)), (500, false));
    }

    #[test]
    fn what_comes_while_it_is_counted_is_never_left_out() {
        let (_temporary, folder) = own();
        let counter = counted(&folder);
        // Killed with 30 in its hands, 50 being there.
        assert!(counter.reserve(80, 700));
        counter.placed(50);
        let before = counter.begin_count();
        assert!(counter.reserve(20, 700) && counter.reserve(7, 700));
        counter.placed(20);
        counter.finish_count(before, 50);
        assert_eq!(counter.used(), 50 + 20 + 7);
    }
}
