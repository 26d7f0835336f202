//! Batches from files: each source asked once, each unit touched once.
//!
//! | file | idea |
//! |---|---|
//! | `file_maker` | the maker of batches from files |
//! | `fields` | the fields of one batch: memory for each, and what goes into it |
//! | `fetch`, `rows`, `pieced`, `variable`, `densify` | samples of one field: from units, from stored bytes, from several files, texts and sequences, sparse rows |
//! | `convert_sample` | samples converted once they are read |
//! | `unverified` | sources that bytes were copied from, still to be verified |

pub(crate) mod convert_sample;
pub(crate) mod file_maker;

mod densify;
mod fetch;
mod fields;
mod pieced;
mod rows;
mod unverified;
mod variable;

use std::sync::Arc;

use forebay_batch::{
    AtOnce, BatchMaker, BatchRequest, BatchTurn, FieldArray, LoaderStats, MadeFields, MakerThreads, Verify,
};
use forebay_plan::SetIdentity;
use forebay_process::{Error, ErrorKind, Result, current_process};

use self::{
    fields::{FieldMaker, MadeField},
    unverified::{UnverifiedFiles, UnverifiedSources},
};
use crate::{
    assemble::file_maker::FileMaker,
    layout::walk::FieldRead,
    memory::{horizon::moment_of, ledger::Now},
};

impl FileMaker {
    /// All fields of the samples `slots`, verified; a slot without a sample is left zero.
    pub(crate) fn assemble(&self, slots: &[Option<u64>], now: Now<'_>) -> Result<Vec<FieldArray>> {
        let (fields, unverified) = self.copy(slots, now, &AtOnce)?;
        unverified.verify(&self.set, &self.layout)?;
        Ok(fields)
    }

    /// All fields of the samples `slots`, and the sources that have yet to be asked whether they changed.
    fn copy(
        &self,
        slots: &[Option<u64>],
        now: Now<'_>,
        turn: &dyn BatchTurn,
    ) -> Result<(Vec<FieldArray>, UnverifiedSources)> {
        if self.process != current_process() {
            // Its locks may be held for ever, and its units are not here.
            let error = Error::new(ErrorKind::Invalid, "a data set that is in use does not survive a fork");
            return Err(error.hint("make it anew in the child"));
        }
        if let Some(sample) = slots.iter().flatten().find(|sample| **sample >= self.set.len()) {
            let what = format!("sample {sample} of {}", self.set.len());
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let mut maker = FieldMaker::new(self, now, turn);
        let mut made: Vec<Option<MadeField>> = self.set.columns.iter().map(|_| None).collect();
        for number in self.layout.short_first.iter().copied() {
            made[number] = Some(maker.field(FieldRead::of(&self.set, &self.layout, number), slots)?);
        }
        let fields = made.into_iter().flatten().flat_map(|MadeField { values, mask }| [Some(values), mask]);
        Ok((fields.flatten().collect(), maker.unverified))
    }
}

impl BatchMaker for FileMaker {
    fn set(&self) -> &SetIdentity {
        &self.identity
    }

    fn threads(&self) -> MakerThreads {
        MakerThreads::Any
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        let BatchRequest { samples, epoch, step, oldest_step, turn, .. } = *request;
        let (moment, oldest) = (moment_of(epoch, step), moment_of(epoch, oldest_step));
        let (fields, sources) = self.copy(samples, Now { moment, oldest, horizon: Some(epoch) }, turn)?;
        let unverified = (!sources.is_empty()).then(|| {
            let (set, layout) = (Arc::clone(&self.set), Arc::clone(&self.layout));
            Box::new(UnverifiedFiles { set, layout, sources }) as Box<dyn Verify>
        });
        Ok(MadeFields { fields, unverified })
    }

    fn is_too_long(&self, sample: u64) -> bool {
        self.set.most_bytes(sample, self.shares.memory) > self.shares.memory
    }

    fn release_idle_memory(&self) {
        self.arena.release();
        self.scratch.release();
    }

    fn release_memory(&self) {
        self.cache.clear();
        self.release_idle_memory();
    }

    fn stats(&self) -> LoaderStats {
        self.counters.stats()
    }
}
