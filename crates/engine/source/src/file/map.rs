//! When a file is copied from a mapping instead of being read, and when no longer.
//!
//! In the page cache a `pread` of 8 KiB takes 1.4 to 1.8 times as long as a copy. So a near file is mapped at its
//! second read if its bytes are there, and read from then on without a system call for each range. The
//! bytes are the same either way: where a mapping cannot be had, or fails, there is `pread`.

mod guard;
mod resident;
mod view;

use std::{
    fs::File,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use self::{
    resident::is_resident,
    view::{Opening, Refusal, View},
};
use crate::{
    file::mapping_mode::{MappedCopy, MappingMode},
    range::{ByteRange, Fill},
};

/// The page cache is asked about a mapped file again after as many bytes as it is long, within these bounds: asking
/// costs up to 7 us, as much as copying 64 KiB, and 3 % of all time where every file is 1 MiB long. One that is not
/// mapped is asked about after as many bytes as it is long: reading it once brings it into the cache.
const LEAST_BYTES_PER_ASKING: u64 = 16 << 20;
const LEAST_BYTES_UNMAPPED: u64 = 1 << 20;
const MOST_BYTES_PER_ASKING: u64 = 1 << 30;

/// Never again: no such number of bytes is ever read.
const NEVER: u64 = u64::MAX;

/// Whether and how this process maps files.
pub fn mapping() -> MappingMode {
    match guard::stands() {
        false => MappingMode::Off,
        true if resident::is_told() => MappingMode::ByCachestat,
        true => MappingMode::ByTrying,
    }
}

/// A file's mapping, if it has one.
#[derive(Debug)]
pub(crate) struct Mapped {
    view: View,
    len: u64,
    /// Since the page cache was last asked. Threads may overwrite each other's: it is only a pace.
    read_bytes: AtomicU64,
    /// How many bytes have to be read before it is asked next.
    due_bytes: AtomicU64,
}

impl Mapped {
    /// A file `len` long, without a mapping yet.
    pub(crate) fn new(len: u64) -> Self {
        // Anything read at all makes the second read ask.
        Self { view: View::new(len), len, read_bytes: AtomicU64::new(0), due_bytes: AtomicU64::new(1) }
    }

    /// A file `len` long that is never mapped: no handler is installed for its sake.
    pub(crate) fn never(len: u64) -> Self {
        Self { due_bytes: AtomicU64::new(NEVER), ..Self::new(len) }
    }

    /// Copies from the mapping, if there is one and this thread may.
    #[inline]
    pub(crate) fn copy(&self, fills: &mut [Fill<'_>]) -> MappedCopy {
        if !self.view.is_open() || !guard::stands() {
            return MappedCopy::Not;
        }
        match self.view.copy(fills) {
            Ok(()) => MappedCopy::Whole,
            Err(Refusal::Unmapped) => MappedCopy::Not,
            Err(Refusal::Torn) => {
                self.bar();
                MappedCopy::Not
            }
        }
    }

    /// Prefetches the first cache lines of `range`, which is copied next.
    #[inline]
    pub(crate) fn will_read(&self, range: ByteRange) {
        self.view.will_read(range);
    }

    /// True when the page cache ought to be asked, after `bytes` were read one way or the other.
    #[inline]
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        let read = self.read_bytes.load(Relaxed);
        self.read_bytes.store(read.saturating_add(bytes), Relaxed);
        read >= self.due_bytes.load(Relaxed)
    }

    /// Maps `file`, or gives its mapping up, as the page cache has it.
    #[cold]
    pub(crate) fn decide(&self, file: &File) {
        if guard::is_off() {
            return self.bar();
        }
        self.read_bytes.store(0, Relaxed);
        let is_here = is_resident(file, self.len);
        let least_bytes = if is_here { LEAST_BYTES_PER_ASKING } else { LEAST_BYTES_UNMAPPED };
        self.due_bytes.store(self.len.clamp(least_bytes, MOST_BYTES_PER_ASKING), Relaxed);
        match (self.view.is_open(), is_here) {
            (true, true) | (false, false) => {}
            // Faults read single pages from a disk where `pread` reads what is asked for.
            (true, false) => self.view.close(),
            (false, true) => {
                if self.view.open(file) == Opening::Never {
                    self.bar();
                }
            }
        }
    }

    fn bar(&self) {
        self.due_bytes.store(NEVER, Relaxed);
        self.view.close();
    }
}
