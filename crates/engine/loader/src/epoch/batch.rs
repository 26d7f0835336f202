//! Samples side by side, ready for a tensor.

use std::time::Duration;

use forebay_batch::{FieldArray, Verify};
use forebay_process::Error;

/// Samples side by side.
#[derive(Debug)]
pub struct Batch {
    /// The epoch it belongs to.
    pub epoch: u64,
    /// Its number within the epoch, on this rank, counted from where the run began.
    pub step: u64,
    /// The fields, in the order of the spec.
    pub fields: Vec<FieldArray>,
    /// Which samples these are; `None` where padding stands.
    pub samples: Vec<Option<u64>>,
    /// A seed for each sample that depends on the run's seed, the epoch and the sample alone.
    pub seeds: Vec<u64>,
    /// How long a thread took to make it.
    pub took: Duration,
    /// How long the consumer waited for it.
    pub waited: Duration,
    /// Samples that could not be read and are left out or replaced, and those of batches right before it that were left out whole.
    pub failed: Vec<FailedSample>,
    pub(crate) receipt: Receipt,
    /// Why no sample of it could be read; nothing where one could.
    pub(crate) lost: Option<Error>,
    /// What has to be verified before the consumer sees it.
    pub(crate) unverified: Option<Box<dyn Verify>>,
}

impl Batch {
    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&FieldArray> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// How many samples it has, padding not counted.
    pub fn sample_count(&self) -> u64 {
        self.samples.iter().flatten().count() as u64
    }

    /// Bytes of all fields.
    pub fn byte_len(&self) -> u64 {
        self.fields.iter().map(|field| field.bytes.len() as u64).sum()
    }

    /// What [`Loader::commit`](crate::Loader::commit) takes once the batch was used.
    pub fn receipt(&self) -> Receipt {
        self.receipt
    }
}

/// Which batch of which run, and how far an epoch is once it was used: plain data that outlives the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The run of the loader.
    pub(crate) run: u64,
    pub(crate) step: u64,
    /// Positions of the epoch's order, over all ranks, that are consumed once this batch is.
    pub(crate) consumed: u64,
    /// True for the last batch of the epoch.
    pub(crate) is_last: bool,
}

impl Receipt {
    /// Where the consumer is once this batch, one of `epoch`, was used: the epoch, and positions of its order over all ranks.
    pub fn position_after(&self, epoch: u64) -> (u64, u64) {
        if self.is_last { (epoch + 1, 0) } else { (epoch, self.consumed) }
    }
}

/// A sample that could not be read.
#[derive(Clone, Debug)]
pub struct FailedSample {
    /// Which.
    pub sample: u64,
    /// Why.
    pub why: String,
}
