//! What an epoch will cost, computed without running it: the plan's batches are walked and their units counted as the
//! cache would, without a byte of them.

mod cost;
mod replay;
mod unit_lens;

use forebay_plan::Plan;
use forebay_process::Result;
use serde::Serialize;

pub use self::cost::EpochCost;
use self::{replay::Replay, unit_lens::in_use};
use crate::{
    epoch::share::{WalkedShare, plan_of},
    memory::{ledger::MOST_USES, setup::Setup, shares::room_of},
    options::Options,
    set::{SampleSet, shuffle_group::set_identity},
};

/// What epochs of a loader will cost.
///
/// It is what one thread counts. More threads work on a batch each, and may differ by a few units where memory
/// is tight. Ranks that share a spill find there what others decoded; each is estimated as if it were alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Estimate {
    /// True when every batch was walked; false when the first part of a vast set stands for all of it.
    pub exact: bool,
    /// Bytes of all units once they are decoded.
    pub unit_bytes: u64,
    /// Bytes of them that memory may hold.
    pub cache_bytes: u64,
    /// Bytes of them that the spill may hold.
    pub spill_quota_bytes: u64,
    /// The first epoch.
    pub first: EpochCost,
    /// One that follows.
    pub later: EpochCost,
}

/// Samples that are walked: four seconds' work for two epochs where nothing is decoded twice.
const MOST_SAMPLES: u64 = 5_000_000;
/// Uses that are computed where units are decoded again and again, each time with those of all their samples: about
/// four seconds' work too.
const MOST_USES_WALKED: u64 = 20_000_000;
/// Fewer samples than this say little about the rest.
const LEAST_SAMPLES: u64 = 100_000;

impl Estimate {
    /// What epochs over `set` cost with `options`. Reads no values.
    pub fn of(set: &SampleSet, options: &Options) -> Result<Self> {
        Self::within(set, options, MOST_SAMPLES)
    }

    /// What they cost, judged by at most the first `most_samples` samples.
    pub fn within(set: &SampleSet, options: &Options, most_samples: u64) -> Result<Self> {
        let setup = Setup::planned(set, options)?;
        let whole = options.plan_of(&set_identity(set))?;
        let share =
            WalkedShare { part: walked(set, &setup, &whole).min(most_samples), all: whole.epoch_len() };
        let walk = match share.is_all() {
            true => whole.clone(),
            false => plan_of(set, options, &whole, share)?,
        };
        let mut replay = Replay::new(set, &setup, &whole, share);
        let epochs = [replay.epoch(&walk, 0)?, replay.epoch(&walk, 1)?];
        let longest_batch = replay.longest_batch / walk.spec().batch.max(1) * options.batch_size;
        let longest_batch = if share.is_all() { replay.longest_batch } else { longest_batch };
        let units = share.all_of(replay.peak_units).min(replay.peak_units.max(setup.shares.cache));
        let cost = |number: usize| {
            let cost = epochs[number];
            let cost = if share.is_all() { cost } else { counted(&whole, cost.of_all(share))? };
            let rest = besides_units(longest_batch, &setup, cost.batches);
            Ok(EpochCost { peak_memory_bytes: units.saturating_add(rest), ..cost })
        };
        Ok(Self {
            exact: share.is_all(),
            unit_bytes: setup.layout.unit_bytes,
            cache_bytes: setup.shares.cache,
            spill_quota_bytes: setup.spill.as_ref().map_or(0, |place| place.quota),
            first: cost(0)?,
            later: cost(1)?,
        })
    }
}

/// How many samples are walked: all, or as many of the first as take little time.
fn walked(set: &SampleSet, setup: &Setup, plan: &Plan) -> u64 {
    let quota = setup.spill.as_ref().map_or(0, |place| place.quota);
    let in_use = in_use(plan, set, &setup.layout);
    let is_lost = in_use > setup.shares.cache.saturating_add(quota);
    let per_sample = if is_lost && plan.group_len() <= MOST_USES { plan.group_len() } else { 1 };
    plan.epoch_len().min((MOST_USES_WALKED / per_sample).clamp(LEAST_SAMPLES, MOST_SAMPLES))
}

/// `cost` with the batches and samples of an epoch, which need no walk.
fn counted(plan: &Plan, cost: EpochCost) -> Result<EpochCost> {
    let spec = plan.spec();
    let epoch = plan.epoch(0, 0)?;
    let batches = epoch.step_count();
    let mut last = Vec::new();
    epoch.batch(batches.saturating_sub(1), &mut last);
    let full = batches.saturating_sub(1) * spec.batch;
    Ok(EpochCost { batches, samples: full + last.iter().flatten().count() as u64, ..cost })
}

/// The most memory that is in use besides units that are kept: for batches, and for a unit of each thread.
fn besides_units(longest_batch: u64, setup: &Setup, batches: u64) -> u64 {
    // One is the consumer's.
    let in_flight = (setup.shares.ahead + 2).min(batches);
    let each = room_of(setup.layout.largest_unit).saturating_add(setup.layout.besides_unit);
    let decoding = each.saturating_mul(setup.shares.most_threads as u64);
    longest_batch.saturating_mul(in_flight).saturating_add(decoding)
}
