//! What is counted for `forebay run`: counters that all processes of a run share, where `FOREBAY_RUN` names their folder.

use std::{
    env,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use forebay_process::descriptors;
use forebay_scratch::{RunCounter, RunCounters};

static COUNTERS: OnceLock<Option<RunCounters>> = OnceLock::new();
/// Which process was counted last: a forked child has its parent's counters, and is one more.
static COUNTED: AtomicU32 = AtomicU32::new(0);

/// Opens the counters of the run, and counts `process`, which this is, once; what is not there is not counted.
pub(crate) fn begin(process: u32) {
    if COUNTERS.get().is_none() {
        open();
    }
    if COUNTED.load(Relaxed) != process && COUNTED.swap(process, Relaxed) != process {
        add(RunCounter::Processes, 1);
    }
}

fn open() {
    // Opened before it is set: a child that is forked meanwhile waits for no thread of its parent.
    let run = || env::var_os("FOREBAY_RUN").map(PathBuf::from);
    // All that is opened for it is closed: a program with few numbers counts too.
    let opened = || descriptors::briefly(|| RunCounters::open(&run()?).ok());
    let _is_first = COUNTERS.set(opened());
}

/// Adds to a counter of the run, if this process is part of one.
#[inline]
pub(crate) fn add(counter: RunCounter, amount: u64) {
    if let Some(Some(counters)) = COUNTERS.get() {
        counters.add(counter, amount);
    }
}
