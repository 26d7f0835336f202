//! Batches from a store: no file is read, unless a rank is gone and the user wants its samples from their files.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use forebay_batch::{
    Arena, Backing, BatchMaker, BatchMemory, BatchRequest, Buffer, FieldArray, LoaderStats, MadeFields,
    MakerThreads,
};
use forebay_loader::Samples;
use forebay_plan::SetIdentity;
use forebay_process::{Error, ErrorKind, Event, EventKind, Result};
use forebay_store::{CommThreads, FieldGather, GET_PATIENCE, PaddingRows, Store, StoredVariable, Wait};

use sha2::{Digest, Sha256};

use super::field::StoredField;

/// What is done about samples of a rank that is gone.
#[derive(Clone, Debug, Default)]
pub enum OnLost {
    /// The run ends with an error that names the rank.
    #[default]
    Raise,
    /// They are read from their files.
    ReadFiles(Arc<Samples>),
}

/// Makes batches from a store.
#[derive(Debug)]
pub struct StoreMaker {
    store: Arc<Store>,
    fields: Vec<MadeFrom>,
    identity: SetIdentity,
    arena: Arc<Arena>,
    on_lost: OnLost,
    read_bytes: AtomicU64,
    read_ns: AtomicU64,
}

/// A field of the batches and the variable it comes from.
#[derive(Debug)]
struct MadeFrom {
    name: String,
    /// Among the variables of the store: a restriped one has the same place.
    place: usize,
    field: StoredField,
}

/// The same, as the variable lies now.
#[derive(Debug)]
struct MadeNow<'a> {
    field: &'a StoredField,
    variable: Arc<StoredVariable>,
}

impl StoreMaker {
    /// Batches of the variables `names` of `store`; `identity` is that of the samples, and `memory` what batches may take.
    pub fn new(
        store: Arc<Store>,
        names: &[String],
        identity: SetIdentity,
        memory: u64,
        on_lost: OnLost,
    ) -> Result<Self> {
        let known = store.variables();
        let fields = names.iter().map(|name| {
            let variable = store.variable(name)?;
            let (count, expected) = (variable.sample_count(), identity.sample_count());
            if count != expected {
                let error = Error::invalid(format!("has {count} samples, and others have {expected}"));
                return Err(error.at(format!("variable '{name}'")));
            }
            let place = known.iter().position(|known| known.name() == name).unwrap_or(known.len());
            Ok(MadeFrom { name: name.clone(), place, field: StoredField::described(&variable)? })
        });
        let fields = fields.collect::<Result<Vec<_>>>()?;
        if let OnLost::ReadFiles(files) = &on_lost {
            check_in_files(&fields, files)?;
        }
        let (read_bytes, read_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { store, fields, identity, arena: Arena::new(memory), on_lost, read_bytes, read_ns })
    }

    /// The same, with batches in memory of `backing`, of which they take `memory` bytes.
    #[must_use]
    pub fn over(mut self, memory: u64, backing: Arc<dyn Backing>) -> Self {
        self.arena = Arena::over(memory, backing);
        self
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The fields of `samples`, side by side; padding stands where one is `None`. No rank is waited for longer than `wait`.
    pub fn fields_of(&self, samples: &[Option<u64>], wait: &Wait<'_>) -> Result<Vec<FieldArray>> {
        let started = Instant::now();
        let fields = self.fields_now()?;
        let memory = BatchMemory::new(&self.arena);
        let arrays = fields.iter().map(|from| from.array(samples, &memory));
        let mut arrays = arrays.collect::<Result<Vec<_>>>()?;
        for (from, array) in fields.iter().zip(&mut arrays) {
            from.clear_padding(samples, &mut array.bytes);
        }
        let lost = self.gather(&fields, samples, &mut arrays, wait)?;
        if !lost.is_empty() {
            self.read_files(&fields, lost, samples, &mut arrays)?;
        }
        let bytes: usize = arrays.iter().map(|array| array.bytes.len()).sum();
        self.count_read(bytes as u64, started);
        Ok(arrays)
    }

    /// How many rows `samples` have in field `number`, by slot; nothing of slots that are `None`.
    pub(super) fn rows_of(&self, number: usize, samples: &[Option<u64>]) -> Result<Vec<Option<u64>>> {
        let variable = self.store.variables_at([self.fields[number].place]).pop();
        let variable = variable.ok_or_else(|| Error::invalid("the store is closed"))?;
        let rows = |sample: &Option<u64>| sample.map(|sample| variable.lens().start_and_len(sample).1);
        Ok(samples.iter().map(rows).collect())
    }

    /// Copies `samples` to their slots of `arrays`, in which each slot has as many rows as `rows` say by field; slots that are `None`
    /// stay as they are. No rank is waited for longer than `wait`.
    pub(super) fn copy_to(
        &self,
        samples: &[Option<u64>],
        rows: &[Vec<u64>],
        arrays: &mut [FieldArray],
        wait: &Wait<'_>,
    ) -> Result<()> {
        let started = Instant::now();
        let fields = self.fields_now()?;
        let mut bytes = 0;
        for (from, rows) in fields.iter().zip(rows) {
            let own = samples.iter().zip(rows).filter(|(sample, _)| sample.is_some()).map(|(_, rows)| *rows);
            bytes += own.sum::<u64>() * from.variable.row_len() * from.variable.runs();
        }
        let gathers = fields.iter().zip(rows).zip(arrays).map(|((from, rows), array)| FieldGather {
            variable: &from.variable,
            samples,
            padding: PaddingRows::BySlot(rows),
            into: &mut array.bytes,
        });
        self.store.get_batch_within(gathers, wait)?;
        self.count_read(bytes, started);
        Ok(())
    }

    /// The fields, as their variables lie now.
    fn fields_now(&self) -> Result<Vec<MadeNow<'_>>> {
        let variables = self.store.variables_at(self.fields.iter().map(|from| from.place));
        if variables.len() < self.fields.len() {
            return Err(Error::invalid("the store is closed"));
        }
        let fields = self.fields.iter().zip(variables);
        Ok(fields.map(|(from, variable)| MadeNow { field: &from.field, variable }).collect())
    }

    fn count_read(&self, bytes: u64, started: Instant) {
        self.read_bytes.fetch_add(bytes, Relaxed);
        self.read_ns.fetch_add(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }

    fn gather(
        &self,
        fields: &[MadeNow<'_>],
        samples: &[Option<u64>],
        arrays: &mut [FieldArray],
        wait: &Wait<'_>,
    ) -> Result<Vec<usize>> {
        let gathers = fields.iter().zip(arrays).map(|(from, array)| FieldGather {
            variable: &from.variable,
            samples,
            padding: PaddingRows::Each(from.padding_rows()),
            into: &mut array.bytes,
        });
        match &self.on_lost {
            OnLost::Raise => self.store.get_batch_within(gathers, wait).map(|()| Vec::new()),
            OnLost::ReadFiles(_) => {
                let failed = self.store.get_batch_of_living(gathers, wait)?;
                // What makes no sense here makes no sense of the files either.
                if let Some((_, error)) =
                    failed.iter().find(|(_, error)| error.kind() != ErrorKind::Unavailable)
                {
                    return Err(error.clone());
                }
                Ok(failed.into_iter().map(|(rank, _)| rank).collect())
            }
        }
    }

    /// Reads the samples of ranks that are gone from their files, into their slots.
    fn read_files(
        &self,
        fields: &[MadeNow<'_>],
        lost: Vec<usize>,
        samples: &[Option<u64>],
        arrays: &mut [FieldArray],
    ) -> Result<()> {
        let OnLost::ReadFiles(files) = &self.on_lost else { return Ok(()) };
        let lost: HashSet<usize> = lost.into_iter().collect();
        for rank in &lost {
            let is_gone = self.store.comm().first_gone(*rank..*rank + 1).is_some();
            let what = if is_gone { "is gone" } else { "does not answer" };
            let text = format!("rank {rank} {what}: its samples are read from their files");
            Event::new(EventKind::Rank, text).emit();
        }
        let Some(first) = fields.first() else { return Ok(()) };
        let is_lost = |sample: &u64| first.variable.rank_of(*sample).is_ok_and(|rank| lost.contains(&rank));
        let mut slots = Vec::new();
        let mut numbers = Vec::new();
        for (slot, sample) in samples.iter().enumerate() {
            if let Some(sample) = sample.filter(is_lost) {
                slots.push(slot);
                numbers.push(sample);
            }
        }
        let read = files.get(&numbers)?;
        for (from, array) in fields.iter().zip(arrays) {
            let name = from.variable.name();
            let source = read.iter().find(|field| field.name == name);
            let source = source
                .ok_or_else(|| Error::new(ErrorKind::Bug, format!("the files have no field '{name}'")))?;
            from.copy_slots(source, &slots, array);
        }
        Ok(())
    }
}

impl MadeNow<'_> {
    /// Rows that stand for padding: a sample of zeros where all have one shape, nothing where they differ.
    fn padding_rows(&self) -> u64 {
        u64::from(self.field.ragged_axis().is_none())
    }

    /// The array of a batch, its bytes not yet those of the samples.
    fn array(&self, samples: &[Option<u64>], memory: &BatchMemory<'_>) -> Result<FieldArray> {
        let variable = &self.variable;
        let rows = FieldGather::rows(variable, samples, PaddingRows::Each(self.padding_rows()))?;
        let len = rows.checked_mul(variable.row_len()).and_then(|len| len.checked_mul(variable.runs()));
        let len = len.and_then(|len| usize::try_from(len).ok());
        let bytes = memory
            .take(len.ok_or_else(|| Error::new(ErrorKind::Full, "a batch is too long for this machine"))?)?;
        let offsets = self.field.ragged_axis().map(|_| {
            let mut end = 0i64;
            let lens = samples
                .iter()
                .map(|sample| sample.map_or(0, |sample| variable.lens().start_and_len(sample).1));
            let ends = lens.map(|len| {
                end += len.cast_signed();
                end
            });
            std::iter::once(0).chain(ends).collect()
        });
        Ok(FieldArray {
            name: variable.name().to_owned(),
            dtype: self.field.dtype.clone(),
            kind: self.field.kind,
            shape: self.field.batch_shape(samples.len() as u64, rows),
            bytes,
            offsets,
        })
    }

    /// Padding is zero; memory that was used before is not.
    fn clear_padding(&self, samples: &[Option<u64>], bytes: &mut Buffer) {
        let row_len = usize::try_from(self.variable.row_len()).unwrap_or(usize::MAX);
        if self.padding_rows() == 0 || row_len == 0 {
            return;
        }
        for (sample, slot) in samples.iter().zip(bytes.chunks_exact_mut(row_len)) {
            if sample.is_none() {
                slot.fill(0);
            }
        }
    }

    /// Copies the samples of `source`, which stand side by side, to `slots` of `array`.
    fn copy_slots(&self, source: &FieldArray, slots: &[usize], array: &mut FieldArray) {
        let row_len = self.variable.row_len();
        let runs = usize::try_from(self.variable.runs()).unwrap_or(0);
        let bounds = |offsets: Option<&[i64]>, slot: usize| {
            let row = |slot: usize| offsets.map_or(slot as u64, |offsets| offsets[slot].cast_unsigned());
            let byte = |slot: usize| usize::try_from(row(slot) * row_len).unwrap_or(usize::MAX);
            byte(slot)..byte(slot + 1)
        };
        let (from_run, to_run) = (source.bytes.len() / runs.max(1), array.bytes.len() / runs.max(1));
        for run in 0..runs {
            for (number, slot) in slots.iter().enumerate() {
                let from = bounds(source.offsets.as_deref(), number);
                let to = bounds(array.offsets.as_deref(), *slot);
                array.bytes[run * to_run..][to].copy_from_slice(&source.bytes[run * from_run..][from]);
            }
        }
    }
}

impl BatchMaker for StoreMaker {
    fn set(&self) -> &SetIdentity {
        &self.identity
    }

    fn threads(&self) -> MakerThreads {
        let comm = self.store.comm();
        let members = self.store.groups().members(self.store.groups().group_of(comm.rank()));
        // Memory of one host is read without the communicator.
        let is_one_host = members.into_iter().all(|rank| comm.host_of(rank) == comm.host_of(comm.rank()));
        match comm.threads() {
            CommThreads::Caller if !is_one_host => MakerThreads::Caller,
            _ => MakerThreads::Any,
        }
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        Ok(MadeFields {
            fields: self.fields_of(request.samples, &Wait::at_most(GET_PATIENCE))?,
            unverified: None,
        })
    }

    fn is_too_long(&self, _: u64) -> bool {
        false
    }

    fn release_idle_memory(&self) {}

    fn stats(&self) -> LoaderStats {
        let mut stats = LoaderStats::default();
        stats.read_bytes = self.read_bytes.load(Relaxed);
        stats.read_ns = self.read_ns.load(Relaxed);
        stats
    }
}

/// An error where samples of a lost rank could not be read from `files`.
fn check_in_files(fields: &[MadeFrom], files: &Samples) -> Result<()> {
    let known = files.set().fields();
    for MadeFrom { name, .. } in fields {
        if !known.iter().any(|field| field.name == *name) {
            let error = Error::invalid("is not of the files that samples of a lost rank would be read from");
            let error = error.at(format!("variable '{name}'"));
            return Err(error.hint("leave it out of the fields of this loader, or use on_lost=\"raise\""));
        }
    }
    Ok(())
}

/// By what orders and states know variables that were added one by one: their names, types, shapes and lengths.
pub fn added_identity(variables: &[Arc<StoredVariable>]) -> SetIdentity {
    let count = variables.first().map_or(0, |variable| variable.sample_count());
    let mut hash = Sha256::new();
    for variable in variables {
        hash.update((variable.name().len() as u64).to_le_bytes());
        hash.update(variable.name());
        hash.update(variable.description());
        hash.update(variable.lens().total().to_le_bytes());
    }
    let content: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    // Every sample can be reached as fast as any other: a block shuffle has nothing to keep together.
    SetIdentity { part_lens: vec![count], group_len: 1, numbering: None, version: content.clone(), content }
}
