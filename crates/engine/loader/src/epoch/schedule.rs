//! Which bytes samples need, and when: for tiers that fetch ahead or decide what to keep. Arithmetic, but for the indexes of shards.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use forebay_container::{Extents, Selection, SourceIndex};
use forebay_format::{Opened, UnreadShard};
use forebay_plan::{Epoch, Plan};
use forebay_process::Result;
use forebay_source::{ByteRange, SourceId};

use crate::{
    epoch::share::{WalkedShare, plan_of},
    layout::{SetLayout, Storage, preferred_request, walk::FieldRead},
    memory::setup::Setup,
    options::Options,
    set::{
        SampleSet,
        column::{Column, ColumnPart, SampleAt},
        shuffle_group::set_identity,
    },
};

/// Which bytes of which sources samples need, as the loader asks for them, and when samples are used.
#[derive(Debug)]
pub struct Schedule {
    set: Arc<SampleSet>,
    layout: Arc<SetLayout>,
    plan: Plan,
    /// Samples of an epoch that are gone through.
    walked: u64,
    keeps_units: bool,
    request_bytes: u64,
    sources: Vec<SourceId>,
    /// Where among them those of each field's files are.
    columns: Vec<ColumnSources>,
}

/// Whether a schedule may read what it needs to know where chunks lie: the indexes of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexAccess {
    /// It reads indexes, and waits for them.
    Read,
    /// It never reads: of a sample in shards whose indexes were not read yet it gives these indexes alone. Threads that fetch for
    /// tiers ask this way: they would wait for themselves.
    Known,
    /// It never reads: of a sample in shards whose indexes were not read yet it gives these shards whole.
    WholeShards,
}

/// Bytes that the loader reads from a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScheduledRead {
    /// Which of [`Schedule::sources`].
    pub source: usize,
    /// Which bytes of it, as one range.
    pub range: ByteRange,
    /// The unit they are decoded to: they are not asked for while the loader still has it.
    pub unit: Option<u64>,
}

/// Where the sources of one field's files are among all, file by file.
#[derive(Debug)]
struct ColumnSources {
    parts: Vec<Arc<[usize]>>,
    indices: Option<Box<ColumnSources>>,
}

impl Schedule {
    /// The schedule of a loader of `set` with `options`; a loader that is there gives its own.
    pub fn new(set: &Arc<SampleSet>, options: &Options) -> Result<Self> {
        let setup = Setup::planned(set, options)?;
        let keeps_units = setup.keeps_units();
        let plan = options.plan_of(&set_identity(set))?;
        Self::of(Arc::clone(set), Arc::new(setup.layout), keeps_units, plan)
    }

    /// The schedule of epochs over the first `most_samples` samples, at least one, which stand for all of `set`: a
    /// batch of a full shuffle has as large a share of them as it has of all.
    pub fn within(set: &Arc<SampleSet>, options: &Options, most_samples: u64) -> Result<Self> {
        let whole = Self::new(set, options)?;
        let walked = most_samples.clamp(1, whole.walked.max(1));
        if walked >= whole.walked {
            return Ok(whole);
        }
        let share = WalkedShare { part: walked, all: whole.walked };
        let plan = plan_of(set, options, &whole.plan, share)?;
        Ok(Self { plan, walked, ..whole })
    }

    /// The schedule of a loader that reads `set` as `layout` says.
    pub(crate) fn of(
        set: Arc<SampleSet>,
        layout: Arc<SetLayout>,
        keeps_units: bool,
        plan: Plan,
    ) -> Result<Self> {
        let mut known = KnownSources::default();
        let columns = set.columns.iter().map(|column| known.column(column)).collect();
        let mut request_bytes = 0;
        for part in set.columns.iter().filter_map(|column| column.parts.first()) {
            request_bytes = preferred_request(part)?.max(request_bytes);
        }
        let walked = plan.epoch_len();
        Ok(Self { set, layout, plan, walked, keeps_units, request_bytes, sources: known.sources, columns })
    }

    /// The sources of all files that values are read from.
    pub fn sources(&self) -> &[SourceId] {
        &self.sources
    }

    /// How many samples there are.
    pub fn sample_count(&self) -> u64 {
        self.set.len()
    }

    /// How many of them its epochs go through: fewer than all where the first stand for the rest.
    pub fn walked_samples(&self) -> u64 {
        self.walked
    }

    /// True when the loader keeps every unit once it was read, in memory or in its spill.
    pub fn keeps_units(&self) -> bool {
        self.keeps_units
    }

    /// How many units there are.
    pub fn unit_count(&self) -> u64 {
        self.layout.unit_count
    }

    /// Bytes that one request to the sources should bring, as they say; 0 where it does not matter.
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// What remains of epoch `number` once `position` positions of its order are consumed.
    pub fn epoch(&self, number: u64, position: u64) -> Result<Epoch> {
        self.plan.epoch(number, position)
    }

    /// Puts what is read when `sample` alone is made into `out`: nothing where a library reads.
    pub fn bytes(&self, sample: u64, indexes: IndexAccess, out: &mut Vec<ScheduledRead>) {
        out.clear();
        self.add(std::iter::once(sample), indexes, out);
    }

    /// Puts what is read when a batch of `samples` is made into `out`, each range once, in nearly that order.
    pub fn batch(&self, samples: &[Option<u64>], indexes: IndexAccess, out: &mut Vec<ScheduledRead>) {
        out.clear();
        self.add(samples.iter().flatten().copied(), indexes, out);
        let mut seen = HashSet::with_capacity(out.len());
        out.retain(|read| seen.insert((read.source, read.range)));
    }

    fn add(
        &self,
        samples: impl Iterator<Item = u64> + Clone,
        indexes: IndexAccess,
        out: &mut Vec<ScheduledRead>,
    ) {
        for field in FieldRead::all(&self.set, &self.layout) {
            let there = samples.clone().filter(|sample| *sample < self.set.len());
            // An error of a file is reported when it is read.
            let _ = field.each_group(there, &mut |field, storage, located| {
                self.add_part(field, storage, located, indexes, out);
                Ok(())
            });
        }
    }

    /// Adds what samples of one file need.
    fn add_part(
        &self,
        field: FieldRead<'_>,
        storage: &Storage,
        located: &[SampleAt],
        indexes: IndexAccess,
        out: &mut Vec<ScheduledRead>,
    ) {
        let Some(first) = located.first() else { return };
        let part = field.column.part(*first);
        let whole = &self.columns[field.number];
        let columns = whole.indices.as_deref().filter(|_| field.is_indices).unwrap_or(whole);
        let sources = &columns.parts[first.part as usize];
        let mut push = |source: SourceIndex, range: ByteRange, unit| {
            if let Some(source) = sources.get(source.0 as usize).filter(|_| !range.is_empty()) {
                out.push(ScheduledRead { source: *source, range, unit });
            }
        };
        let is_sharded = matches!(part.variable().extents, Extents::Shards(_));
        let mut known = Vec::new();
        let located = if is_sharded && indexes != IndexAccess::Read {
            for at in located {
                let unread = unread_shards(part, storage, *at);
                if unread.is_empty() {
                    known.push(*at);
                }
                for UnreadShard { file, index } in unread {
                    let range = if indexes == IndexAccess::Known { index } else { Some(file.range) };
                    // No part of a unit: that is named once it is known where its chunks lie.
                    range.into_iter().for_each(|range| push(file.source, range, None));
                }
            }
            &known[..]
        } else {
            located
        };
        match storage {
            Storage::Rows(rows) => {
                for at in located {
                    let _ = rows.each_range(part, at.number, |source, range| push(source, range, None));
                }
            }
            Storage::Boxes => {
                let (variable, mut spans) = (part.variable(), Vec::new());
                for at in located {
                    part.index.spans(at.number, &variable.grid.shape, &mut spans);
                    let selection = Selection::new(std::mem::take(&mut spans));
                    let _ = part.opened.plan(variable, &selection, &mut |source, range| {
                        push(source, range, None);
                    });
                }
            }
            Storage::Units(units) => {
                let (mut numbers, mut touched) = (Vec::new(), Vec::new());
                for at in located {
                    units.touched(part, at.number, &mut touched);
                    numbers.extend_from_slice(&touched);
                }
                numbers.sort_unstable();
                numbers.dedup();
                for number in numbers {
                    let unit = Some(units.first + number);
                    let _ = units.each_range(part, number, &mut |source, range| push(source, range, unit));
                }
            }
        }
    }
}

/// The shards whose indexes have to be read before it is known where a sample of `part` lies.
fn unread_shards(part: &ColumnPart, storage: &Storage, at: SampleAt) -> Vec<UnreadShard> {
    let variable = part.variable();
    match storage {
        Storage::Rows(_) | Storage::Boxes => {
            let mut spans = Vec::new();
            part.index.spans(at.number, &variable.grid.shape, &mut spans);
            part.opened.unread_shards(variable, &Selection::new(spans))
        }
        Storage::Units(units) => {
            let mut touched = Vec::new();
            units.touched(part, at.number, &mut touched);
            touched.iter().flat_map(|number| units.unread_shards(part, *number)).collect()
        }
    }
}

/// Sources that were met, each once.
#[derive(Default)]
struct KnownSources {
    sources: Vec<SourceId>,
    by_id: HashMap<SourceId, usize>,
    by_file: HashMap<*const Opened, Arc<[usize]>>,
}

impl KnownSources {
    fn column(&mut self, column: &Column) -> ColumnSources {
        let parts = column.parts.iter().map(|part| self.file(&part.opened)).collect();
        let indices = column.dense.as_ref().map(|dense| Box::new(self.column(&dense.indices)));
        ColumnSources { parts, indices }
    }

    /// Where the sources of `file` are among all.
    fn file(&mut self, file: &Arc<Opened>) -> Arc<[usize]> {
        if let Some(known) = self.by_file.get(&Arc::as_ptr(file)) {
            return Arc::clone(known);
        }
        let places: Arc<[usize]> = file.container().sources.iter().map(|id| self.source(id)).collect();
        self.by_file.insert(Arc::as_ptr(file), Arc::clone(&places));
        places
    }

    fn source(&mut self, id: &SourceId) -> usize {
        if let Some(known) = self.by_id.get(id) {
            return *known;
        }
        let place = self.sources.len();
        self.sources.push(id.clone());
        self.by_id.insert(id.clone(), place);
        place
    }
}
