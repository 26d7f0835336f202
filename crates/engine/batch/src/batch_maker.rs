//! The seam between an epoch and what its batches are made from: files, a store, or any of both behind a transform.

use std::fmt;

use forebay_plan::{Epoch, SetIdentity};
use forebay_process::Result;

use crate::{
    field_array::{FieldArray, Verify},
    stats::LoaderStats,
    turn::BatchTurn,
};

/// Makes the fields of batches from the numbers of their samples.
///
/// A loader decides which samples a batch has and when it is made, and a maker where they come from. One
/// virtual call makes a whole batch.
///
/// # Contract
///
/// - `set` is the same whenever it is asked, and the same on every rank.
/// - `make` gives every field once, always in the same order, with the samples in the order of the request; the bytes of
///   padding are zero. One sample may be asked for more than once, also in one request.
/// - The same samples give the same bytes, whichever thread asks, whatever was asked before, in every epoch; a transform may
///   draw from the seeds that the epoch has for its samples, and from nothing else.
/// - Where `threads` is [`Any`](MakerThreads::Any), many threads may call `make` at once. Where it is
///   [`Caller`](MakerThreads::Caller), the loader starts no threads and calls `make` only on the thread that asks for the next
///   batch.
/// - Bytes that the maker gives with something to verify are shown to nobody before that is verified. Where that fails, the
///   batch is made once more, or the failure is an error about its samples.
/// - An error of kind `Invalid` or `Bug` ends the run. One of kind `Full` is about the samples if one of them
///   `is_too_long`, and ends the run otherwise. Any other is about the samples: `on_error` decides.
/// - A call blocks until the fields are there; it may be abandoned when the run is closed, and must not outlive the maker.
pub trait BatchMaker: fmt::Debug + Send + Sync {
    /// Which samples there are.
    fn set(&self) -> &SetIdentity;

    /// On which threads batches may be made.
    fn threads(&self) -> MakerThreads;

    /// Makes the fields of one batch.
    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields>;

    /// True when `sample` alone needs more memory than the maker may take.
    fn is_too_long(&self, sample: u64) -> bool;

    /// Gives memory that nobody uses back to the system.
    fn release_idle_memory(&self);

    /// Gives back also what is kept for later batches, which are slower for it at first.
    fn release_memory(&self) {
        self.release_idle_memory();
    }

    /// What was read and decoded so far; what the loader counts itself is zero.
    fn stats(&self) -> LoaderStats;
}

/// On which threads batches may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MakerThreads {
    /// On any, and on several at once.
    Any,
    /// On the thread that takes the batches alone, as MPI below `MPI_THREAD_MULTIPLE` asks.
    Caller,
}

/// A batch that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct BatchRequest<'a> {
    /// The samples; `None` where padding stands.
    pub samples: &'a [Option<u64>],
    /// Their numbers in the epoch, which seeds follow: other ones where it has a subset of the samples.
    pub numbers: &'a [Option<u64>],
    /// The epoch it belongs to, which knows when samples are used again.
    pub epoch: &'a Epoch,
    /// Its number within the epoch.
    pub step: u64,
    /// The first batch of the epoch that some thread still works on.
    pub oldest_step: u64,
    /// Whether it may take memory that is short.
    pub turn: &'a dyn BatchTurn,
}

/// The fields of a batch.
#[derive(Debug)]
pub struct MadeFields {
    /// The fields.
    pub fields: Vec<FieldArray>,
    /// What has to be verified before the consumer may see them; nothing where they are right for certain.
    pub unverified: Option<Box<dyn Verify>>,
}
