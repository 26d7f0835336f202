//! Batches from several stores as from one: the samples of one after those of another.

use std::{iter, sync::Arc};

use forebay_batch::{
    Arena, Backing, BatchMaker, BatchMemory, BatchRequest, FieldArray, LoaderStats, MadeFields, MakerThreads,
};
use forebay_plan::SetIdentity;
use forebay_process::{Error, ErrorKind, Result};
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

/// What one store brings to a batch: its own samples by slot, and nothing for those of others.
struct StorePart<'a> {
    maker: &'a StoreMaker,
    samples: Vec<Option<u64>>,
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
        let parts = self.parts(samples);
        let rows = (0..self.fields.len()).map(|field| self.rows(field, &parts, samples.len()));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let memory = BatchMemory::new(&self.arena);
        let arrays = (0..self.fields.len()).map(|field| self.array(field, &rows[field], samples, &memory));
        let mut arrays = arrays.collect::<Result<Vec<_>>>()?;
        for part in parts {
            part.maker.copy_to(&part.samples, &rows, &mut arrays, wait)?;
        }
        Ok(arrays)
    }

    /// What each store has of `samples`; those that have none are left out.
    fn parts(&self, samples: &[Option<u64>]) -> Vec<StorePart<'_>> {
        let parts = self.makers.iter().zip(self.starts.windows(2)).map(|(maker, own)| StorePart {
            maker,
            samples: samples
                .iter()
                .map(|sample| {
                    sample.filter(|sample| (own[0]..own[1]).contains(sample)).map(|one| one - own[0])
                })
                .collect(),
        });
        parts.filter(|part| part.samples.iter().any(Option::is_some)).collect()
    }

    /// How many rows each of `slot_count` slots has of field `number`.
    fn rows(&self, number: usize, parts: &[StorePart<'_>], slot_count: usize) -> Result<Vec<u64>> {
        let is_ragged = self.fields[number].ragged_axis().is_some();
        // Padding has no rows where samples differ in length, and else those of a sample.
        let mut rows = vec![u64::from(!is_ragged); slot_count];
        for part in parts.iter().filter(|_| is_ragged) {
            for (slot, own) in rows.iter_mut().zip(part.maker.rows_of(number, &part.samples)?) {
                *slot = own.unwrap_or(*slot);
            }
        }
        Ok(rows)
    }

    /// The array of field `number` in a batch, its bytes not yet those of the samples; padding is zero.
    fn array(
        &self,
        number: usize,
        rows: &[u64],
        samples: &[Option<u64>],
        memory: &BatchMemory<'_>,
    ) -> Result<FieldArray> {
        let field = &self.fields[number];
        let (row_len, runs) = field.row_and_runs();
        let too_long = || Error::new(ErrorKind::Full, "a batch is too long for this machine");
        let total =
            rows.iter().try_fold(0u64, |total, rows| total.checked_add(*rows)).ok_or_else(too_long)?;
        let len = usize::try_from(total).ok().and_then(|total| total.checked_mul(row_len)?.checked_mul(runs));
        let mut bytes = memory.take(len.ok_or_else(too_long)?)?;
        let is_ragged = field.ragged_axis().is_some();
        // Samples of one shape have one row, and one run of it.
        if !is_ragged && row_len > 0 {
            let slots = samples.iter().zip(bytes.chunks_exact_mut(row_len));
            slots.filter(|(sample, _)| sample.is_none()).for_each(|(_, slot)| slot.fill(0));
        }
        let mut end = 0i64;
        let ends = rows.iter().map(|rows| {
            end = end.saturating_add_unsigned(*rows);
            end
        });
        let offsets = is_ragged.then(|| iter::once(0).chain(ends).collect());
        let shape = field.batch_shape(samples.len() as u64, total);
        let (name, dtype) = (self.names[number].clone(), field.dtype.clone());
        Ok(FieldArray { name, dtype, kind: field.kind, shape, bytes, offsets })
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
        numbering: None,
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
