//! The epochs that can be seen, and where in them the consumer is.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use forebay_loader::Schedule;
use forebay_plan::Epoch;
use forebay_process::Result;

use super::index::SampleRun;

/// An epoch, those that follow it, and how far the consumer is.
#[derive(Debug)]
pub(super) struct EpochCourse {
    number: u64,
    current: Epoch,
    /// Steps of a whole epoch.
    step_count: u64,
    /// Made when they are first looked at.
    following: [OnceLock<Option<Epoch>>; HORIZON],
    /// The next step that is delivered.
    now: AtomicU64,
}

/// Epochs that are looked at after the current one: ranks draw different samples, and one of 8 ranks meets a sample
/// again in one of its next 8 epochs with a probability of two thirds.
const HORIZON: usize = 8;

/// Fewer samples than this are looked up one by one.
const FEW_SAMPLES: u64 = 256;

impl EpochCourse {
    pub(super) fn new(schedule: &Schedule, epoch: u64, position: u64) -> Result<Self> {
        let current = schedule.epoch(epoch, position)?;
        let step_count = schedule.epoch(epoch, 0)?.step_count();
        let now = AtomicU64::new(0);
        Ok(Self { number: epoch, current, step_count, following: Default::default(), now })
    }

    /// Notes that `step` of `epoch` was delivered.
    pub(super) fn reach(&self, epoch: u64, step: u64) {
        if epoch == self.number {
            self.now.fetch_max(step.saturating_add(1), Relaxed);
        }
    }

    /// The next step of the current epoch that is delivered.
    pub(super) fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// The epoch that is `later` epochs after the current one.
    pub(super) fn epoch(&self, schedule: &Schedule, later: usize) -> Option<&Epoch> {
        let Some(index) = later.checked_sub(1) else { return Some(&self.current) };
        let number = self.number.wrapping_add(later as u64);
        self.following.get(index)?.get_or_init(|| schedule.epoch(number, 0).ok()).as_ref()
    }

    /// The next step that uses one of `samples`, counted from the first epoch on.
    pub(super) fn next_use(&self, schedule: &Schedule, samples: &[SampleRun]) -> Option<u64> {
        if samples.is_empty() {
            return None;
        }
        let mut from = self.now();
        for later in 0..=HORIZON {
            let epoch = self.epoch(schedule, later)?;
            if let Some(step) = first_use(epoch, samples, from) {
                // One that was resumed has fewer steps, and ends with the same.
                let end = epoch.number().saturating_add(1).saturating_mul(self.step_count);
                return Some(end.saturating_sub(epoch.step_count() - step));
            }
            from = 0;
        }
        None
    }
}

/// The first step from `from` on that uses one of `samples`.
fn first_use(epoch: &Epoch, samples: &[SampleRun], from: u64) -> Option<u64> {
    let count: u64 = samples.iter().map(|[start, end]| u64::from(end - start)).sum();
    if count > FEW_SAMPLES {
        // What many samples need is mostly used soon: looking up all of them would take longer.
        let mut slots = Vec::new();
        let mut passed = 0;
        for step in from..epoch.step_count() {
            epoch.batch(step, &mut slots);
            passed += slots.len() as u64;
            if slots.iter().flatten().any(|sample| holds(samples, *sample)) {
                return Some(step);
            }
            if passed >= count {
                break;
            }
        }
    }
    let mut first = None::<u64>;
    for sample in samples.iter().flat_map(|[start, end]| *start..*end) {
        epoch.each_step_of(sample.into(), |step| {
            first = first.into_iter().chain((step >= from).then_some(step)).min();
        });
    }
    first
}

/// True when one of the runs, which rise, holds `sample`.
fn holds(runs: &[SampleRun], sample: u64) -> bool {
    let after = runs.partition_point(|[start, _]| u64::from(*start) <= sample);
    after.checked_sub(1).is_some_and(|at| sample < u64::from(runs[at][1]))
}
