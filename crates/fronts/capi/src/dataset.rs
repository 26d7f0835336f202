//! Sets of samples.

use std::{ffi::c_char, sync::Arc};

use forebay::{
    IndexCache, NameKind, Origins, Result, SampleSet, Samples,
    container::cf::ValueKind,
    loader::FieldFacts,
    open_named_set,
    process::{ProcessIdentity, current_process},
    tier::Tiered,
};
use serde_json::{Value, json};

use crate::{
    batch::BatchHandle,
    border::{OutArg, handle, list, owned_text, place, versioned},
    dataset_arguments::DatasetArguments,
    status::{OK, free, give, guard},
};

/// `forebay_dataset`: samples, and the tiers they are read through.
pub(crate) struct DatasetHandle {
    samples: Samples,
    tiers: Option<Arc<Tiered>>,
    process: ProcessIdentity,
}

impl DatasetHandle {
    fn open(given: &DatasetArguments) -> Result<Self> {
        let (origins, tiers) = Origins::new().through_tiers(&given.configuration()?, None)?;
        let cache = IndexCache::of_user();
        let (set, _) = open_named_set(&origins, given.set_spec()?, NameKind::Patterns, cache.as_ref())?;
        let samples = Samples::new(Arc::new(set), &given.options());
        Ok(Self { samples, tiers, process: current_process() })
    }

    /// What a loader reads.
    pub(crate) fn set(&self) -> &Arc<SampleSet> {
        self.samples.set()
    }

    /// What a loader reads through.
    pub(crate) fn tiers(&self) -> Option<&Arc<Tiered>> {
        self.tiers.as_ref()
    }

    fn describe(&self) -> Value {
        let set = self.set();
        let files = set.files();
        let named =
            files.iter().filter_map(|file| Some(file.container().sources.first()?.locator.to_string()));
        json!({
            "samples": set.len(),
            "bytes": set.delivered_len(),
            "fingerprint": set.fingerprint(),
            "fields": set.fields().iter().map(field_facts).collect::<Vec<_>>(),
            "files": named.collect::<Vec<_>>(),
            "format": files.first().map(|file| file.container().format.clone()),
            "tiers": self.tiers.as_ref().map_or(0, |tiers| tiers.tiers().len()),
        })
    }
}

impl Drop for DatasetHandle {
    fn drop(&mut self) {
        // In a forked child there are no threads of the tiers. The last data set or loader to use them ends them.
        if let Some(tiers) = &self.tiers
            && self.process == current_process()
            && Arc::strong_count(tiers) == 1
        {
            tiers.close();
        }
    }
}

fn field_facts(field: &FieldFacts) -> Value {
    let kind = match field.kind {
        ValueKind::Text | ValueKind::Texts => "text".to_owned(),
        ValueKind::Datetime => "datetime64[ns]".to_owned(),
        ValueKind::Timedelta => "timedelta64[ns]".to_owned(),
        ValueKind::Days(calendar) => format!("days of {calendar}"),
        ValueKind::Bool => "bool".to_owned(),
        ValueKind::Number => "number".to_owned(),
    };
    let members = field.categories.iter().flatten().map(|one| json!({"name": one.name, "value": one.value}));
    json!({
        "name": field.name,
        "dtype": field.dtype.to_string(),
        "kind": kind,
        // The length is null along the axis that differs.
        "sample_shape": field.sample_shape,
        "categories": members.collect::<Vec<_>>(),
    })
}

/// Opens a set of samples.
#[unsafe(no_mangle)]
extern "C" fn forebay_dataset_open(
    options: *const DatasetArguments,
    dataset: OutArg<'_, Option<Box<DatasetHandle>>>,
) -> i32 {
    give(dataset, "dataset", || DatasetHandle::open(&versioned(options, "forebay_dataset_options")?))
}

/// What the set is, as JSON.
#[unsafe(no_mangle)]
extern "C" fn forebay_dataset_describe(
    dataset: Option<&DatasetHandle>,
    json: OutArg<'_, *mut c_char>,
) -> i32 {
    guard(|| {
        place(json, "json")?.write(owned_text(handle(dataset, "dataset")?.describe()));
        Ok(OK)
    })
}

/// How many samples there are.
#[unsafe(no_mangle)]
extern "C" fn forebay_dataset_length(dataset: Option<&DatasetHandle>, length: OutArg<'_, u64>) -> i32 {
    guard(|| {
        place(length, "length")?.write(handle(dataset, "dataset")?.set().len());
        Ok(OK)
    })
}

/// The samples of these numbers, side by side.
#[unsafe(no_mangle)]
extern "C" fn forebay_dataset_get(
    dataset: Option<&DatasetHandle>,
    numbers: *const u64,
    count: usize,
    batch: OutArg<'_, Option<Box<BatchHandle>>>,
) -> i32 {
    give(batch, "batch", || {
        let numbers = list(numbers, count, "numbers")?;
        let fields = handle(dataset, "dataset")?.samples.get(numbers)?;
        Ok(BatchHandle::of_samples(fields, numbers))
    })
}

/// Leaves the files and tiers. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_dataset_free(dataset: Option<Box<DatasetHandle>>) {
    free(dataset);
}
