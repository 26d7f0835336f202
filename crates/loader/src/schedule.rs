//! Which bytes samples need, and when: arithmetic, for whoever fetches ahead or decides what to keep.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use forebay_container::{Selection, SourceIndex};
use forebay_format::Opened;
use forebay_source::{ByteRange, Result, SourceId};

use crate::{
    Epoch, Options, Plan,
    assemble::group_len,
    column::{Column, Located},
    estimate::{Share, plan_of},
    layout::{ColumnLayout, Layout, Storage, preferred_request},
    loader,
    set::SampleSet,
    setup::Setup,
};

/// Which bytes of which sources samples need, as the loader asks for them, and when samples are used.
#[derive(Debug)]
pub struct Schedule {
    set: Arc<SampleSet>,
    layout: Arc<Layout>,
    plan: Plan,
    /// Samples of an epoch.
    walked: u64,
    keeps_units: bool,
    request_bytes: u64,
    sources: Vec<SourceId>,
    /// Where among them those of each field's files are.
    columns: Vec<ColumnSources>,
}

/// Bytes that the loader asks a source for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
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

/// One field, how it is read, and from where.
#[derive(Clone, Copy)]
struct Field<'a> {
    column: &'a Column,
    layout: &'a ColumnLayout,
    sources: &'a ColumnSources,
}

impl Schedule {
    /// The schedule of a loader of `set` with `options`; a loader that is there gives its own.
    pub fn new(set: &Arc<SampleSet>, options: &Options) -> Result<Self> {
        let setup = Setup::planned(set, options)?;
        let keeps_units = setup.keeps_units();
        let plan = loader::plan(options, loader::groups(set)?)?;
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
        let share = Share { part: walked, all: set.len() };
        let plan = plan_of(set, options, &whole.plan, share)?;
        Ok(Self { plan, walked, ..whole })
    }

    /// The schedule of a loader that reads `set` as `layout` says.
    pub(crate) fn of(
        set: Arc<SampleSet>,
        layout: Arc<Layout>,
        keeps_units: bool,
        plan: Plan,
    ) -> Result<Self> {
        let mut known = Known::default();
        let columns = set.columns.iter().map(|column| known.column(column)).collect();
        let mut request_bytes = 0;
        for part in set.columns.iter().filter_map(|column| column.parts.first()) {
            request_bytes = preferred_request(part)?.max(request_bytes);
        }
        let walked = set.len();
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

    /// Bytes that one request to the sources ought to bring, as they say; 0 where it does not matter.
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// What remains of epoch `number` once `position` positions of its order are consumed.
    pub fn epoch(&self, number: u64, position: u64) -> Result<Epoch> {
        self.plan.epoch(number, position)
    }

    /// Puts what is asked for when `sample` alone is made into `out`: nothing where a library reads.
    pub fn bytes(&self, sample: u64, out: &mut Vec<Asked>) {
        out.clear();
        if sample >= self.set.len() {
            return;
        }
        for field in self.fields() {
            let located = field.column.locate(sample);
            field.asked(&[located], out);
            if let Some(indices) = field.indices() {
                indices.asked(&[located], out);
            }
        }
    }

    /// Puts what is asked for when a batch of `samples` is made into `out`, each range once, in nearly that order.
    pub fn batch(&self, samples: &[Option<u64>], out: &mut Vec<Asked>) {
        out.clear();
        let there = samples.iter().flatten().copied().filter(|sample| *sample < self.set.len());
        let samples: Vec<u64> = there.collect();
        for field in self.fields() {
            let mut located: Vec<Located> =
                samples.iter().map(|sample| field.column.locate(*sample)).collect();
            for group in located.chunks_mut(group_len(field.column)) {
                field.group(group, out);
            }
            if let Some(indices) = field.indices() {
                indices.group(&mut located, out);
            }
        }
        let mut seen = HashSet::with_capacity(out.len());
        out.retain(|asked| seen.insert((asked.source, asked.range)));
    }

    fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let layouts = self.layout.columns.iter().zip(&self.columns);
        let columns = self.set.columns.iter().zip(layouts);
        columns.map(|(column, (layout, sources))| Field { column, layout, sources })
    }
}

impl<'a> Field<'a> {
    /// The column numbers of sparse rows.
    fn indices(self) -> Option<Self> {
        Some(Self {
            column: &self.column.dense.as_ref()?.indices,
            layout: self.layout.indices.as_deref()?,
            sources: self.sources.indices.as_deref()?,
        })
    }

    /// What samples that are read together need, file by file.
    fn group(self, located: &mut [Located], out: &mut Vec<Asked>) {
        if self.column.parts.len() > 1 {
            located.sort_unstable();
        }
        for same_part in located.chunk_by(|one, next| one.part == next.part) {
            self.asked(same_part, out);
        }
    }

    /// What samples of one file need. What is wrong with a file is told to whoever reads it.
    fn asked(self, located: &[Located], out: &mut Vec<Asked>) {
        let Some(first) = located.first() else { return };
        let (part, sources) = (self.column.part(*first), &self.sources.parts[first.part as usize]);
        let mut push = |source: SourceIndex, range: ByteRange, unit| {
            if let Some(source) = sources.get(source.0 as usize).filter(|_| !range.is_empty()) {
                out.push(Asked { source: *source, range, unit });
            }
        };
        match &self.layout.parts[first.part as usize] {
            Storage::Rows(stretch) => {
                for at in located {
                    let _ = stretch.asked(part, at.number, |source, range| push(source, range, None));
                }
            }
            Storage::Boxes => {
                let (variable, mut spans) = (part.variable(), Vec::new());
                for at in located {
                    part.index.spans(at.number, &variable.grid.shape, &mut spans);
                    let selection = Selection::new(std::mem::take(&mut spans));
                    let _ = part.opened.asked(variable, &selection, &mut |source, range| {
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
                    let _ = units.asked(part, number, &mut |source, range| push(source, range, unit));
                }
            }
        }
    }
}

/// Sources that were met, each once.
#[derive(Default)]
struct Known {
    sources: Vec<SourceId>,
    by_id: HashMap<SourceId, usize>,
    by_file: HashMap<*const Opened, Arc<[usize]>>,
}

impl Known {
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
