//! What is decided before a set is read: how its fields are got, what memory and which spill it has.

use std::{
    path::PathBuf,
    sync::{Arc, Weak},
};

use forebay_batch::{Arena, Backing, LoaderCounters, RegionUse};
use forebay_process::{
    Error, ErrorKind, Event, EventKind, Resize, Result, current_process, ledger, memory_setting,
};
use forebay_scratch::job_name;
use serde::Serialize;

use crate::{
    assemble::file_maker::FileMaker,
    layout::{ReadSettings, SetLayout},
    memory::{
        cache::UnitCache,
        shares::{Needs, Shares},
        spill::{FileSpill, Spill},
        spill_folder::SpillFolder,
    },
    options::Options,
    set::{SampleSet, shuffle_group::set_identity},
    tuning::Tuning,
};

/// How a set is read, decided before any of it is.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) layout: SetLayout,
    pub(crate) shares: Shares,
    needs: Needs,
    /// Where a spill goes, if one is of use.
    pub(crate) spill: Option<SpillFolder>,
    /// Whether the processes of a node share it.
    pub(crate) is_shared: bool,
}

/// What memory, threads and spill are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct InForce {
    /// Threads that make batches.
    pub threads: usize,
    /// The most there are of them, with those that wait for data meanwhile.
    pub most_threads: usize,
    /// Batches that are made ahead of the consumer; 0 where each is made when it is asked for.
    pub batches_ahead: u64,
    /// Bytes for everything.
    pub memory_bytes: u64,
    /// Bytes of them for decoded units.
    pub cache_bytes: u64,
    /// The folder of the spill; nothing where there is none.
    pub spill: Option<PathBuf>,
    /// The most bytes it may take.
    pub spill_quota_bytes: u64,
}

/// Who reads samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReaderKind {
    /// Threads of a loader.
    Loader,
    /// The caller of a data set that is indexed.
    Caller,
}

impl Setup {
    /// How a loader of `set` would read it with `options`, as memory and disks are now.
    pub(crate) fn planned(set: &SampleSet, options: &Options) -> Result<Self> {
        let spill = spill_folder(options)?;
        Self::of(set, options, ReaderKind::Loader, spill)
    }

    fn of(
        set: &SampleSet,
        options: &Options,
        reader: ReaderKind,
        spill: Option<SpillFolder>,
    ) -> Result<Self> {
        memory_setting()?;
        if options.batch_size == 0 {
            let error = Error::new(ErrorKind::Invalid, "batch_size=0");
            return Err(error.hint("set batch_size to at least 1"));
        }
        let quota = spill.as_ref().map_or(0, |place| place.quota);
        let about = options.memory.unwrap_or_else(|| ledger().offer(0));
        let room = (about / 2).saturating_add(quota);
        let wishes = ReadSettings { transfer_len: options.transfer_size, shuffle: options.shuffle, room };
        let layout = SetLayout::new(set, &wishes)?;
        let threads = match reader {
            ReaderKind::Loader => options.threads()?,
            ReaderKind::Caller => 1,
        };
        let mut needs = Needs::of(options, set, &layout, threads, about);
        if reader == ReaderKind::Caller {
            // Nobody waits for data but the caller.
            needs.waiting = 0;
        }
        let memory = options.memory.unwrap_or_else(|| ledger().offer(needs.enough()));
        let shares = Shares::of(memory, &needs).map_err(|error| match options.memory {
            Some(_) => error,
            None => {
                error.hint(format!("{}; close what is not used, or set memory higher", ledger().report()))
            }
        })?;
        let is_shared = is_shared(options);
        let is_needed = layout.unit_bytes > shares.cache || is_shared && layout.unit_count > 0;
        let spill = spill.filter(|place| is_needed && place.quota > 0);
        Ok(Self { layout, shares, needs, spill, is_shared })
    }

    /// True when memory and the spill have room for all units: each is read once then.
    pub(crate) fn keeps_units(&self) -> bool {
        let quota = self.spill.as_ref().map_or(0, |place| place.quota);
        self.layout.unit_bytes <= self.shares.cache.saturating_add(quota)
    }

    /// The spill, opened, where one is of use.
    fn open_spill(&self, set: &SampleSet) -> Result<Option<Arc<dyn Spill>>> {
        // A file cannot be longer than its offsets can say.
        let is_too_long = self.layout.unit_bytes.saturating_add(self.layout.unit_count) > 1 << 62;
        let Some(place) = self.spill.as_ref().filter(|_| !is_too_long) else { return Ok(None) };
        let opened = if self.is_shared {
            let name = format!("{}-{}-{}", set.fingerprint(), self.layout.signature(), job_name());
            FileSpill::shared(&place.folder, &name, self.layout.unit_count, place.quota)?
        } else {
            FileSpill::private(&place.folder, self.layout.unit_count, place.quota)?
        };
        Ok(Some(Arc::new(opened)))
    }
}

/// Where the user wants a spill to be, or where one can be.
fn spill_folder(options: &Options) -> Result<Option<SpillFolder>> {
    let spill = &options.spill;
    SpillFolder::choose(spill.folder.as_deref(), spill.quota, is_shared(options))
}

fn is_shared(options: &Options) -> bool {
    options.spill.shared.unwrap_or(options.shard.world > 1)
}

/// What makes batches of samples of `set` for `reader`, in memory of `backing`.
pub(crate) fn file_maker(
    set: Arc<SampleSet>,
    options: &Options,
    reader: ReaderKind,
    backing: Arc<dyn Backing>,
) -> Result<FileMaker> {
    let place = spill_folder(options)?;
    let is_named = place.as_ref().is_some_and(|place| place.is_named);
    let mut setup = Setup::of(&set, options, reader, place)?;
    let spill = match setup.open_spill(&set) {
        Ok(spill) => spill,
        Err(error) if is_named => return Err(SpillFolder::unusable(error)),
        // The loader does without a folder that the user did not name, and decides anew how samples are read.
        Err(error) => {
            let text = format!("decoded values that memory cannot hold are not kept on disk: {error}");
            Event::new(EventKind::Spill, text).emit();
            setup = Setup::of(&set, options, reader, None)?;
            None
        }
    };
    let keeps_units = setup.keeps_units();
    let Setup { layout, shares, needs, spill: place, .. } = setup;
    let what = match reader {
        ReaderKind::Loader => "loader",
        ReaderKind::Caller => "data set",
    };
    let (least, most) = shares.bounds(&needs);
    let grant = match options.memory {
        Some(bytes) => ledger().take(what, bytes),
        None => ledger().share_out(what, least, most),
    };
    let counters = Arc::new(LoaderCounters::default());
    // Units that threads are decoding are not in the cache yet.
    let unit_bytes = shares.cache.saturating_add(needs.decoding_bytes(shares.most_threads));
    // Texts may be much longer than was expected: they have what no unit takes, but for what threads read them with.
    let is_all_theirs = layout.unit_count == 0 && options.memory.is_some() && set.usual_variable_len() > 0;
    let besides = if is_all_theirs { shares.memory / 8 } else { unit_bytes };
    let limit = shares.memory.saturating_sub(besides);
    let arena = Arena::over(limit, backing);
    let scratch = match arena.region_use() {
        RegionUse::Blocks => Arc::clone(&arena),
        RegionUse::Batches | RegionUse::Once => Arena::new(limit),
    };
    let cache = Arc::new(UnitCache::new(&shares, needs, spill, Arc::clone(&counters)));
    let resized: Weak<UnitCache> = Arc::downgrade(&cache);
    grant.tell(&(resized as Weak<dyn Resize>));
    Ok(FileMaker {
        identity: set_identity(&set),
        set,
        layout: Arc::new(layout),
        arena,
        scratch,
        cache,
        keeps_units,
        counters,
        shares,
        place,
        tuning: Tuning::from_env(),
        process: current_process(),
        grant,
    })
}

impl FileMaker {
    /// What is in force for it.
    pub(crate) fn in_force(&self) -> InForce {
        InForce {
            threads: self.shares.threads,
            most_threads: self.shares.most_threads,
            batches_ahead: self.shares.ahead,
            memory_bytes: self.grant.bytes(),
            cache_bytes: self.cache.budget(),
            spill: self.place.as_ref().map(|place| place.folder.clone()),
            spill_quota_bytes: self.place.as_ref().map_or(0, |place| place.quota),
        }
    }
}
