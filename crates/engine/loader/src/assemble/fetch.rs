//! Samples of one field from one file.

use std::time::Instant;

use forebay_batch::{LoaderCounters, nanos};
use forebay_container::Selection;
use forebay_process::{Error, Result};

use crate::{
    assemble::file_maker::FileMaker,
    layout::{
        unit_slices::{MOST_SPILL_READS, UnitSlice},
        units::Units,
        walk::InPart,
    },
    memory::{
        cache::{FoundUnit, IfBusy, UnitRequest},
        ledger::Now,
        spill::UnitPlace,
    },
    set::column::{Column, ColumnPart, SampleAt},
    to_usize::to_usize,
};

/// A sample, or one line of it, and the memory it goes to.
#[derive(Debug)]
pub(super) struct SampleTarget<'a> {
    pub(super) located: SampleAt,
    /// Which line; 0 where the sample is read as a whole.
    pub(super) line: u64,
    pub(super) into: &'a mut [u8],
}

impl InPart for SampleTarget<'_> {
    fn located(&self) -> SampleAt {
        self.located
    }
}

/// Reads samples of one field from one file.
pub(super) struct Fetch<'a> {
    pub(super) maker: &'a FileMaker,
    pub(super) column: &'a Column,
    pub(super) part: u32,
    pub(super) now: Now<'a>,
}

impl Fetch<'_> {
    pub(super) fn file(&self) -> &ColumnPart {
        &self.column.parts[self.part as usize]
    }

    /// Samples that the format reads one by one.
    ///
    /// Gives the time that was counted as reading.
    pub(super) fn boxes(&self, targets: &mut [SampleTarget<'_>]) -> Result<u64> {
        let part = self.file();
        let variable = part.variable();
        let began = Instant::now();
        let mut spans = Vec::new();
        let mut bytes = 0;
        for target in targets.iter_mut() {
            part.index.spans(target.located.number, &variable.grid.shape, &mut spans);
            let selection = Selection::new(std::mem::take(&mut spans));
            part.opened.read_into(variable, &selection, target.into)?;
            bytes += target.into.len() as u64;
        }
        let counters = &self.maker.counters;
        LoaderCounters::add(&counters.read_bytes, bytes);
        LoaderCounters::add(&counters.requests, targets.len() as u64);
        LoaderCounters::lap(&counters.read_ns, began);
        Ok(nanos(began.elapsed()))
    }

    /// Copies `slices`, each unit once with all it has; those of units that another thread decodes are left, or waited
    /// for. Gives the time that was counted as reading and decoding.
    pub(super) fn units(
        &self,
        units: &Units,
        slices: &mut Vec<UnitSlice>,
        if_busy: IfBusy,
        targets: &mut [SampleTarget<'_>],
    ) -> Result<u64> {
        let mut elsewhere_ns = 0;
        let mut busy = Vec::new();
        let by_unit: Vec<&[UnitSlice]> = slices.chunk_by(|one, next| one.unit == next.unit).collect();
        let in_memory = self.maker.cache.in_memory(by_unit.iter().map(|same| units.first + same[0].unit));
        for (place, same_unit) in by_unit.iter().enumerate() {
            if let Some(Some(next)) = in_memory.get(place + 1) {
                self.maker.tuning.prefetch(&next[by_unit[place + 1][0].from..]);
            }
            if let Some(Some(unit)) = in_memory.get(place) {
                copy_slices(unit, same_unit, targets);
                continue;
            }
            let number = same_unit[0].unit;
            let samples = || units.samples(self.column, self.part, number);
            let at = UnitPlace { unit: units.first + number, byte: units.byte_of(number) };
            let len = to_usize(units.unit_len);
            let wanted = UnitRequest { place: at, len, samples: &samples };
            let counters = &self.maker.counters;
            let found = self.maker.cache.get(&wanted, self.now, if_busy, |out| {
                let began = Instant::now();
                let loaded = units.load(self.file(), number, out, counters);
                elsewhere_ns += nanos(began.elapsed());
                loaded
            })?;
            if let FoundUnit::Busy = found {
                busy.extend_from_slice(same_unit);
                continue;
            }
            self.copy(found, at, len, same_unit, targets).or_else(|_| {
                // The spill lost it: the unit is read again where it came from.
                let mut unit = self.maker.cache.unit(len)?;
                units.load(self.file(), number, &mut unit, counters)?;
                LoaderCounters::add(&counters.decoded_again, 1);
                copy_slices(&unit, same_unit, targets);
                Ok::<(), Error>(())
            })?;
        }
        *slices = busy;
        Ok(elsewhere_ns)
    }

    fn copy(
        &self,
        found: FoundUnit,
        at: UnitPlace,
        len: usize,
        slices: &[UnitSlice],
        targets: &mut [SampleTarget<'_>],
    ) -> Result<()> {
        let cache = &self.maker.cache;
        match found {
            FoundUnit::Busy => {}
            FoundUnit::Memory(unit) => copy_slices(&unit, slices, targets),
            FoundUnit::Spill if slices.len() > MOST_SPILL_READS => {
                let mut unit = self.maker.cache.unit(len)?;
                cache.read_spilled(at, 0, &mut unit)?;
                copy_slices(&unit, slices, targets);
            }
            FoundUnit::Spill => {
                for slice in slices {
                    let into = &mut targets[slice.target].into[slice.to..slice.to + slice.len];
                    cache.read_spilled(at, slice.from, into)?;
                }
            }
        }
        Ok(())
    }
}

fn copy_slices(unit: &[u8], slices: &[UnitSlice], targets: &mut [SampleTarget<'_>]) {
    for slice in slices {
        let into = &mut targets[slice.target].into[slice.to..slice.to + slice.len];
        into.copy_from_slice(&unit[slice.from..slice.from + slice.len]);
    }
}
