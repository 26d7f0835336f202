//! The cache and the spill of a loader, without their bytes.

use std::collections::HashSet;

use forebay_plan::{Epoch, Plan, Shuffle};
use forebay_process::Result;

use super::{
    cost::EpochCost,
    unit_lens::{UnitLens, in_use},
};
use crate::{
    epoch::share::WalkedShare,
    layout::{
        Storage, StoredRows,
        unit_slices::{MOST_SPILL_READS, unit_slices},
        units::Units,
        walk::FieldRead,
    },
    memory::{
        horizon::Moment,
        ledger::{Decoding, Now, UnitLedger, Uses},
        setup::Setup,
        shares::room_of,
    },
    set::{
        SampleSet,
        column::{Column, SampleAt, SampleForm},
    },
};

/// Counts what a loader of one thread would do.
pub(super) struct Replay<'a> {
    set: &'a SampleSet,
    setup: &'a Setup,
    ledger: UnitLedger,
    budget: u64,
    /// Units that were decoded, where there is room for all: none of them leaves, whenever it is used next.
    kept: Option<HashSet<u64>>,
    spill: Option<Spilled>,
    lens: UnitLens,
    cost: EpochCost,
    /// Bytes of the longest batch so far.
    pub(super) longest_batch: u64,
    /// The most bytes that units took in memory so far.
    pub(super) peak_units: u64,
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

/// A unit that samples are copied from.
struct UnitUse<'a> {
    column: &'a Column,
    part: u32,
    units: &'a Units,
    number: u64,
}

impl<'a> Replay<'a> {
    /// A replay of what `setup` decides, with as much room as the share of the set that is walked; `whole` is the plan of
    /// all of it.
    pub(super) fn new(set: &'a SampleSet, setup: &'a Setup, whole: &Plan, share: WalkedShare) -> Self {
        // What a full shuffle uses at a time grows with the set. What others use does not: it keeps its room.
        let least = match whole.spec().shuffle {
            Shuffle::Full => 0,
            Shuffle::None | Shuffle::Block { .. } => in_use(whole, set, &setup.layout),
        };
        let lens = UnitLens::new(&setup.layout);
        let cache = setup.shares.cache;
        let budget = share.of(cache).max(least.min(cache));
        let spill = setup.spill.as_ref().map(|place| Spilled {
            units: HashSet::new(),
            used: 0,
            quota: share.of(place.quota),
        });
        Self {
            set,
            setup,
            ledger: UnitLedger::default(),
            budget,
            kept: (lens.room <= cache).then(HashSet::new),
            spill,
            lens,
            cost: EpochCost::default(),
            longest_batch: 0,
            peak_units: 0,
        }
    }

    /// What epoch `number` of `plan` costs after those before it.
    pub(super) fn epoch(&mut self, plan: &Plan, number: u64) -> Result<EpochCost> {
        let epoch: Epoch = plan.epoch(number, 0)?;
        let mut slots = Vec::new();
        for step in 0..epoch.step_count() {
            epoch.batch(step, &mut slots);
            let moment = Moment::new(number, step);
            let now = Now { moment, oldest: moment, horizon: Some(&epoch) };
            self.batch(&slots, now)?;
        }
        self.cost.peak_spill_bytes = self.spill.as_ref().map_or(0, |spill| spill.used);
        Ok(std::mem::take(&mut self.cost))
    }

    fn batch(&mut self, slots: &[Option<u64>], now: Now<'_>) -> Result<()> {
        let mut len = 0u64;
        for field in FieldRead::all(self.set, &self.setup.layout) {
            let samples = slots.iter().flatten().copied();
            field.each_group(samples.clone(), &mut |field, storage, located| match storage {
                Storage::Units(units) => {
                    self.units(field.column, units, located, now);
                    Ok(())
                }
                Storage::Boxes => {
                    self.boxes(field.column, located);
                    Ok(())
                }
                Storage::Rows(rows) => self.rows(field.column, rows, located),
            })?;
            len = len.saturating_add(delivered(field.column, samples, slots.len()));
        }
        self.cost.batches += 1;
        self.cost.samples += slots.iter().flatten().count() as u64;
        self.cost.delivered_bytes += len;
        self.longest_batch = self.longest_batch.max(len);
        Ok(())
    }

    fn rows(&mut self, column: &Column, rows: &StoredRows, located: &[SampleAt]) -> Result<()> {
        let part = column.part(located[0]);
        for at in located {
            rows.each_range(part, at.number, |_, range| {
                self.cost.read_bytes += range.len();
                self.cost.requests += 1;
            })?;
        }
        Ok(())
    }

    fn boxes(&mut self, column: &Column, located: &[SampleAt]) {
        for at in located {
            self.cost.read_bytes += column.sample_count(*at) * column.part(*at).element_len() as u64;
            self.cost.requests += 1;
        }
    }

    fn units(&mut self, column: &Column, units: &Units, located: &[SampleAt], now: Now<'_>) {
        let part = column.part(located[0]);
        let slices = unit_slices(part, units, located.iter().map(|at| at.number));
        for same_unit in slices.chunk_by(|one, next| one.unit == next.unit) {
            let wanted = UnitUse { column, part: located[0].part, units, number: same_unit[0].unit };
            let is_whole = same_unit.len() > MOST_SPILL_READS;
            let used = same_unit.iter().map(|slice| slice.len as u64).sum();
            self.unit(&wanted, if is_whole { units.unit_len } else { used }, now);
        }
    }

    /// A use of a unit, of which `unspilled_bytes` are read back if it is in the spill.
    fn unit(&mut self, wanted: &UnitUse<'_>, unspilled_bytes: u64, now: Now<'_>) {
        let UnitUse { column, part, units, number } = *wanted;
        let unit = units.first + number;
        let samples = || units.samples(column, part, number);
        let is_kept = match &mut self.kept {
            Some(kept) => !kept.insert(unit),
            None => self.ledger.touch(unit, now),
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
        let room = room_of(units.unit_len);
        if self.kept.is_some() {
            self.peak_units += room;
            return;
        }
        let uses = Uses::new(&samples, now);
        if self.ledger.admit(unit, room, uses) == Decoding::Again {
            self.cost.decoded_again += 1;
        }
        while let Some(evicted) = self.ledger.evict(self.budget, now) {
            let Some(spill) = self.spill.as_mut().filter(|_| evicted.is_used_again) else { continue };
            spill.put(evicted.unit, self.lens.of(evicted.unit), &mut self.cost);
        }
        self.peak_units = self.peak_units.max(self.ledger.len());
    }
}

/// Bytes that a batch of `samples` in `slot_count` slots has in `column`.
fn delivered(column: &Column, samples: impl Iterator<Item = u64>, slot_count: usize) -> u64 {
    let count: u64 = match (&column.dense, &column.form) {
        (Some(dense), _) => dense.columns * slot_count as u64,
        (None, SampleForm::Stacked { shape }) => shape.iter().product::<u64>() * slot_count as u64,
        (None, SampleForm::Joined { .. }) => {
            samples.map(|sample| column.sample_count(column.locate(sample))).sum()
        }
    };
    count * column.delivered_len() as u64
}
