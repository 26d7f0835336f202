//! What each policy would read from the origin, computed and not run.

use std::{
    collections::{HashMap, HashSet},
    num::NonZeroUsize,
    sync::Arc,
    thread,
};

use forebay_loader::{IndexAccess, Options, SampleSet, Schedule, ScheduledRead};
use forebay_process::Result;
use forebay_tier::{BlockUse, BuiltinPolicy, Forecast, ForecastTier, forecast};

use super::block_numbers::BlockNumbers;

/// Tiers that are thought of.
#[derive(Clone, Debug)]
pub struct TierPlan {
    /// The tiers, the fastest first.
    pub tiers: Vec<ForecastTier>,
    /// Bytes of a block.
    pub block_len: u64,
    /// Whether the rest of a file follows a part of it that was read, where nothing ever leaves a tier.
    pub whole_file: bool,
}

/// What would be read from the origin, by each policy.
#[derive(Clone, Debug, PartialEq)]
pub struct TierForecast {
    /// False when the first part of a vast set stands for all of it.
    pub exact: bool,
    /// One for each policy.
    pub policies: Vec<PolicyForecast>,
}

/// What one policy would read from the origin.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyForecast {
    /// Which.
    pub policy: BuiltinPolicy,
    /// Epoch by epoch.
    pub epochs: Vec<Forecast>,
}

impl PolicyForecast {
    /// What all epochs together read.
    pub fn sum(&self) -> Forecast {
        let add = |sum: Forecast, one: &Forecast| Forecast {
            reads: sum.reads.saturating_add(one.reads),
            bytes: sum.bytes.saturating_add(one.bytes),
        };
        self.epochs.iter().fold(Forecast::default(), add)
    }
}

/// Epochs that are computed.
const EPOCHS: u64 = 3;
/// Uses of blocks that are computed over all epochs together: twelve million took more than half a minute.
const MOST_USES: u64 = 1_000_000;
/// Samples that tell how many blocks one needs.
const PROBES: u64 = 512;

impl TierPlan {
    /// What three epochs over `set` with `options` would read from the origin. Reads no values.
    pub fn forecast(&self, set: &Arc<SampleSet>, options: &Options) -> Result<TierForecast> {
        self.forecast_within(set, options, MOST_USES)
    }

    /// The same, judged by about the first `most_uses` uses of blocks.
    pub fn forecast_within(
        &self,
        set: &Arc<SampleSet>,
        options: &Options,
        most_uses: u64,
    ) -> Result<TierForecast> {
        let whole = Schedule::new(set, options)?;
        let places = BlockNumbers::new(&whole, self.block_len);
        let most_samples = most_uses / EPOCHS.saturating_mul(uses_per_sample(&whole, &places));
        let all = whole.walked_samples();
        let schedule = if whole.walked_samples() <= most_samples.max(1) {
            whole
        } else {
            Schedule::within(set, options, most_samples)?
        };
        let share = Share { part: schedule.walked_samples(), all };
        let tiers: Vec<_> =
            self.tiers.iter().map(|tier| ForecastTier { quota: share.of(tier.quota), ..*tier }).collect();
        let uses = uses(&schedule, &places)?;
        let one = |policy: BuiltinPolicy| {
            let follows = self.whole_file && policy == BuiltinPolicy::FirstFit;
            let forecasts = match follows {
                true => forecast(&tiers, &policy, &followed(&uses, &places)),
                false => forecast(&tiers, &policy, &uses),
            };
            let all = |forecast: &Forecast| Forecast {
                reads: share.all_of(forecast.reads),
                bytes: share.all_of(forecast.bytes),
            };
            PolicyForecast { policy, epochs: forecasts.iter().map(all).collect() }
        };
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let mut policies = Vec::with_capacity(BuiltinPolicy::ALL.len());
        for some in BuiltinPolicy::ALL.chunks(threads) {
            thread::scope(|scope| {
                let started: Vec<_> =
                    some.iter().map(|policy| (*policy, scope.spawn(|| one(*policy)))).collect();
                for (policy, thread) in started {
                    policies.push(thread.join().unwrap_or_else(|_| one(policy)));
                }
            });
        }
        Ok(TierForecast { exact: share.part == share.all, policies })
    }
}

/// The first samples, which stand for all.
#[derive(Clone, Copy)]
struct Share {
    part: u64,
    all: u64,
}

impl Share {
    fn of(self, amount: u64) -> u64 {
        times(amount, self.part, self.all)
    }

    fn all_of(self, amount: u64) -> u64 {
        times(amount, self.all, self.part)
    }
}

/// `amount * by / over`.
fn times(amount: u64, by: u64, over: u64) -> u64 {
    let product = u128::from(amount) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// The usual number of blocks that a sample needs, at least 1.
fn uses_per_sample(schedule: &Schedule, places: &BlockNumbers) -> u64 {
    let (count, mut asked, mut blocks) = (schedule.sample_count(), Vec::new(), 0);
    let every = (count / PROBES).max(1);
    let probed = (0..count).step_by(usize::try_from(every).unwrap_or(usize::MAX));
    let probes = probed.clone().count() as u64;
    for sample in probed {
        schedule.bytes(sample, IndexAccess::Read, &mut asked);
        let covered = |ask: &ScheduledRead| {
            let range = places.blocks[ask.source].covering(ask.range);
            range.end - range.start
        };
        blocks += asked.iter().map(covered).sum::<u64>();
    }
    blocks.div_ceil(probes.max(1)).max(1)
}

/// The uses of blocks, epoch by epoch: each once in a batch, of units as often as the loader reads them.
fn uses(schedule: &Schedule, places: &BlockNumbers) -> Result<Vec<Vec<BlockUse>>> {
    let (mut slots, mut asked) = (Vec::new(), Vec::new());
    let mut units = HashSet::new();
    let mut epochs = Vec::new();
    for number in 0..EPOCHS {
        let epoch = schedule.epoch(number, 0)?;
        let mut uses: Vec<BlockUse> = Vec::new();
        for step in 0..epoch.step_count() {
            epoch.batch(step, &mut slots);
            schedule.batch(&slots, IndexAccess::Read, &mut asked);
            if schedule.keeps_units() {
                asked.retain(|ask| ask.unit.is_none_or(|unit| !units.contains(&unit)));
                units.extend(asked.iter().filter_map(|ask| ask.unit));
            }
            let first = uses.len();
            let mut known: HashMap<(usize, u64), usize> = HashMap::new();
            for ask in &asked {
                let blocks = &places.blocks[ask.source];
                for block in blocks.covering(ask.range) {
                    let range = blocks.range(block);
                    let bytes = ask.range.end.min(range.end) - ask.range.start.max(range.start);
                    let at = *known.entry((ask.source, block)).or_insert_with(|| {
                        uses.push(used(ask.source, block, range.len()));
                        uses.len() - 1
                    });
                    uses[at].asked = uses[at].asked.saturating_add(short(bytes));
                }
            }
            // What several samples of a batch have of a block is no more than all of it.
            uses[first..].iter_mut().for_each(|used| used.asked = used.asked.min(used.len));
        }
        epochs.push(uses);
    }
    Ok(epochs)
}

/// `uses` with all blocks of a source right before its first use.
fn followed(uses: &[Vec<BlockUse>], places: &BlockNumbers) -> Vec<Vec<BlockUse>> {
    let mut seen = HashSet::new();
    let epoch = |uses: &Vec<BlockUse>| {
        let mut more = Vec::with_capacity(uses.len());
        for used_now in uses {
            if seen.insert(used_now.source) {
                let source = used_now.source as usize;
                let blocks = &places.blocks[source];
                more.extend((0..blocks.count()).map(|block| used(source, block, blocks.range(block).len())));
            }
            more.push(*used_now);
        }
        more
    };
    uses.iter().map(epoch).collect()
}

/// A use of which nothing is asked yet.
fn used(source: usize, block: u64, len: u64) -> BlockUse {
    let source = u32::try_from(source).unwrap_or(u32::MAX);
    BlockUse { source, block: short(block), len: short(len), asked: 0 }
}

fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
