//! Warming: whole sources copied before they are read.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use forebay_process::{Error, Result};
use forebay_source::Locator;
use serde::{Deserialize, Serialize};

use crate::{
    flight::{FlightPart, Landed, Turn},
    tiered::{
        Tiered,
        fetch::{FetchOutcome, fetch_block},
        source_state::{PATIENCE, SourceState},
    },
};

/// The progress of warming, or its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warmed {
    /// Sources that were looked at.
    pub sources: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes that were fetched and placed.
    pub placed_bytes: u64,
    /// Bytes that were there already, and right.
    pub present_bytes: u64,
    /// Bytes for which there was no room.
    pub refused_bytes: u64,
    /// Sources that no tier copies: those on its own device, and those that changed a moment ago.
    pub passed_over: u64,
}

#[derive(Debug, Default)]
struct WarmCounters {
    sources: AtomicU64,
    bytes: AtomicU64,
    placed_bytes: AtomicU64,
    present_bytes: AtomicU64,
    refused_bytes: AtomicU64,
    passed_over: AtomicU64,
}

impl WarmCounters {
    fn warmed(&self) -> Warmed {
        let load = |counter: &AtomicU64| counter.load(Relaxed);
        Warmed {
            sources: load(&self.sources),
            bytes: load(&self.bytes),
            placed_bytes: load(&self.placed_bytes),
            present_bytes: load(&self.present_bytes),
            refused_bytes: load(&self.refused_bytes),
            passed_over: load(&self.passed_over),
        }
    }
}

/// How often progress is reported to the caller.
const REPORT: Duration = Duration::from_millis(100);

/// Copies all of `sources` to the tiers of `tiered`; what is there already is compared with its checksums.
///
/// `go_on` is called with the progress now and then, and ends it by false: what was placed stays, so that the next
/// warming goes on from there. The first error ends it too.
pub fn warm(
    tiered: &Tiered,
    sources: &[Locator],
    threads: NonZeroUsize,
    mut go_on: impl FnMut(Warmed) -> bool,
) -> Result<Warmed> {
    let (counters, next, stop) = (WarmCounters::default(), AtomicUsize::new(0), AtomicBool::new(false));
    let failed: Mutex<Option<Error>> = Mutex::default();
    let work = || {
        while !stop.load(Relaxed) {
            let Some(at) = sources.get(next.fetch_add(1, Relaxed)) else { return };
            if let Err(error) = warm_one(tiered, at, &counters, &stop) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.at(at));
                stop.store(true, Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.get()).map(|_| scope.spawn(work)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            if !go_on(counters.warmed()) {
                stop.store(true, Relaxed);
            }
            thread::park_timeout(REPORT);
        }
    });
    // What is complete is sealed, so that the next process need not compare it.
    while !stop.load(Relaxed) && !tiered.wait(REPORT) {
        if !go_on(counters.warmed()) {
            break;
        }
    }
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(counters.warmed()),
    }
}

fn warm_one(tiered: &Tiered, at: &Locator, counters: &WarmCounters, stop: &AtomicBool) -> Result<()> {
    let (process, state) = tiered.state(at)?;
    counters.sources.fetch_add(1, Relaxed);
    let Some(state) = state else {
        counters.passed_over.fetch_add(1, Relaxed);
        return Ok(());
    };
    counters.bytes.fetch_add(state.blocks.len(), Relaxed);
    for block in 0..state.blocks.count() {
        if stop.load(Relaxed) {
            return Ok(());
        }
        let len = state.blocks.range(block).len();
        if is_right(&state, block) {
            counters.present_bytes.fetch_add(len, Relaxed);
            continue;
        }
        if state.is_elsewhere(block) {
            // Another rank is about to copy it, as this one copies its own.
            counters.present_bytes.fetch_add(len, Relaxed);
            continue;
        }
        if !state.has_room(block, false) {
            counters.refused_bytes.fetch_add(len, Relaxed);
            continue;
        }
        let counter = match process.flights.turn(state.key, FlightPart::Block(block)) {
            Turn::Lead(lead) => {
                let flight = lead.flight();
                let fetched = fetch_block(&process, &state, block, false, lead);
                flight.wait(Duration::ZERO).map_or(Ok(None), Landed::into_result)?;
                if fetched == FetchOutcome::Kept { &counters.placed_bytes } else { &counters.refused_bytes }
            }
            // A reader has asked for it.
            Turn::Follow(flight) => {
                flight.wait(PATIENCE).map_or(Ok(None), Landed::into_result)?;
                &counters.present_bytes
            }
        };
        counter.fetch_add(len, Relaxed);
    }
    state.settle();
    Ok(())
}

/// True when a tier has `block` as it was put.
fn is_right(state: &SourceState, block: u64) -> bool {
    state.copies.iter().any(|(_, copies)| copies.has(block) && copies.get(block).is_some())
}
