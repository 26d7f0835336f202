//! Statistics of a set in one pass: measured by the threads of a loader, merged in the order of samples, saved beside the index.

use std::{
    io::Read,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use forebay_batch::BatchMaker;
use forebay_loader::{FieldFacts, Loader, Next, Options, Run, SampleSet};
use forebay_plan::Sampler;
use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{FileFacts, OwnFolder};
use forebay_transform::{FieldForm, FieldStatistics, MeasuredBatches, StatisticsSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::index_cache::cache_folder;

/// Bytes of a batch that is measured: it and its histograms stay in the caches of a processor.
const BATCH_BYTES: u64 = 1 << 20;
/// Another number makes saved statistics void.
const SAVED_VERSION: u32 = 1;
/// No statistics are longer: as many as of a hundred thousand channels.
const MOST_SAVED_BYTES: u64 = 64 << 20;

/// Statistics that are being computed.
#[derive(Debug)]
pub struct StatisticsRun {
    loader: Loader,
    run: Run,
    measured: Arc<MeasuredBatches>,
    samples_done: u64,
    samples: u64,
    saved: Option<SavedStatistics>,
}

impl StatisticsRun {
    /// Begins to measure what `spec` says of the samples of `set` that the subset of `options` has; of `options` threads and memory
    /// hold too. With `saves`, what comes out is kept for the next time.
    pub fn start(set: Arc<SampleSet>, spec: &StatisticsSpec, options: &Options, saves: bool) -> Result<Self> {
        let options = measuring(options, set.delivered_len() / set.len().max(1));
        let saved = saves.then(|| SavedStatistics::of(&set, spec, &options)).flatten();
        let forms = forms_of(&set);
        Ok(Self { saved, ..Self::of_loader(Loader::new(set, options)?, &forms, spec)? })
    }

    /// The same of what `maker` makes: `forms` are its fields, and a sample has about `sample_len` bytes. Nothing is saved.
    pub fn of_maker(
        maker: Arc<dyn BatchMaker>,
        forms: &[FieldForm],
        sample_len: u64,
        spec: &StatisticsSpec,
        options: &Options,
    ) -> Result<Self> {
        Self::of_loader(Loader::of_maker(maker, measuring(options, sample_len))?, forms, spec)
    }

    fn of_loader(mut loader: Loader, forms: &[FieldForm], spec: &StatisticsSpec) -> Result<Self> {
        let subset_len = loader.options().sampler.subset.as_ref().map(|subset| subset.len());
        let samples = subset_len.unwrap_or_else(|| loader.maker().set().sample_count());
        let mut made = None;
        loader.decorate(|maker| {
            let measured = Arc::new(MeasuredBatches::new(maker, forms, spec)?);
            made = Some(Arc::clone(&measured));
            Ok(measured as Arc<dyn BatchMaker>)
        })?;
        let measured = made.ok_or_else(|| Error::new(ErrorKind::Bug, "nothing measures"))?;
        let run = loader.start()?;
        Ok(Self { loader, run, measured, samples_done: 0, samples, saved: None })
    }

    /// Goes on for about `patience`; true when all is done.
    pub fn advance(&mut self, patience: Duration) -> Result<bool> {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.loader.next(&mut self.run, left)? {
                Next::Batch(batch) => {
                    self.measured.take(batch.step)?;
                    self.samples_done += batch.sample_count();
                }
                Next::Waiting => return Ok(false),
                Next::End => return Ok(true),
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Samples that are measured, of how many.
    pub fn progress(&self) -> (u64, u64) {
        (self.samples_done, self.samples)
    }

    /// What comes out, saved where that is wanted.
    pub fn finish(self) -> Vec<FieldStatistics> {
        let statistics = self.measured.statistics();
        if let Some(saved) = &self.saved {
            saved.put(&statistics);
        }
        statistics
    }
}

/// What was saved of the samples of `set` that the subset of `options` has, if they were measured before and the files are as they
/// were.
pub fn saved_statistics(
    set: &SampleSet,
    spec: &StatisticsSpec,
    options: &Options,
) -> Option<Vec<FieldStatistics>> {
    SavedStatistics::of(set, spec, options)?.get()
}

/// How a loader of samples of `sample_len` bytes measures them, with the threads, memory and subset of `options`.
fn measuring(options: &Options, sample_len: u64) -> Options {
    Options {
        // Of the samples alone: the same batches on every machine give the same last bits.
        batch_size: (BATCH_BYTES / sample_len.max(1)).clamp(1, 4096),
        read_threads: options.read_threads,
        memory: options.memory,
        spill: options.spill.clone(),
        sampler: of_each(options),
        ..Options::default()
    }
}

/// Each sample of the subset once, however they are drawn.
fn of_each(options: &Options) -> Sampler {
    Sampler { subset: options.sampler.subset.clone(), draws: None }
}

/// What is known of the fields of `set`.
pub fn forms_of(set: &SampleSet) -> Vec<FieldForm> {
    let facts = set.fields().into_iter();
    let form = |field: FieldFacts| FieldForm {
        name: field.name,
        dtype: field.dtype,
        kind: field.kind,
        sample_shape: field.sample_shape,
    };
    facts.map(form).collect()
}

/// Where statistics of one set are saved. Whatever is wrong with the folder or the file makes it a miss.
#[derive(Debug)]
struct SavedStatistics {
    folder: PathBuf,
    name: String,
}

#[derive(Serialize, Deserialize)]
struct SavedEntry {
    version: u32,
    fields: Vec<FieldStatistics>,
}

impl SavedStatistics {
    /// Nothing where the user has no cache folder, or files were changed a moment ago: their times could hide another change.
    fn of(set: &SampleSet, spec: &StatisticsSpec, options: &Options) -> Option<Self> {
        let now = SystemTime::now();
        let files = set.files();
        let mut sources = files.iter().flat_map(|file| &file.container().sources);
        let is_written_to = files.iter().any(|file| file.container().swmr);
        if is_written_to || !sources.all(|source| source.version.is_settled(now)) {
            return None;
        }
        let mut hash = Sha256::new();
        hash.update(SAVED_VERSION.to_le_bytes());
        hash.update(set.fingerprint());
        hash.update(postcard::to_stdvec(spec).ok()?);
        if let Some(subset) = &options.sampler.subset {
            hash.update(subset.digest());
        }
        let name = hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self { folder: cache_folder("statistics")?, name })
    }

    fn get(&self) -> Option<Vec<FieldStatistics>> {
        let folder = OwnFolder::open(&self.folder).ok()?;
        let mut file = folder.open_to_read(&self.name).ok()?;
        if FileFacts::of(&file).ok()?.len > MOST_SAVED_BYTES {
            return None;
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let (sum, entry) = bytes.split_first_chunk::<4>()?;
        let entry = (crc32c::crc32c(entry) == u32::from_le_bytes(*sum)).then_some(entry)?;
        let entry: SavedEntry = postcard::from_bytes(entry).ok()?;
        (entry.version == SAVED_VERSION).then_some(entry.fields)
    }

    fn put(&self, fields: &[FieldStatistics]) {
        let entry = SavedEntry { version: SAVED_VERSION, fields: fields.to_vec() };
        let Ok(bytes) = postcard::to_stdvec(&entry) else { return };
        let mut summed = crc32c::crc32c(&bytes).to_le_bytes().to_vec();
        summed.extend(bytes);
        if let Ok(folder) = OwnFolder::create_all(&self.folder) {
            // What cannot be saved is computed again.
            drop(folder.write_atomically(&self.name, &summed));
        }
    }
}
