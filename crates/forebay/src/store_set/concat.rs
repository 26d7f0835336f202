//! Batches from several stores as from one: the samples of one after those of another.

use std::{iter, sync::Arc};

use forebay_batch::{
    Arena, Backing, BatchMaker, BatchMemory, BatchRequest, FieldArray, LoaderStats, MadeFields, MakerThreads,
};
use forebay_plan::SetIdentity;
use forebay_source::{Error, ErrorKind, Result};
use forebay_store::{GET_PATIENCE, Wait};
use sha2::{Digest, Sha256};

use super::{field::StoredField, maker::StoreMaker};

/// Makes batches from several stores that have the same fields.
#[derive(Debug)]
pub struct StoreConcat {
    makers: Vec<Arc<StoreMaker>>,
    /// Of a batch in which there is nothing but padding too.
    names: Vec<String>,
    fields: Vec<StoredField>,
    /// The first sample of each store, and one past the last of all.
    starts: Vec<u64>,
    identity: SetIdentity,
    arena: Arc<Arena>,
}

/// What one store makes of a batch: its fields, and the slots they go to.
struct StorePart {
    slots: Vec<usize>,
    fields: Vec<FieldArray>,
}

impl StoreConcat {
    /// Batches of `makers`, one after another, all of which make `fields`; `memory` is what batches may take.
    pub fn new(makers: Vec<Arc<StoreMaker>>, fields: Vec<(String, StoredField)>, memory: u64) -> Self {
        let counts = makers.iter().map(|maker| maker.set().sample_count());
        let mut end = 0u64;
        let ends = counts.map(|count| {
            end = end.saturating_add(count);
            end
        });
        let starts = iter::once(0).chain(ends).collect();
        let identity = identity_of(makers.iter().map(|maker| maker.set()));
        let (names, fields) = fields.into_iter().unzip();
        Self { makers, names, fields, starts, identity, arena: Arena::new(memory) }
    }

    /// The same, with batches in memory of `backing`, of which they take `memory` bytes.
    #[must_use]
    pub fn over(mut self, memory: u64, backing: Arc<dyn Backing>) -> Self {
        self.arena = Arena::over(memory, backing);
        self
    }

    /// The fields of `samples`, side by side; padding stands where one is `None`. No rank is waited for longer than `wait`.
    pub fn fields_of(&self, samples: &[Option<u64>], wait: &Wait<'_>) -> Result<Vec<FieldArray>> {
        let count = self.identity.sample_count();
        if let Some(sample) = samples.iter().flatten().find(|sample| **sample >= count) {
            return Err(Error::invalid(format!("sample {sample} of {count}")));
        }
        let store_of = |sample: u64| self.starts.partition_point(|start| *start <= sample) - 1;
        let mut parts = Vec::new();
        for (number, maker) in self.makers.iter().enumerate() {
            let own = |sample: &Option<u64>| sample.filter(|sample| store_of(*sample) == number);
            let slots: Vec<usize> =
                (0..samples.len()).filter(|slot| own(&samples[*slot]).is_some()).collect();
            if slots.is_empty() {
                continue;
            }
            let numbers: Vec<Option<u64>> =
                slots.iter().map(|slot| samples[*slot].map(|sample| sample - self.starts[number])).collect();
            parts.push(StorePart { fields: maker.fields_of(&numbers, wait)?, slots });
        }
        let memory = BatchMemory::new(&self.arena);
        (0..self.fields.len()).map(|field| self.join(field, &parts, samples.len(), &memory)).collect()
    }

    /// Field `number` of all `parts`, in `slot_count` slots; those of no part are padding.
    fn join(
        &self,
        number: usize,
        parts: &[StorePart],
        slot_count: usize,
        memory: &BatchMemory<'_>,
    ) -> Result<FieldArray> {
        let field = &self.fields[number];
        let name = self.names[number].clone();
        let (row_len, runs) = field.row_and_runs();
        let is_ragged = field.ragged_axis().is_some();
        // Padding has no rows where samples differ in length, and else those of a sample.
        let mut rows = vec![u64::from(!is_ragged); slot_count];
        for part in parts {
            let offsets = part.fields.get(number).and_then(|field| field.offsets.as_deref());
            for (at, slot) in part.slots.iter().enumerate().filter(|_| is_ragged) {
                let ends = offsets.and_then(|offsets| offsets.get(at).zip(offsets.get(at + 1)));
                rows[*slot] = ends.map_or(0, |(start, end)| end.abs_diff(*start));
            }
        }
        let mut starts = vec![0usize; slot_count + 1];
        for (slot, rows) in rows.iter().enumerate() {
            starts[slot + 1] = starts[slot].saturating_add(usize::try_from(*rows).unwrap_or(usize::MAX));
        }
        let total = starts[slot_count];
        let too_long = || Error::new(ErrorKind::Full, "a batch is too long for this machine");
        let len = total.checked_mul(row_len).and_then(|len| len.checked_mul(runs)).ok_or_else(too_long)?;
        let mut bytes = memory.take(len)?;
        bytes.fill(0);
        for part in parts {
            let Some(source) = part.fields.get(number) else { continue };
            let from_run = source.bytes.len() / runs.max(1);
            for run in 0..runs {
                let mut from = run * from_run;
                for slot in &part.slots {
                    let len = (starts[slot + 1] - starts[*slot]) * row_len;
                    let to = run * total * row_len + starts[*slot] * row_len;
                    bytes[to..to + len].copy_from_slice(&source.bytes[from..from + len]);
                    from += len;
                }
            }
        }
        let ends = || starts.iter().map(|start| i64::try_from(*start).unwrap_or(i64::MAX)).collect();
        let shape = field.batch_shape(slot_count as u64, total as u64);
        let offsets = is_ragged.then(ends);
        Ok(FieldArray { name, dtype: field.dtype.clone(), kind: field.kind, shape, bytes, offsets })
    }
}

/// By what orders and states know the samples of all of `sets`, one after another.
fn identity_of<'a>(sets: impl Iterator<Item = &'a SetIdentity> + Clone) -> SetIdentity {
    let digest = |of: fn(&SetIdentity) -> &str| {
        let mut hash = Sha256::new();
        for set in sets.clone() {
            hash.update((of(set).len() as u64).to_le_bytes());
            hash.update(of(set));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    SetIdentity {
        part_lens: sets.clone().flat_map(|set| set.part_lens.iter().copied()).collect(),
        group_len: sets.clone().map(|set| set.group_len).min().unwrap_or(1),
        content: digest(|set| &set.content),
        version: digest(|set| &set.version),
    }
}

impl BatchMaker for StoreConcat {
    fn set(&self) -> &SetIdentity {
        &self.identity
    }

    fn threads(&self) -> MakerThreads {
        let is_bound = |maker: &Arc<StoreMaker>| maker.threads() == MakerThreads::Caller;
        if self.makers.iter().any(is_bound) { MakerThreads::Caller } else { MakerThreads::Any }
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        let fields = self.fields_of(request.samples, &Wait::at_most(GET_PATIENCE))?;
        Ok(MadeFields { fields, unverified: None })
    }

    fn is_too_long(&self, _: u64) -> bool {
        false
    }

    fn release_idle_memory(&self) {
        self.arena.release();
    }

    fn stats(&self) -> LoaderStats {
        self.makers.iter().fold(LoaderStats::default(), |sum, maker| sum.plus(&maker.stats()))
    }
}
