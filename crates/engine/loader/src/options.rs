//! How a loader works: what the user may say, and what holds when nothing is said.

use std::{path::PathBuf, sync::Arc};

use forebay_plan::{Groups, Plan, PlanSpec, Sampler, SetIdentity, Shard, Shuffle, Tail};
use forebay_process::{Error, ErrorKind, Result, ledger};
use serde::{Deserialize, Serialize};

/// How a loader works; plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Samples of a batch.
    pub batch_size: u64,
    /// In which order samples come.
    pub shuffle: Shuffle,
    /// Where the order starts from.
    pub seed: u64,
    /// Which of the ranks this is.
    pub shard: Shard,
    /// What becomes of an incomplete last batch: by default it is shorter, which only one rank alone may have.
    pub tail: Option<Tail>,
    /// Bytes a request should bring, where requests are slow; by default what the file system or object store prefers.
    pub transfer_size: Option<u64>,
    /// Threads that read and decode, as far as memory has room for them; by default as many as this rank and worker may use,
    /// and at most 16.
    pub read_threads: Option<usize>,
    /// Bytes of memory for everything; by default an equal part of what the process may take, half where it is alone.
    pub memory: Option<u64>,
    /// Batches that are made ahead of the consumer, besides one of each thread; 0 for none: each is made when it is asked for.
    pub prefetch: usize,
    /// Batches that the consumer holds at a time, for which memory is set aside: one it was given and the one before, or more
    /// where it copies them to a device.
    pub held: usize,
    /// What is done about a sample that cannot be read.
    pub on_error: OnError,
    /// Where decoded values go that memory cannot hold.
    pub spill: SpillOptions,
    /// Which samples of the set an epoch has, and how often: by default each once.
    #[serde(skip)]
    pub sampler: Sampler,
}

/// Where decoded values go that memory cannot hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpillOptions {
    /// The folder; one that cannot be used is an error. By default the job's own, or the system's, for temporary files, where
    /// it lies on a local disk.
    pub folder: Option<PathBuf>,
    /// The most bytes it may take; by default half of what is free there, divided by the ranks and workers of the node where
    /// they do not share it; 0 for none.
    pub quota: Option<u64>,
    /// Whether the processes of a node share it; by default when there are several ranks.
    pub shared: Option<bool>,
}

/// What is done about a sample that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    /// The run ends with the error.
    #[default]
    Raise,
    /// The batch is shorter by it. One of which nothing can be read is left out; on a rank among others it keeps its place, with
    /// nothing but padding in it.
    Skip,
    /// The next sample of the batch that can be read stands in for it; a batch of which none can be read ends the run.
    Substitute,
}

/// Batches made ahead: enough to even out batches that need more decoding than others.
const PREFETCH: usize = 4;

/// Batches of a consumer that is given one while it still holds the one before.
const HELD: usize = 2;

impl Default for Options {
    fn default() -> Self {
        Self {
            batch_size: 1,
            shuffle: Shuffle::None,
            seed: 0,
            shard: Shard::default(),
            tail: None,
            transfer_size: None,
            read_threads: None,
            memory: None,
            prefetch: PREFETCH,
            held: HELD,
            on_error: OnError::default(),
            spill: SpillOptions::default(),
            sampler: Sampler::default(),
        }
    }
}

impl Options {
    /// The plan of epochs over `groups`.
    pub(crate) fn plan(&self, groups: Groups) -> Result<Plan> {
        let &Self { shuffle, seed, batch_size: batch, shard, tail, .. } = self;
        let spec = PlanSpec { shuffle, seed, batch, shard, tail };
        Plan::of_sampler(spec, Arc::new(groups), self.sampler.clone())
    }

    /// The plan of epochs over the samples of `set` that the sampler draws from.
    pub(crate) fn plan_of(&self, set: &SetIdentity) -> Result<Plan> {
        let drawn_from = self.sampler.identity(set)?;
        self.plan(Groups::new(&drawn_from.part_lens, drawn_from.group_len)?)
    }

    /// How many threads are to read, where memory has room for them.
    pub(crate) fn threads(&self) -> Result<usize> {
        match self.read_threads {
            Some(0) => {
                let error = Error::new(ErrorKind::Invalid, "read_threads=0");
                Err(error.hint("set read_threads to at least 1"))
            }
            Some(count) => Ok(count.min(1024)),
            None => Ok(ledger().threads()),
        }
    }
}
