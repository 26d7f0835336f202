//! A maker that measures batches on the threads that make them, and gives nothing out.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay_batch::{BatchMaker, BatchRequest, LoaderStats, MadeFields, MakerThreads};
use forebay_plan::SetIdentity;
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    field_form::FieldForm,
    statistics::{ChannelMeasure, FieldStatistics, MeasuredField, StatisticsSpec, StatisticsTotal},
};

/// Measures the batches of another maker. What comes out depends on batches and their order, not on threads.
#[derive(Debug)]
pub struct MeasuredBatches {
    inner: Arc<dyn BatchMaker>,
    fields: Vec<MeasuredField>,
    /// Of batches that were made and not taken, by their number.
    made: Mutex<BTreeMap<u64, Vec<Vec<ChannelMeasure>>>>,
    total: Mutex<StatisticsTotal>,
    quantiles: Vec<f64>,
}

impl MeasuredBatches {
    /// Measures what `spec` names in batches of `inner`, whose fields are `forms`.
    pub fn new(inner: Arc<dyn BatchMaker>, forms: &[FieldForm], spec: &StatisticsSpec) -> Result<Self> {
        let fields = MeasuredField::all(spec, forms)?;
        let total = Mutex::new(StatisticsTotal::new(fields.clone()));
        Ok(Self { inner, fields, made: Mutex::default(), total, quantiles: spec.quantiles.clone() })
    }

    /// Adds batch number `step`, which was just taken. Batches are taken in order.
    pub fn take(&self, step: u64) -> Result<()> {
        let lacks = || Error::new(ErrorKind::Bug, format!("batch {step} was not measured"));
        let batch = locked(&self.made).remove(&step).ok_or_else(lacks)?;
        locked(&self.total).add(batch);
        Ok(())
    }

    /// What is known of all batches that were taken.
    pub fn statistics(&self) -> Vec<FieldStatistics> {
        locked(&self.total).statistics(&self.quantiles)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Batches are put in and taken out whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BatchMaker for MeasuredBatches {
    fn set(&self) -> &SetIdentity {
        self.inner.set()
    }

    fn threads(&self) -> MakerThreads {
        self.inner.threads()
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        let MadeFields { fields, unverified } = self.inner.make(request)?;
        let is_padding: Vec<bool> = request.samples.iter().map(Option::is_none).collect();
        let measure = |field: &MeasuredField| field.measure(&fields, &is_padding);
        let batch = self.fields.iter().map(measure).collect::<Result<Vec<_>>>()?;
        // One that is made anew, because a file was written to meanwhile, takes the place of the first.
        locked(&self.made).insert(request.step, batch);
        Ok(MadeFields { fields: Vec::new(), unverified })
    }

    fn is_too_long(&self, sample: u64) -> bool {
        self.inner.is_too_long(sample)
    }

    fn release_idle_memory(&self) {
        self.inner.release_idle_memory();
    }

    fn stats(&self) -> LoaderStats {
        self.inner.stats()
    }
}
