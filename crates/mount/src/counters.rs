//! What went through a mount.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use serde::Serialize;

/// What went through a mount since it was made, or since its counters were last set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
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
    /// Seconds it is since counting began.
    pub seconds: f64,
}

/// Counters that many threads count in.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) opens: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) lookups: AtomicU64,
    pub(crate) stats: AtomicU64,
    pub(crate) lists: AtomicU64,
    began: Mutex<Instant>,
}

impl Tally {
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
            began: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        self.gather(began, |counter| counter.load(Relaxed))
    }

    /// The counters as they are, and zero from now on: nothing is counted twice or lost in between.
    pub(crate) fn take(&self) -> Counters {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = self.gather(*began, |counter| counter.swap(0, Relaxed));
        *began = Instant::now();
        counters
    }

    fn gather(&self, began: Instant, read: impl Fn(&AtomicU64) -> u64) -> Counters {
        Counters {
            opens: read(&self.opens),
            reads: read(&self.reads),
            requests: read(&self.requests),
            bytes: read(&self.bytes),
            lookups: read(&self.lookups),
            stats: read(&self.stats),
            lists: read(&self.lists),
            seconds: began.elapsed().as_secs_f64(),
        }
    }
}

impl Counters {
    /// One line of JSON.
    pub(crate) fn json(&self) -> Vec<u8> {
        // Numbers and fixed names cannot fail to be JSON.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
