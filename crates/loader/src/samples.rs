//! Samples by number, on the caller's thread: for looking at them, and for loaders that are not ours.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use forebay_source::{Error, ErrorKind, Result, private};

use crate::{
    arena::Arena,
    assemble::Assembler,
    batch::FieldArray,
    cache::{Moment, Now, UnitCache},
    layout::{Layout, Wishes},
    options::{Options, Shares, room},
    set::SampleSet,
    spill::{FileSpill, Spill},
    spill_place::{self, SpillPlace},
    stats::{Counters, Stats},
};

/// Samples by number.
#[derive(Debug)]
pub struct Samples {
    assembler: Assembler,
    calls: AtomicU64,
    memory: u64,
}

impl Samples {
    /// The samples of `set`, by what `options` say of memory, spill and requests.
    pub fn new(set: Arc<SampleSet>, options: &Options) -> Result<Self> {
        let memory = options.memory();
        Ok(Self { assembler: assembler(set, options)?.0, calls: AtomicU64::new(0), memory })
    }

    /// The samples `numbers`, side by side, in that order; one may be asked for more than once.
    pub fn get(&self, numbers: &[u64]) -> Result<Vec<FieldArray>> {
        let set = self.set();
        let len = (set.delivered_len() / set.len().max(1)).saturating_mul(numbers.len() as u64);
        if len > self.memory {
            let what =
                format!("{} samples take {len} bytes, the memory budget is {}", numbers.len(), self.memory);
            return Err(Error::new(ErrorKind::Full, what).hint("take fewer at a time, or a loader"));
        }
        let slots: Vec<Option<u64>> = numbers.iter().map(|number| Some(*number)).collect();
        let call = self.calls.fetch_add(1, Relaxed);
        let moment = Moment::new(0, call);
        self.assembler.assemble(&slots, Now { moment, oldest: moment, horizon: None })
    }

    /// All samples there are.
    pub fn set(&self) -> &Arc<SampleSet> {
        &self.assembler.set
    }

    /// What was read so far.
    pub fn stats(&self) -> Stats {
        self.assembler.counters.stats()
    }
}

/// How a set is read, decided before any of it is.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) layout: Layout,
    pub(crate) shares: Shares,
    /// Where a spill goes, if one is of use.
    pub(crate) spill: Option<SpillPlace>,
    /// Whether the processes of a node share it.
    pub(crate) is_shared: bool,
}

impl Setup {
    pub(crate) fn of(set: &SampleSet, options: &Options) -> Result<Self> {
        if options.batch_size == 0 {
            return Err(Error::new(ErrorKind::Invalid, "batches of 0 samples"));
        }
        let spill = spill_place::choose(&options.spill)?;
        let quota = spill.as_ref().map_or(0, |place| place.quota);
        let room = (options.memory() / 2).saturating_add(quota);
        let wishes = Wishes { transfer_len: options.transfer_size, shuffle: options.shuffle, room };
        let layout = Layout::new(set, &wishes)?;
        let shares = Shares::of(options, set, &layout)?;
        let is_shared = options.spill.shared.unwrap_or(options.shard.world > 1);
        let is_needed = layout.unit_bytes > shares.cache || is_shared && layout.unit_count > 0;
        let spill = spill.filter(|place| is_needed && place.quota > 0);
        Ok(Self { layout, shares, spill, is_shared })
    }

    /// True when memory and the spill have room for all units: each is read once then.
    pub(crate) fn keeps_units(&self) -> bool {
        let quota = self.spill.as_ref().map_or(0, |place| place.quota);
        self.layout.unit_bytes <= self.shares.cache.saturating_add(quota)
    }
}

/// What puts samples of `set` side by side, and how its memory is divided.
pub(crate) fn assembler(set: Arc<SampleSet>, options: &Options) -> Result<(Assembler, Shares)> {
    let setup = Setup::of(&set, options)?;
    let keeps_units = setup.keeps_units();
    let Setup { layout, shares, spill, is_shared } = setup;
    let spill = spill.and_then(|place| open_spill(&place, &set, &layout, is_shared));
    let counters = Arc::new(Counters::default());
    let arena = Arena::new(shares.memory);
    let most = layout.unit_count.saturating_mul(room(layout.largest_unit));
    let cache = UnitCache::new(Arc::clone(&arena), shares.cache, most, spill, Arc::clone(&counters));
    let (layout, memory) = (Arc::new(layout), shares.memory);
    Ok((Assembler { set, layout, arena, cache, keeps_units, counters, memory }, shares))
}

/// The spill at `place`. Without one the loader still works, so trouble with it is no error.
fn open_spill(
    place: &SpillPlace,
    set: &SampleSet,
    layout: &Layout,
    is_shared: bool,
) -> Option<Arc<dyn Spill>> {
    // A file cannot be longer than its offsets can say.
    if layout.unit_bytes.saturating_add(layout.unit_count) > 1 << 62 {
        return None;
    }
    let opened = if is_shared {
        let name = format!("{}-{}-{}", set.fingerprint(), layout.signature(), private::job_name());
        FileSpill::shared(&place.folder, &name, layout.unit_count, place.quota)
    } else {
        FileSpill::private(&place.folder, layout.unit_count, place.quota)
    };
    opened.ok().map(|spill| Arc::new(spill) as Arc<dyn Spill>)
}
