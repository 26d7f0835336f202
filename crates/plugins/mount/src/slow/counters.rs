//! What went through a slow mount.

use serde::Serialize;

use crate::fuse::tally::{Counter, TallyCounts};

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

impl MountCounters {
    pub(crate) fn new(counts: &TallyCounts) -> Self {
        Self {
            opens: counts.of(Counter::Opens),
            reads: counts.of(Counter::Reads),
            requests: counts.of(Counter::Requests),
            bytes: counts.of(Counter::Bytes),
            lookups: counts.of(Counter::Lookups),
            stats: counts.of(Counter::Stats),
            lists: counts.of(Counter::Lists),
            writes: counts.of(Counter::Writes),
            write_requests: counts.of(Counter::WriteRequests),
            bytes_written: counts.of(Counter::BytesWritten),
            fsyncs: counts.of(Counter::Fsyncs),
            creates: counts.of(Counter::Creates),
            renames: counts.of(Counter::Renames),
            removes: counts.of(Counter::Removes),
            truncates: counts.of(Counter::Truncates),
            changes: counts.of(Counter::Changes),
            seconds: counts.seconds,
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
