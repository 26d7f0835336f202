//! What went through a mount.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use serde::Serialize;

/// What went through a mount since it was made, or since its counters were last set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MountCounters {
    /// Files opened.
    pub opens: u64,
    /// Reads, each of which waited.
    pub reads: u64,
    /// Requests by which those reads came: more than reads where the kernel cut off the last part of a page.
    pub requests: u64,
    /// Bytes that reads were given.
    pub bytes: u64,
    /// Names looked up.
    pub lookups: u64,
    /// Files and folders asked for their size and times.
    pub stats: u64,
    /// Folders listed.
    pub lists: u64,
    /// Writes, each of which waited.
    pub writes: u64,
    /// Requests by which those writes came.
    pub write_requests: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Times that a program waited for its bytes to be safe.
    pub fsyncs: u64,
    /// Files, folders and links made.
    pub creates: u64,
    /// Files and folders renamed.
    pub renames: u64,
    /// Files and folders removed.
    pub removes: u64,
    /// Files cut or grown to a length.
    pub truncates: u64,
    /// Files and folders whose permissions, owner or times were changed.
    pub changes: u64,
    /// Seconds it is since counting began.
    pub seconds: f64,
}

/// Counters that many threads count in.
#[derive(Debug)]
pub(crate) struct MountTally {
    pub(crate) opens: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) lookups: AtomicU64,
    pub(crate) stats: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) write_requests: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) fsyncs: AtomicU64,
    pub(crate) creates: AtomicU64,
    pub(crate) renames: AtomicU64,
    pub(crate) removes: AtomicU64,
    pub(crate) truncates: AtomicU64,
    pub(crate) changes: AtomicU64,
    began: Instant,
    /// What the counters were when they were last set back.
    base: Mutex<MountCounters>,
}

impl MountTally {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            opens: zero(),
            reads: zero(),
            requests: zero(),
            bytes: zero(),
            lookups: zero(),
            stats: zero(),
            lists: zero(),
            writes: zero(),
            write_requests: zero(),
            bytes_written: zero(),
            fsyncs: zero(),
            creates: zero(),
            renames: zero(),
            removes: zero(),
            truncates: zero(),
            changes: zero(),
            began: Instant::now(),
            base: Mutex::default(),
        }
    }

    /// What went through since the mount was made.
    pub(crate) fn total(&self) -> MountCounters {
        MountCounters {
            opens: self.opens.load(Relaxed),
            reads: self.reads.load(Relaxed),
            requests: self.requests.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            lookups: self.lookups.load(Relaxed),
            stats: self.stats.load(Relaxed),
            lists: self.lists.load(Relaxed),
            writes: self.writes.load(Relaxed),
            write_requests: self.write_requests.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            fsyncs: self.fsyncs.load(Relaxed),
            creates: self.creates.load(Relaxed),
            renames: self.renames.load(Relaxed),
            removes: self.removes.load(Relaxed),
            truncates: self.truncates.load(Relaxed),
            changes: self.changes.load(Relaxed),
            seconds: self.began.elapsed().as_secs_f64(),
        }
    }

    /// What went through since the counters were last set back.
    pub(crate) fn recent(&self) -> MountCounters {
        let base = *self.base();
        self.total().since(&base)
    }

    /// The same, and counted from here next time: nothing is counted twice or lost in between.
    pub(crate) fn take(&self) -> MountCounters {
        let mut base = self.base();
        let total = self.total();
        let recent = total.since(&base);
        *base = total;
        recent
    }

    fn base(&self) -> MutexGuard<'_, MountCounters> {
        // It is set by one assignment: a panic elsewhere cannot leave it half done.
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MountCounters {
    /// What was counted after `before`.
    fn since(&self, before: &Self) -> Self {
        Self {
            opens: self.opens.saturating_sub(before.opens),
            reads: self.reads.saturating_sub(before.reads),
            requests: self.requests.saturating_sub(before.requests),
            bytes: self.bytes.saturating_sub(before.bytes),
            lookups: self.lookups.saturating_sub(before.lookups),
            stats: self.stats.saturating_sub(before.stats),
            lists: self.lists.saturating_sub(before.lists),
            writes: self.writes.saturating_sub(before.writes),
            write_requests: self.write_requests.saturating_sub(before.write_requests),
            bytes_written: self.bytes_written.saturating_sub(before.bytes_written),
            fsyncs: self.fsyncs.saturating_sub(before.fsyncs),
            creates: self.creates.saturating_sub(before.creates),
            renames: self.renames.saturating_sub(before.renames),
            removes: self.removes.saturating_sub(before.removes),
            truncates: self.truncates.saturating_sub(before.truncates),
            changes: self.changes.saturating_sub(before.changes),
            seconds: self.seconds - before.seconds,
        }
    }

    /// One line of JSON.
    pub(crate) fn json(&self) -> Vec<u8> {
        // Numbers and fixed names cannot fail to be JSON.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
