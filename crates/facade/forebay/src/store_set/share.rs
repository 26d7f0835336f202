//! The samples of a set that one rank reads: consecutive ones, in large requests.

use std::{ops::Range, sync::Arc, time::Duration};

use forebay_loader::{Batch, Loader, Next, Options, SampleSet};
use forebay_plan::{LoaderState, Shuffle, StateCheck};
use forebay_process::{Error, ErrorKind, Result};
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
        let mut most = (BATCH_BYTES / mean).clamp(1, MOST_SAMPLES);
        let mut rest = self.samples.clone();
        while !rest.is_empty() {
            // Some texts are much longer than a few show: of these fewer are read at once.
            if self.read_batches(&mut rest, most, take)? == BatchesRead::UntilTooLong {
                most = (most / 8).max(1);
            }
        }
        Ok(())
    }

    /// Reads samples in batches of at most `most`, and takes what was read from `rest`.
    fn read_batches(
        &self,
        rest: &mut Range<u64>,
        most: u64,
        take: &mut dyn FnMut(FillRead<'_>) -> Result<()>,
    ) -> Result<BatchesRead> {
        let len = rest.end - rest.start;
        // Batches of one length that end, all but some samples, where the share does: what follows is another rank's to read.
        let batches = len.div_ceil(most);
        let options = Options {
            batch_size: len.div_ceil(batches),
            shuffle: Shuffle::None,
            shard: Default::default(),
            tail: None,
            ..self.loader.clone()
        };
        let loader = Loader::new(Arc::clone(self.set), options)?;
        let state = LoaderState { position: rest.start, ..loader.state() };
        let _ = loader.load_state(&state, StateCheck::Strict)?;
        let mut run = loader.start_steps(batches)?;
        while !rest.is_empty() {
            match loader.next(&mut run, Duration::from_millis(100)) {
                Err(error) if error.kind() == ErrorKind::Full && most > 1 => {
                    return Ok(BatchesRead::UntilTooLong);
                }
                Err(error) => return Err(error),
                Ok(Next::Waiting) => take(None)?,
                Ok(Next::End) => {
                    return Err(Error::new(ErrorKind::Bug, "the samples ended before the share did"));
                }
                Ok(Next::Batch(batch)) => {
                    let count = (batch.samples.len() as u64).min(rest.end - rest.start);
                    take(Some((&batch, count)))?;
                    rest.start += count;
                }
            }
        }
        Ok(BatchesRead::All)
    }
}

/// How far samples were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchesRead {
    All,
    /// Until a batch that memory cannot hold.
    UntilTooLong,
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
