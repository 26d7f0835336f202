//! What an epoch will cost, reckoned and not run: the plan's batches are walked and their units counted as the
//! cache would, without a byte of them.

mod replay;

use forebay_source::Result;
use serde::Serialize;

use self::replay::{Replay, UnitLens};
use crate::{
    Groups, Tail, layout::Layout, ledger::MOST_USES, loader, options::Options, order::Shuffle, plan::Plan,
    set::SampleSet, setup::Setup, shares::room_of,
};

/// What epochs of a loader will cost.
///
/// It is what one thread counts. More threads keep a batch each in the works, and may differ by a few units where memory
/// is tight. Ranks that share a spill find there what others decoded; each is reckoned as if it were alone.
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

/// What one epoch costs. The names are those of [`Stats`](crate::Stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EpochCost {
    /// Batches for the consumer.
    pub batches: u64,
    /// Samples in them.
    pub samples: u64,
    /// Bytes in them.
    pub delivered_bytes: u64,
    /// Bytes asked of the sources.
    pub read_bytes: u64,
    /// Requests for them.
    pub requests: u64,
    /// Bytes that come out of the filters.
    pub decoded_bytes: u64,
    /// Units that are read and decoded.
    pub decoded_units: u64,
    /// Units that were decoded before, in this epoch or an earlier one.
    pub decoded_again: u64,
    /// Bytes written to the spill.
    pub spilled_bytes: u64,
    /// Bytes read back from it.
    pub unspilled_bytes: u64,
    /// The most the spill holds.
    pub peak_spill_bytes: u64,
    /// The most memory that is in use: batches ahead, decoded units, a unit in the works of each thread, stored and decoded.
    pub peak_memory_bytes: u64,
}

impl EpochCost {
    /// Bytes read per byte used.
    pub fn read_factor(&self) -> f64 {
        factor(self.read_bytes, self.delivered_bytes)
    }

    /// Bytes decoded per byte used.
    pub fn decode_factor(&self) -> f64 {
        factor(self.decoded_bytes, self.delivered_bytes)
    }

    /// The cost of all, where this is that of a share.
    fn of_all(self, share: Share) -> Self {
        Self {
            delivered_bytes: share.all_of(self.delivered_bytes),
            read_bytes: share.all_of(self.read_bytes),
            requests: share.all_of(self.requests),
            decoded_bytes: share.all_of(self.decoded_bytes),
            decoded_units: share.all_of(self.decoded_units),
            decoded_again: share.all_of(self.decoded_again),
            spilled_bytes: share.all_of(self.spilled_bytes),
            unspilled_bytes: share.all_of(self.unspilled_bytes),
            peak_spill_bytes: share.all_of(self.peak_spill_bytes),
            ..self
        }
    }
}

fn factor(bytes: u64, used: u64) -> f64 {
    if used == 0 { 0.0 } else { bytes as f64 / used as f64 }
}

/// Samples that are walked: four seconds' work for two epochs where nothing is decoded twice.
const MOST_SAMPLES: u64 = 5_000_000;
/// Uses that are reckoned where units are decoded again and again, each time with those of all their samples: about
/// four seconds' work too.
const MOST_RECKONINGS: u64 = 20_000_000;
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
        let whole = loader::plan(options, loader::groups(set)?)?;
        let share = Share { part: walked(set, &setup, &whole).min(most_samples), all: set.len() };
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

/// The plan of epochs over a share of `set`, where `whole` is that over all of it.
pub(crate) fn plan_of(set: &SampleSet, options: &Options, whole: &Plan, share: Share) -> Result<Plan> {
    let options = Options { shuffle: whole.spec().shuffle, ..scaled(options, share) };
    loader::plan(&options, Groups::new(&first(set, share), whole.group_len())?)
}

/// The first samples of a set, which stand for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) part: u64,
    pub(crate) all: u64,
}

impl Share {
    fn is_all(self) -> bool {
        self.part == self.all
    }

    /// This share of `amount`.
    fn of(self, amount: u64) -> u64 {
        times(amount, self.part, self.all)
    }

    /// That of which this share is `amount`.
    fn all_of(self, amount: u64) -> u64 {
        times(amount, self.all, self.part)
    }
}

/// `amount * by / over`.
fn times(amount: u64, by: u64, over: u64) -> u64 {
    if by == over {
        return amount;
    }
    let product = u128::from(amount) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// The options with which a share of a set is walked: a batch of a full shuffle shall meet as large a part of the units
/// as it does in the whole set.
fn scaled(options: &Options, share: Share) -> Options {
    let batch_size = match options.shuffle {
        Shuffle::Full => share.of(options.batch_size).max(1),
        Shuffle::Block { .. } | Shuffle::None => options.batch_size,
    };
    // A part of a set that comes out even among ranks need not do so itself.
    let tail = options.tail.or((options.shard.world > 1).then_some(Tail::Drop));
    Options { batch_size, tail, ..options.clone() }
}

/// How many samples are walked: all, or as many of the first as take little time.
fn walked(set: &SampleSet, setup: &Setup, plan: &Plan) -> u64 {
    let quota = setup.spill.as_ref().map_or(0, |place| place.quota);
    let in_use = in_use(plan, set, &setup.layout);
    let is_lost = in_use > setup.shares.cache.saturating_add(quota);
    let per_sample = if is_lost && plan.group_len() <= MOST_USES { plan.group_len() } else { 1 };
    set.len().min((MOST_RECKONINGS / per_sample).clamp(LEAST_SAMPLES, MOST_SAMPLES))
}

/// Bytes of units that an order uses at a time.
fn in_use(plan: &Plan, set: &SampleSet, layout: &Layout) -> u64 {
    let unit = UnitLens::new(layout).first_of_columns;
    let (lanes, group) = match plan.spec().shuffle {
        Shuffle::Full => return layout.unit_bytes,
        Shuffle::None => (1, unit),
        Shuffle::Block { lanes, window } => {
            let group = times(layout.unit_bytes, plan.group_len(), set.len());
            (u64::from(lanes) * u64::from(window), group.max(unit))
        }
    };
    // A lane is at one group, or goes from one to the next.
    lanes.saturating_mul(group).saturating_mul(2).min(layout.unit_bytes)
}

/// The samples of each part that are walked.
fn first(set: &SampleSet, share: Share) -> Vec<u64> {
    let mut left = share.part;
    let cut = set.part_lens().into_iter().map(|len| {
        let own = left.min(len);
        left -= own;
        own
    });
    cut.filter(|len| *len > 0).collect()
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
    let in_works = each.saturating_mul(setup.shares.most_threads as u64);
    longest_batch.saturating_mul(in_flight).saturating_add(in_works)
}
