//! A table that a process shares with those it forks: who of them has taken how many bytes.
//!
//! A child has a copy of its parent's memory and the parent sees nothing of the child's. In these pages both see the same, so
//! that a parent knows what its workers have taken, and they know what the workers of another pool have. A process that ends
//! leaves its row, which counts as long as there is such a process.

#![expect(unsafe_code, reason = "memory that forked processes share comes from mmap alone")]

use std::{
    ptr,
    sync::{
        OnceLock,
        atomic::{
            AtomicI32, AtomicU64,
            Ordering::{AcqRel, Relaxed},
        },
    },
};

use rustix::{
    mm::{MapFlags, ProtFlags, mmap_anonymous},
    process::{Pid, test_kill_process},
};

/// What one process has taken; all zero where nobody uses the row.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ProcessRow {
    process: AtomicI32,
    parent: AtomicI32,
    /// Which workers of the parent's it is one of; 0 where it is none.
    pool: AtomicU64,
    bytes: AtomicU64,
}

/// Rows of the table, in four pages of 4 KiB.
const ROWS: usize = 16384 / size_of::<ProcessRow>();

static TABLE: OnceLock<Option<&'static [ProcessRow; ROWS]>> = OnceLock::new();

/// The row of `process`, whose parent is `parent`; none where the table is full or cannot be had.
pub(crate) fn row_of(process: Pid, parent: Option<Pid>) -> Option<&'static ProcessRow> {
    let table = table()?;
    let number = process.as_raw_nonzero().get();
    let own = table.iter().find(|row| row.process.load(Relaxed) == number);
    let row = own.or_else(|| table.iter().find(|row| row.is_claimed(number)))?;
    row.bytes.store(0, Relaxed);
    row.pool.store(0, Relaxed);
    row.parent.store(parent.map_or(0, |parent| parent.as_raw_nonzero().get()), Relaxed);
    Some(row)
}

/// Bytes that living children of `process` have taken.
pub(crate) fn taken_by_children(process: Pid) -> u64 {
    taken(process.as_raw_nonzero().get(), |_| true)
}

/// True when `process` has forked one that took memory, whether it still lives or not.
pub(crate) fn has_forked(process: Pid) -> bool {
    let Some(Some(table)) = TABLE.get() else { return false };
    let number = process.as_raw_nonzero().get();
    table.iter().any(|row| row.parent.load(Relaxed) == number)
}

fn taken(parent: i32, counts: impl Fn(&ProcessRow) -> bool) -> u64 {
    let Some(Some(table)) = TABLE.get() else { return 0 };
    let own = table.iter().filter(|row| row.parent.load(Relaxed) == parent && counts(row) && row.is_in_use());
    own.fold(0, |sum, row| sum.saturating_add(row.bytes.load(Relaxed)))
}

impl ProcessRow {
    /// Says that its process is one of the workers `pool` of its parent.
    pub(crate) fn join(&self, pool: u64) {
        self.pool.store(pool, Relaxed);
    }

    /// Bytes that living children of the same parent have taken, but for itself and those of its pool.
    pub(crate) fn taken_by_others(&self) -> u64 {
        let pool = self.pool.load(Relaxed);
        taken(self.parent.load(Relaxed), |row| {
            let is_of_pool = pool != 0 && row.pool.load(Relaxed) == pool;
            !ptr::eq(row, self) && !is_of_pool
        })
    }

    /// Says that its process has taken `bytes`.
    pub(crate) fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }

    /// True when its process lives, or has ended and nobody has waited for it yet.
    fn is_in_use(&self) -> bool {
        Pid::from_raw(self.process.load(Relaxed)).is_some_and(|process| test_kill_process(process).is_ok())
    }

    fn is_claimed(&self, number: i32) -> bool {
        let seen = self.process.load(Relaxed);
        !self.is_in_use() && self.process.compare_exchange(seen, number, AcqRel, Relaxed).is_ok()
    }
}

/// The table of this process and its children, made where there is none.
fn table() -> Option<&'static [ProcessRow; ROWS]> {
    if TABLE.get().is_none() {
        // Made before it is set: a child that is forked meanwhile waits for no thread of its parent. A thread that was second has
        // made a page that nobody uses.
        let _ = TABLE.set(map());
    }
    *TABLE.get()?
}

fn map() -> Option<&'static [ProcessRow; ROWS]> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so no other memory is touched.
    let page = unsafe {
        mmap_anonymous(ptr::null_mut(), size_of::<[ProcessRow; ROWS]>(), protection, MapFlags::SHARED)
    }
    .ok()?;
    // SAFETY: the page is mapped for reading and writing, is never unmapped, is aligned to pages and holds zeros, which are
    // valid atomics.
    Some(unsafe { &*page.cast::<[ProcessRow; ROWS]>() })
}
