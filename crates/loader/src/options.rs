//! How a loader works: what the user may say, and what holds when nothing is said.

use std::{num::NonZeroUsize, path::PathBuf};

use forebay_format::memory_budget;
use forebay_source::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{Shard, Shuffle, Tail, assemble::scratch_len, layout::Layout, set::SampleSet};

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
    /// Bytes a request ought to bring, where requests are dear; by default what the place prefers.
    pub transfer_size: Option<u64>,
    /// Threads that read and decode; by default as many as this process may use.
    pub read_threads: Option<usize>,
    /// Bytes of memory for everything; by default half of what the job allows.
    pub memory: Option<u64>,
    /// Batches that are made ahead of the consumer.
    pub prefetch: usize,
    /// What is done about a sample that cannot be read.
    pub on_error: OnError,
    /// Where decoded values go that memory cannot hold.
    pub spill: SpillOptions,
}

/// Where decoded values go that memory cannot hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpillOptions {
    /// The folder, on a local disk; by default the job's own, or the system's, for temporary files.
    pub folder: Option<PathBuf>,
    /// The most bytes it may take; by default half of what is free there; 0 for none.
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
    /// The batch is shorter by it.
    Skip,
    /// The next sample of the batch that can be read stands in for it.
    Substitute,
}

/// Batches made ahead: enough to even out batches that need more decoding than others.
const PREFETCH: usize = 4;

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
            on_error: OnError::default(),
            spill: SpillOptions::default(),
        }
    }
}

impl Options {
    /// How many threads read.
    pub(crate) fn threads(&self) -> Result<usize> {
        match self.read_threads {
            Some(0) => Err(Error::new(ErrorKind::Invalid, "0 read threads").hint("at least 1 is needed")),
            Some(count) => Ok(count.min(1024)),
            // Heeds the process's affinity and its cgroup's quota.
            None => Ok(std::thread::available_parallelism().map_or(1, NonZeroUsize::get)),
        }
    }

    /// Bytes of memory for everything.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.unwrap_or_else(|| memory_budget() / 2 / processes_on_node())
    }
}

/// Processes of this job on this node, as launchers tell it: they share the node's memory.
fn processes_on_node() -> u64 {
    let names =
        ["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"];
    let told = names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok());
    told.unwrap_or(1).max(1)
}

/// Bytes that a batch of `len` bytes takes, as one buffer; that of its fields apart is hardly more.
pub(crate) fn room(len: u64) -> u64 {
    crate::arena::room(usize::try_from(len).unwrap_or(usize::MAX)) as u64
}

/// How the memory of a loader is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Batches that are made and not yet taken; none where each is made when it is asked for.
    pub ahead: u64,
    /// Bytes for decoded units.
    pub cache: u64,
    /// Bytes for everything.
    pub memory: u64,
}

impl Shares {
    pub(crate) fn of(options: &Options, set: &SampleSet, layout: &Layout) -> Result<Self> {
        let (memory, threads) = (options.memory(), options.threads()? as u64);
        let sample_len = set.delivered_len() / set.len().max(1);
        let batch = options.batch_size.min(set.len());
        let batch_len = sample_len.saturating_mul(batch).max(1);
        let besides = set.columns.iter().map(|column| scratch_len(column, batch)).max().unwrap_or(0);
        let scratch = layout.largest_unit.saturating_add(besides).saturating_mul(threads);
        // The least that works: a batch of the consumer's and one in the making, by one thread, from two units.
        let units = layout.largest_unit.saturating_mul(2).saturating_add(besides);
        let least = batch_len.saturating_mul(2).saturating_add(units);
        if least > memory {
            let what = format!(
                "a batch of {batch_len} bytes, units of {} bytes and {besides} to change samples in, the memory budget \
                 is {memory}",
                layout.largest_unit
            );
            return Err(Error::new(ErrorKind::Full, what).hint("allow more memory, or take smaller batches"));
        }
        // Batches take at most half. Two are the consumer's: one it is given while it still holds the one before.
        let fitting = (memory / 2).saturating_sub(scratch) / room(batch_len);
        let ahead = fitting.saturating_sub(2).min(options.prefetch.max(1) as u64 + threads);
        let in_flight = room(batch_len).saturating_mul(ahead + 2);
        let slack = (memory / 16).min(8 << 20);
        let cache = memory
            .saturating_sub(in_flight.saturating_add(slack).saturating_add(scratch))
            .max(2 * layout.largest_unit);
        Ok(Self { ahead, cache, memory })
    }
}
