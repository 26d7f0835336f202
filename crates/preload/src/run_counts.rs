//! What is counted for `forebay run`: counters that all processes of a run share, where `FOREBAY_RUN` names their folder.

use std::{
    env,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use forebay_scratch::{RunCounter, RunCounters};
use forebay_source::descriptors;

use crate::run_variables;

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
    let staged = || run_variables::get().map(|found| found.run().to_owned());
    let run = || staged().or_else(|| env::var_os("FOREBAY_RUN").map(PathBuf::from));
    // All that is opened for it is closed: a program with few numbers counts too.
    let opened = || descriptors::briefly(|| RunCounters::open(&run()?).ok());
    let _is_first = COUNTERS.set(opened());
}

/// What a counter of the run says now: 0 where this process is part of none, and nothing before that was asked for.
pub(crate) fn get(counter: RunCounter) -> Option<u64> {
    let counters = COUNTERS.get()?;
    Some(counters.as_ref().map_or(0, |counters| counters.get(counter)))
}

/// Adds to a counter of the run, if this process is part of one.
#[inline]
pub(crate) fn add(counter: RunCounter, amount: u64) {
    if let Some(Some(counters)) = COUNTERS.get() {
        counters.add(counter, amount);
    }
}
