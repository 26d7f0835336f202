//! What an epoch will cost, reckoned and not run: the plan's batches are walked and their units counted as the
//! cache would, without a byte of them.

use std::collections::HashSet;

use forebay_format::{PlainRows, RowPlace};
use forebay_source::Result;
use serde::Serialize;

use crate::{
    Groups,
    arena::rounded,
    assemble::{MOST_SPILL_READS, group_len, pieces},
    column::{Column, Form, Located, others},
    layout::{ColumnLayout, Layout, Storage},
    ledger::{Decoding, Ledger, MOST_USES, Moment, Now, Uses},
    loader,
    options::Options,
    order::Shuffle,
    plan::{Epoch, Plan},
    samples::Setup,
    set::{SampleSet, place},
    units::Units,
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
    /// The most memory that is in use: batches ahead, decoded units, a unit in the works of each thread.
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

    fn scaled(self, by: f64) -> Self {
        // Floats keep 15 digits, and this is an estimate.
        let scaled = |count: u64| (count as f64 * by).round() as u64;
        Self {
            delivered_bytes: scaled(self.delivered_bytes),
            read_bytes: scaled(self.read_bytes),
            requests: scaled(self.requests),
            decoded_bytes: scaled(self.decoded_bytes),
            decoded_units: scaled(self.decoded_units),
            decoded_again: scaled(self.decoded_again),
            spilled_bytes: scaled(self.spilled_bytes),
            unspilled_bytes: scaled(self.unspilled_bytes),
            peak_spill_bytes: scaled(self.peak_spill_bytes),
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
        let setup = Setup::of(set, options)?;
        let group_len = loader::group_len(set, options, &setup.layout);
        let whole = loader::plan(set, options, Groups::new(&set.part_lens(), group_len)?)?;
        let walked = walked(set, &setup, &whole).min(most_samples);
        let exact = walked == set.len();
        let part = walked as f64 / set.len().max(1) as f64;
        // A batch of a full shuffle shall meet as large a part of the units as it does in the whole set.
        let batch_size = match options.shuffle {
            Shuffle::Full => ((options.batch_size as f64 * part).round() as u64).max(1),
            Shuffle::Block { .. } | Shuffle::None => options.batch_size,
        };
        let plan = match exact {
            true => whole.clone(),
            false => {
                let groups = Groups::new(&first(&set.part_lens(), walked), group_len)?;
                loader::plan(set, &Options { batch_size, ..options.clone() }, groups)?
            }
        };
        let mut replay = Replay::new(set, &setup, options.shuffle, part);
        let first = replay.epoch(&plan, 0)?;
        let later = replay.epoch(&plan, 1)?;
        let cost = |cost: EpochCost, epoch| {
            let cost = if exact { cost } else { counted(&whole, epoch, cost.scaled(1.0 / part))? };
            // Floats keep 15 digits, and this is an estimate.
            let units = ((replay.peak_units as f64 / part) as u64).min(setup.shares.cache);
            let units = if exact { replay.peak_units } else { units };
            let longest = match exact {
                true => replay.longest_batch,
                false => replay.longest_batch / batch_size * options.batch_size,
            };
            let rest = besides_units(longest, &setup, options, cost.batches)?;
            Ok(EpochCost { peak_memory_bytes: units.saturating_add(rest), ..cost })
        };
        Ok(Self {
            exact,
            unit_bytes: setup.layout.unit_bytes,
            cache_bytes: setup.shares.cache,
            spill_quota_bytes: setup.spill.as_ref().map_or(0, |place| place.quota),
            first: cost(first, 0)?,
            later: cost(later, 1)?,
        })
    }
}

/// How many samples are walked: all, or as many of the first as take little time.
fn walked(set: &SampleSet, setup: &Setup, plan: &Plan) -> u64 {
    let quota = setup.spill.as_ref().map_or(0, |place| place.quota);
    let in_use = in_use(plan.spec().shuffle, &setup.layout);
    let is_lost = in_use > setup.shares.cache.saturating_add(quota);
    let per_sample = if is_lost && plan.group_len() <= MOST_USES { plan.group_len() } else { 1 };
    set.len().min((MOST_RECKONINGS / per_sample).clamp(LEAST_SAMPLES, MOST_SAMPLES))
}

/// Bytes of units that an order uses at a time.
fn in_use(shuffle: Shuffle, layout: &Layout) -> u64 {
    let lanes = match shuffle {
        Shuffle::Full => return layout.unit_bytes,
        Shuffle::None => 1,
        Shuffle::Block { lanes, window } => u64::from(lanes) * u64::from(window),
    };
    // A lane is at one unit of each field, or goes from one to the next.
    let lane = UnitLens::new(layout).first_of_columns.saturating_mul(2);
    lanes.saturating_mul(lane).min(layout.unit_bytes)
}

/// The first `count` samples of parts of `part_lens`.
fn first(part_lens: &[u64], count: u64) -> Vec<u64> {
    let mut left = count;
    let cut = part_lens.iter().map(|len| {
        let own = left.min(*len);
        left -= own;
        own
    });
    cut.filter(|len| *len > 0).collect()
}

/// `cost` with the batches and samples of `epoch`, which need no walk.
fn counted(plan: &Plan, epoch: u64, cost: EpochCost) -> Result<EpochCost> {
    let spec = plan.spec();
    let epoch = plan.epoch(epoch, 0)?;
    let batches = epoch.step_count();
    let mut last = Vec::new();
    epoch.batch(batches.saturating_sub(1), &mut last);
    let full = batches.saturating_sub(1) * spec.batch;
    Ok(EpochCost { batches, samples: full + last.iter().flatten().count() as u64, ..cost })
}

/// The most memory that is in use besides units that are kept: for batches, and for a unit of each thread.
fn besides_units(longest_batch: u64, setup: &Setup, options: &Options, batches: u64) -> Result<u64> {
    let threads = options.threads()? as u64;
    // One is the consumer's.
    let in_flight = (setup.shares.prefetch + threads + 1).min(batches);
    let in_works = rounded_len(setup.layout.largest_unit).saturating_mul(threads);
    Ok(longest_batch.saturating_mul(in_flight).saturating_add(in_works))
}

fn rounded_len(len: u64) -> u64 {
    match usize::try_from(len) {
        Ok(0) => 0,
        Ok(len) => rounded(len) as u64,
        Err(_) => u64::MAX,
    }
}

/// The cache and the spill of a loader, without their bytes.
struct Replay<'a> {
    set: &'a SampleSet,
    setup: &'a Setup,
    ledger: Ledger,
    budget: u64,
    /// Units that were decoded, where there is room for all: none of them leaves, whenever it is used next.
    kept: Option<HashSet<u64>>,
    spill: Option<Spilled>,
    lens: UnitLens,
    cost: EpochCost,
    longest_batch: u64,
    peak_units: u64,
}

/// What is in a spill.
struct Spilled {
    units: HashSet<u64>,
    used: u64,
    quota: u64,
}

impl Spilled {
    fn put(&mut self, unit: u64, len: u64, cost: &mut EpochCost) {
        if self.used.saturating_add(len) > self.quota || !self.units.insert(unit) {
            return;
        }
        self.used += len;
        cost.spilled_bytes += len;
    }
}

/// How long units are.
struct UnitLens {
    /// The first unit of each variable of each file, and the length of its units.
    by_first: Vec<(u64, u64)>,
    /// Bytes of one unit of each column.
    first_of_columns: u64,
    /// Bytes of memory for all units.
    room: u64,
}

impl UnitLens {
    fn new(layout: &Layout) -> Self {
        let indices = layout.columns.iter().filter_map(|column| column.indices.as_deref());
        let columns = || layout.columns.iter().chain(indices.clone());
        let len = |storage: &Storage| match storage {
            Storage::Units(units) if units.count() > 0 => Some((units.first, units.unit_len)),
            _ => None,
        };
        let mut by_first: Vec<_> = columns().flat_map(|column| &column.parts).filter_map(len).collect();
        by_first.sort_unstable();
        let firsts = columns().filter_map(|column| column.parts.first().and_then(len));
        let room = columns().flat_map(|column| &column.parts).fold(0u64, |sum, storage| match storage {
            Storage::Units(units) => {
                sum.saturating_add(units.count().saturating_mul(rounded_len(units.unit_len)))
            }
            Storage::Rows | Storage::Boxes => sum,
        });
        Self { by_first, first_of_columns: firsts.map(|(_, len)| len).sum(), room }
    }

    fn of(&self, unit: u64) -> u64 {
        let after = self.by_first.partition_point(|(first, _)| *first <= unit);
        after.checked_sub(1).map_or(0, |index| self.by_first[index].1)
    }
}

/// A unit that is asked for.
struct Asked<'a> {
    column: &'a Column,
    part: u32,
    units: &'a Units,
    number: u64,
}

impl<'a> Replay<'a> {
    /// A replay of what `setup` decides, with as much room as the `part` of the set that is walked.
    fn new(set: &'a SampleSet, setup: &'a Setup, shuffle: Shuffle, part: f64) -> Self {
        let scaled = |bytes: u64| (bytes as f64 * part) as u64;
        // What a full shuffle uses at a time grows with the set. What others use does not: it keeps its room.
        let least = match shuffle {
            Shuffle::Full => 0,
            Shuffle::None | Shuffle::Block { .. } => in_use(shuffle, &setup.layout),
        };
        let lens = UnitLens::new(&setup.layout);
        let cache = setup.shares.cache;
        let budget = if part < 1.0 { scaled(cache).max(least.min(cache)) } else { cache };
        let quota = |quota| if part < 1.0 { scaled(quota) } else { quota };
        let spill = setup.spill.as_ref().map(|place| Spilled {
            units: HashSet::new(),
            used: 0,
            quota: quota(place.quota),
        });
        Self {
            set,
            setup,
            ledger: Ledger::default(),
            budget,
            kept: (lens.room <= cache).then(HashSet::new),
            spill,
            lens,
            cost: EpochCost::default(),
            longest_batch: 0,
            peak_units: 0,
        }
    }

    fn epoch(&mut self, plan: &Plan, number: u64) -> Result<EpochCost> {
        let epoch: Epoch = plan.epoch(number, 0)?;
        let mut slots = Vec::new();
        for step in 0..epoch.step_count() {
            epoch.batch(step, &mut slots);
            let now = Now { moment: Moment::new(number, step), horizon: Some(&epoch) };
            self.batch(&slots, now)?;
        }
        self.cost.peak_spill_bytes = self.spill.as_ref().map_or(0, |spill| spill.used);
        Ok(std::mem::take(&mut self.cost))
    }

    fn batch(&mut self, slots: &[Option<u64>], now: Now<'_>) -> Result<()> {
        let (set, setup) = (self.set, self.setup);
        let mut len = 0u64;
        for (column, layout) in set.columns.iter().zip(&setup.layout.columns) {
            let located: Vec<Option<Located>> =
                slots.iter().map(|slot| slot.map(|sample| column.locate(sample))).collect();
            for group in located.chunks(group_len(column)) {
                self.produce(column, layout, group, now)?;
            }
            if let (Some(dense), Some(indices)) = (&column.dense, &layout.indices) {
                self.produce(&dense.indices, indices, &located, now)?;
            }
            len = len.saturating_add(delivered(column, &located));
        }
        self.cost.batches += 1;
        self.cost.samples += slots.iter().flatten().count() as u64;
        self.cost.delivered_bytes += len;
        self.longest_batch = self.longest_batch.max(len);
        Ok(())
    }

    fn produce(
        &mut self,
        column: &Column,
        layout: &ColumnLayout,
        group: &[Option<Located>],
        now: Now<'_>,
    ) -> Result<()> {
        let mut located: Vec<Located> = group.iter().flatten().copied().collect();
        if column.parts.len() > 1 {
            located.sort_unstable();
        }
        for same_part in located.chunk_by(|one, next| one.part == next.part) {
            let part = same_part[0].part;
            match &layout.parts[part as usize] {
                Storage::Rows => self.rows(column, same_part)?,
                Storage::Boxes => self.boxes(column, same_part),
                Storage::Units(units) => self.units(column, units, same_part, now),
            }
        }
        Ok(())
    }

    fn rows(&mut self, column: &Column, located: &[Located]) -> Result<()> {
        let part = column.part(located[0]);
        let variable = part.variable();
        let Some(rows) = PlainRows::of(variable) else {
            self.boxes(column, located);
            return Ok(());
        };
        for at in located.iter().filter(|_| rows.row_len() > 0) {
            let Some(wanted) = part.index.rows(at.number, &variable.grid.shape) else { continue };
            let mut row = wanted.start;
            while row < wanted.end {
                let (place_of, together) = rows
                    .locate(row, wanted.end - row)
                    .map_err(|error| place(&part.opened, variable, error))?;
                row += together;
                if let RowPlace::Stored { range, .. } = place_of {
                    self.cost.read_bytes += range.len();
                    self.cost.requests += 1;
                }
            }
        }
        Ok(())
    }

    fn boxes(&mut self, column: &Column, located: &[Located]) {
        for at in located {
            self.cost.read_bytes += sample_count(column, *at) * column.element_len() as u64;
            self.cost.requests += 1;
        }
    }

    fn units(&mut self, column: &Column, units: &Units, located: &[Located], now: Now<'_>) {
        let part = column.part(located[0]);
        let mut pieces = pieces(column, part, units, located.iter().map(|at| at.number));
        pieces.sort_unstable_by_key(|piece| piece.unit);
        for same_unit in pieces.chunk_by(|one, next| one.unit == next.unit) {
            let asked = Asked { column, part: located[0].part, units, number: same_unit[0].unit };
            let is_whole = same_unit.len() > MOST_SPILL_READS;
            let used = same_unit.iter().map(|piece| piece.len as u64).sum();
            self.unit(&asked, if is_whole { units.unit_len } else { used }, now);
        }
    }

    /// A use of a unit, of which `unspilled_bytes` are read back if it is in the spill.
    fn unit(&mut self, asked: &Asked<'_>, unspilled_bytes: u64, now: Now<'_>) {
        let Asked { column, part, units, number } = *asked;
        let unit = units.first + number;
        let samples = || units.samples(column, part, number);
        let is_kept = match &mut self.kept {
            Some(kept) => !kept.insert(unit),
            None => self.ledger.touch(unit, &samples, now),
        };
        if is_kept {
            return;
        }
        if self.spill.as_ref().is_some_and(|spill| spill.units.contains(&unit)) {
            self.cost.unspilled_bytes += unspilled_bytes;
            return;
        }
        let load = units.cost(&column.parts[part as usize], number);
        self.cost.read_bytes += load.read_bytes;
        self.cost.decoded_bytes += load.decoded_bytes;
        self.cost.requests += 1;
        self.cost.decoded_units += 1;
        if let Some(spill) = self.spill.as_mut().filter(|_| self.setup.is_shared) {
            spill.put(unit, units.unit_len, &mut self.cost);
        }
        let room = rounded_len(units.unit_len);
        if self.kept.is_some() {
            self.peak_units += room;
            return;
        }
        let uses = Uses::new(&samples, now);
        if self.ledger.admit(unit, room, uses) == Decoding::Again {
            self.cost.decoded_again += 1;
        }
        while let Some(leaver) = self.ledger.evict(self.budget) {
            let Some(spill) = self.spill.as_mut().filter(|_| leaver.is_used_again) else { continue };
            spill.put(leaver.unit, self.lens.of(leaver.unit), &mut self.cost);
        }
        self.peak_units = self.peak_units.max(self.ledger.len());
    }
}

/// Elements of the sample at `at`.
fn sample_count(column: &Column, at: Located) -> u64 {
    match &column.form {
        Form::Stacked { shape } => shape.iter().product(),
        Form::Joined { axis, shape } => {
            column.len_along(column.part(at), at.number, *axis) * others(shape, *axis)
        }
    }
}

/// Bytes that a batch of the samples `located` has in `column`.
fn delivered(column: &Column, located: &[Option<Located>]) -> u64 {
    let count: u64 = match (&column.dense, &column.form) {
        (Some(dense), _) => dense.columns * located.len() as u64,
        (None, Form::Stacked { shape }) => shape.iter().product::<u64>() * located.len() as u64,
        (None, Form::Joined { .. }) => located.iter().flatten().map(|at| sample_count(column, *at)).sum(),
    };
    count * column.final_len() as u64
}
