//! The samples of a set that one rank reads: consecutive ones, in large requests.

use std::{ops::Range, sync::Arc, time::Duration};

use forebay_loader::{Batch, Loader, Next, Options, SampleSet};
use forebay_plan::{LoaderState, Shuffle, StateCheck};
use forebay_source::{Error, ErrorKind, Result};
use forebay_store::{Store, Wait};

/// Bytes of a batch that a rank reads at once: enough that what is read per request counts, little beside the shard.
const BATCH_BYTES: u64 = 8 << 20;

/// More samples than this are not asked for at once.
const MOST_SAMPLES: u64 = 1 << 16;

/// How far a rank is with its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FillProgress {
    /// Samples that this rank has read.
    pub samples: u64,
    /// Samples of its share.
    pub of: u64,
    /// Bytes of those that it has read.
    pub bytes: u64,
}

/// Consecutive samples of a set, and how they are read.
pub(super) struct FillShare<'a> {
    pub(super) set: &'a Arc<SampleSet>,
    pub(super) samples: Range<u64>,
    pub(super) loader: &'a Options,
}

/// A batch, and how many of its samples are of the share; nothing while the next is waited for.
pub(super) type FillRead<'a> = Option<(&'a Batch, u64)>;

impl FillShare<'_> {
    /// How many samples there are.
    pub(super) fn len(&self) -> u64 {
        self.samples.end - self.samples.start
    }

    /// Reads the samples in order, and gives each batch to `take`, which ends it by an error.
    pub(super) fn read(&self, take: &mut dyn FnMut(FillRead<'_>) -> Result<()>) -> Result<()> {
        if self.samples.is_empty() {
            return take(None);
        }
        let mean = (self.set.delivered_len() / self.set.len().max(1)).max(1);
        let most = (BATCH_BYTES / mean).clamp(1, MOST_SAMPLES);
        // Batches of one length that end, all but some samples, where the share does: what follows is another rank's to read.
        let batches = self.len().div_ceil(most);
        let options = Options {
            batch_size: self.len().div_ceil(batches),
            shuffle: Shuffle::None,
            shard: Default::default(),
            tail: None,
            ..self.loader.clone()
        };
        let loader = Loader::new(Arc::clone(self.set), options)?;
        let state = LoaderState { position: self.samples.start, ..loader.state() };
        let _ = loader.load_state(&state, StateCheck::Strict)?;
        let mut run = loader.start_steps(batches)?;
        let mut left = self.len();
        while left > 0 {
            match loader.next(&mut run, Duration::from_millis(100))? {
                Next::Waiting => take(None)?,
                Next::End => {
                    return Err(Error::new(ErrorKind::Bug, "the samples ended before the share did"));
                }
                Next::Batch(batch) => {
                    let count = (batch.samples.len() as u64).min(left);
                    take(Some((&batch, count)))?;
                    left -= count;
                }
            }
        }
        Ok(())
    }
}

/// Refuses a batch of which a sample could not be read.
pub(super) fn check_read(batch: &Batch) -> Result<()> {
    let Some(failed) = batch.failed.first() else { return Ok(()) };
    // A store holds every sample: none can be left out or stand in for another.
    let what = format!("sample {} cannot be read: {}", failed.sample, failed.why);
    Err(Error::corrupt(what).hint("mend the file, or leave it out of the set"))
}

/// Some ranks read longer than others: as long as it is known that they live, they are waited for.
pub(super) fn patient<'a>(store: &Store, wait: &Wait<'a>) -> Wait<'a> {
    if store.comm().hears_of_ends() { wait.without_deadline() } else { wait.renewed() }
}
