//! Counters that all processes of one run share: a small file that each maps.
//!
//! A process may be killed at any moment, or replace itself by `exec`, and what it counted stays. The file is written in full
//! before it is mapped, so that no page of it is missing later; each counter is one atomic word.

#![expect(
    unsafe_code,
    reason = "other processes write the same memory, so it is read by address, as atomics"
)]

use std::{
    io::Write,
    path::Path,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use forebay_process::{Error, ErrorKind, Result};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::own_files::OwnFolder;

/// The file's name in the folder of a run.
const NAME: &str = "counters";
/// Bytes of the file: a page, of which the first word says which version it has.
const LEN: usize = 4096;
/// The first word of a file of this version.
const VERSION: u64 = 0x6662_7275_6e00_0002;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What is counted in a run, over all of its processes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum RunCounter {
            $($(#[$doc])* $variant,)*
        }

        impl RunCounter {
            /// All counters, in the order of the file.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The counter's name, as reports have it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

counters! {
    /// Processes that opened files under the prefix; one that replaces itself by `exec` counts again.
    Processes = "processes",
    /// Read-only opens of files under the origin's prefix that were managed.
    OpensManaged = "opens_managed",
    /// Those of them that were opened on a whole copy on a fast tier.
    OpensOnCopy = "opens_on_copy",
    /// Opens under the prefix that were left to the origin: for writing, or of files too young to be copied.
    OpensLeft = "opens_left",
    /// Read calls that were answered from blocks, and reads of whole copies as far as they are seen.
    Reads = "reads",
    /// Bytes that those calls gave.
    Bytes = "bytes",
    /// Blocks that tiers had.
    TierReads = "tier_reads",
    /// Bytes of blocks that tiers had.
    TierBytes = "tier_bytes",
    /// Requests for data that went to the origin, by readers and by the background.
    OriginReads = "origin_reads",
    /// Bytes that those requests brought.
    OriginBytes = "origin_bytes",
    /// Opens that asked the origin: each open under the prefix asks it for leave.
    OriginOpens = "origin_opens",
    /// Nanoseconds that read calls waited for bytes that no tier had.
    WaitNanoseconds = "wait_nanoseconds",
    /// Files that became whole copies on a disk tier.
    PlacedFiles = "placed_files",
    /// Bytes that were put on tiers.
    PlacedBytes = "placed_bytes",
    /// Calls that were left to the C library because something inside went wrong.
    Fallbacks = "fallbacks",
    /// Descriptors of copies that were given back to the origin because the program locked them.
    LocksSwapped = "locks_swapped",
    /// Opens for writing, renames, truncations and removals of files that had copies in use.
    Invalidated = "invalidated",
    /// Bytes of whole copies that programs have opened, whether they were read or not.
    CopyBytes = "copy_bytes",
}

/// The counters of one run, mapped; every process of the run adds to the same words.
#[derive(Debug)]
pub struct RunCounters {
    page: NonNull<AtomicU64>,
}

// SAFETY: the page is mapped until the value is dropped and holds nothing but atomics.
unsafe impl Send for RunCounters {}
// SAFETY: as above; atomics may be used by any number of threads.
unsafe impl Sync for RunCounters {}

impl RunCounters {
    /// New counters in `folder`, which belongs to this user alone; an error where there are some.
    pub fn create(folder: &Path) -> Result<Self> {
        let at = |error: Error| error.at(folder.join(NAME).display());
        let mut file = OwnFolder::open(folder)?.create_new(NAME)?;
        // Written and not merely lengthened: a page without room on the disk would end a process when it is first used.
        file.write_all(&[0; LEN]).map_err(|error| at(Error::from_io(error)))?;
        let counters = Self::map(&file).map_err(at)?;
        counters.word(0).store(VERSION, Release);
        Ok(counters)
    }

    /// The counters that another process made in `folder`.
    pub fn open(folder: &Path) -> Result<Self> {
        let at = |error: Error| error.at(folder.join(NAME).display());
        let file = OwnFolder::open(folder)?.open_existing(NAME)?;
        let len = file.metadata().map_err(|error| at(Error::from_io(error)))?.len();
        if len != LEN as u64 {
            return Err(at(Error::new(ErrorKind::Corrupt, "is not a file of counters")));
        }
        let counters = Self::map(&file).map_err(at)?;
        if counters.word(0).load(Acquire) != VERSION {
            return Err(at(Error::new(ErrorKind::Unsupported, "counters of another version")));
        }
        Ok(counters)
    }

    fn map(file: &std::fs::File) -> Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no other memory is touched.
        let page = unsafe { mmap(ptr::null_mut(), LEN, protection, MapFlags::SHARED, file, 0) };
        let page = page.map_err(|errno| Error::from_io(errno.into()))?;
        let page = NonNull::new(page.cast()).expect("a mapping is never at address 0");
        Ok(Self { page })
    }

    /// Adds `amount` to a counter.
    pub fn add(&self, counter: RunCounter, amount: u64) {
        self.word(counter as usize + 1).fetch_add(amount, Relaxed);
    }

    /// What a counter says now.
    pub fn get(&self, counter: RunCounter) -> u64 {
        self.word(counter as usize + 1).load(Relaxed)
    }

    /// What all counters say now, in the order of [`RunCounter::ALL`].
    pub fn snapshot(&self) -> Vec<(RunCounter, u64)> {
        RunCounter::ALL.iter().map(|&counter| (counter, self.get(counter))).collect()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < LEN / size_of::<AtomicU64>(), "a word of the page");
        // SAFETY: the page has 512 words, of which the counters are far fewer; it is mapped as long as `self` lives, and all
        // processes use its words as atomics.
        unsafe { self.page.add(index).as_ref() }
    }
}

impl Drop for RunCounters {
    fn drop(&mut self) {
        // SAFETY: the page was mapped with this length, and nobody else has its address.
        let unmapped = unsafe { munmap(self.page.as_ptr().cast(), LEN) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_counts_every_other_sees_and_it_outlives_them() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = OwnFolder::create_in(outer.path(), "run").expect("a folder of this user alone");
        let first = RunCounters::create(folder.path()).expect("counters");
        let second = RunCounters::open(folder.path()).expect("the same");
        first.add(RunCounter::Reads, 2);
        second.add(RunCounter::Reads, 3);
        second.add(RunCounter::CopyBytes, u64::from(u32::MAX) + 1);
        drop((first, second));
        let again = RunCounters::open(folder.path()).expect("the same");
        assert_eq!(again.get(RunCounter::Reads), 5);
        let told: u64 = again.snapshot().iter().map(|(_, count)| count).sum();
        assert_eq!(told, 5 + u64::from(u32::MAX) + 1);
    }

    #[test]
    fn a_file_that_is_cut_or_of_another_version_is_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = OwnFolder::create_in(outer.path(), "run").expect("a folder of this user alone");
        RunCounters::create(folder.path()).expect("counters");
        assert!(RunCounters::create(folder.path()).is_err(), "there are some");
        let path = folder.path().join(NAME);
        std::fs::write(&path, [7; LEN]).expect("written");
        assert!(RunCounters::open(folder.path()).is_err());
        std::fs::write(&path, [0; 8]).expect("written");
        assert!(RunCounters::open(folder.path()).is_err());
    }

    #[test]
    fn names_of_counters_are_told_apart_and_fit_into_the_page() {
        let mut names: Vec<_> = RunCounter::ALL.iter().map(|counter| counter.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RunCounter::ALL.len());
        assert!(names.len() < LEN / size_of::<AtomicU64>());
    }
}
