//! Batches: fields as tensors, offsets, and which samples they hold.

use std::{
    ffi::{CString, c_char},
    ptr,
    sync::Arc,
};

use forebay::{
    Batch, Error, ErrorKind, Result,
    batch::{DLManagedTensorVersioned, FieldArray},
    loader::Receipt,
};
use serde_json::json;

use crate::{
    border::{OutArg, TextArg, c_text, handle, owned_text, place},
    status::{OK, free, guard},
};

/// `forebay_batch`: samples side by side. It holds what its tensors lie in; they outlive it.
pub(crate) struct BatchHandle {
    fields: Vec<(CString, Arc<FieldArray>)>,
    /// Numbers of the samples, -1 where padding stands.
    samples: Vec<i64>,
    seeds: Vec<u64>,
    pub(crate) epoch: u64,
    pub(crate) step: u64,
    /// Samples that could not be read, and why.
    failed: Vec<(u64, String)>,
    receipt: Option<Receipt>,
}

impl BatchHandle {
    /// A batch of a loader.
    pub(crate) fn new(batch: Batch) -> Self {
        let receipt = Some(batch.receipt());
        let Batch { fields, samples, seeds, epoch, step, failed, .. } = batch;
        let failed = failed.into_iter().map(|one| (one.sample, one.why)).collect();
        let samples = samples.into_iter().map(|sample| sample.map_or(-1, signed)).collect();
        Self { fields: named(fields), samples, seeds, epoch, step, failed, receipt }
    }

    /// Samples that were asked for by number.
    pub(crate) fn of_samples(fields: Vec<FieldArray>, numbers: &[u64]) -> Self {
        let samples = numbers.iter().copied().map(signed).collect();
        let (seeds, failed) = (Vec::new(), Vec::new());
        Self { fields: named(fields), samples, seeds, epoch: 0, step: 0, failed, receipt: None }
    }

    /// By what it is committed; nothing for samples that were asked for by number.
    pub(crate) fn receipt(&self) -> Option<Receipt> {
        self.receipt
    }

    fn field(&self, index: usize) -> Result<&Arc<FieldArray>> {
        let field = self.fields.get(index).map(|(_, field)| field);
        field.ok_or_else(|| {
            Error::invalid(format!("{index} is no field of the {} there are", self.fields.len())).at("field")
        })
    }

    fn index_of(&self, name: &str) -> Result<usize> {
        let found = self.fields.iter().position(|(_, field)| field.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.fields.iter().map(|(_, field)| &*field.name).collect();
            let error = Error::new(ErrorKind::NotFound, format!("the batch has no field '{name}'"));
            error.hint(format!("it has {}", names.join(", ")))
        })
    }
}

fn named(fields: Vec<FieldArray>) -> Vec<(CString, Arc<FieldArray>)> {
    fields.into_iter().map(|field| (c_text(&field.name), Arc::new(field))).collect()
}

fn signed(sample: u64) -> i64 {
    i64::try_from(sample).unwrap_or(i64::MAX)
}

/// How many fields it has.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_field_count(batch: Option<&BatchHandle>) -> usize {
    batch.map_or(0, |batch| batch.fields.len())
}

/// The name of a field, or NULL where there is none.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_field_name(batch: Option<&BatchHandle>, field: usize) -> *const c_char {
    batch.and_then(|batch| batch.fields.get(field)).map_or(ptr::null(), |(name, _)| name.as_ptr())
}

/// Which field has a name.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_field_index(
    batch: Option<&BatchHandle>,
    name: TextArg,
    field: OutArg<'_, usize>,
) -> i32 {
    guard(|| {
        let field = place(field, "field")?;
        field.write(handle(batch, "batch")?.index_of(name.required("name")?)?);
        Ok(OK)
    })
}

/// A field as a DLPack tensor in the batch's own memory.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_tensor(
    batch: Option<&BatchHandle>,
    field: usize,
    tensor: OutArg<'_, *mut DLManagedTensorVersioned>,
) -> i32 {
    guard(|| {
        let tensor = place(tensor, "tensor")?.write(ptr::null_mut());
        *tensor = handle(batch, "batch")?.field(field)?.to_dlpack_versioned(0)?.as_ptr();
        Ok(OK)
    })
}

/// The bytes of a field, as they lie in the batch.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_bytes(
    batch: Option<&BatchHandle>,
    field: usize,
    bytes: OutArg<'_, *const u8>,
    len: OutArg<'_, usize>,
) -> i32 {
    guard(|| {
        let found = handle(batch, "batch")?.field(field)?;
        place(bytes, "bytes")?.write(found.bytes.address());
        place(len, "len")?.write(found.bytes.len());
        Ok(OK)
    })
}

/// Where samples of different lengths begin and end; no offsets where all have one shape.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_offsets(
    batch: Option<&BatchHandle>,
    field: usize,
    offsets: OutArg<'_, *const i64>,
    count: OutArg<'_, usize>,
) -> i32 {
    guard(|| {
        let found = handle(batch, "batch")?.field(field)?.offsets.as_deref();
        place(offsets, "offsets")?.write(found.map_or(ptr::null(), <[i64]>::as_ptr));
        place(count, "count")?.write(found.map_or(0, <[i64]>::len));
        Ok(OK)
    })
}

/// How many samples it has room for, padding included.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_sample_count(batch: Option<&BatchHandle>) -> usize {
    batch.map_or(0, |batch| batch.samples.len())
}

/// The numbers of its samples, -1 where padding stands.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_samples(batch: Option<&BatchHandle>) -> *const i64 {
    batch.map_or(ptr::null(), |batch| batch.samples.as_ptr())
}

/// A seed for each sample; NULL for samples that were asked for by number.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_seeds(batch: Option<&BatchHandle>) -> *const u64 {
    batch.filter(|batch| !batch.seeds.is_empty()).map_or(ptr::null(), |batch| batch.seeds.as_ptr())
}

/// The epoch it belongs to.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_epoch(batch: Option<&BatchHandle>) -> u64 {
    batch.map_or(0, |batch| batch.epoch)
}

/// Its number within the epoch, on this rank, counted from where the run began.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_step(batch: Option<&BatchHandle>) -> u64 {
    batch.map_or(0, |batch| batch.step)
}

/// Samples that could not be read and are left out or replaced, as JSON.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_failed(batch: Option<&BatchHandle>, json: OutArg<'_, *mut c_char>) -> i32 {
    guard(|| {
        let json = place(json, "json")?;
        let failed = handle(batch, "batch")?.failed.iter();
        let rows: Vec<_> = failed.map(|(sample, why)| json!({"sample": sample, "why": why})).collect();
        json.write(owned_text(serde_json::Value::from(rows)));
        Ok(OK)
    })
}

/// Ends the batch; tensors of it stay. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_batch_free(batch: Option<Box<BatchHandle>>) {
    free(batch);
}
