//! What a run records: plain data per rank, epoch and step, from which every metric is computed.
//!
//! Times of events are seconds since [`RunTimings::started_unix_s`] by a monotonic clock; durations are seconds.

mod latency;

use serde::{Deserialize, Serialize};

use crate::workload::Workload;

pub use latency::LatencyCounts;

/// All that one run of one engine recorded, of all its ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTimings {
    /// What was run.
    pub workload: Workload,
    /// The engine that ran it: `hdf5` or `forebay`.
    pub engine: String,
    /// When the run began, in seconds since 1970.
    pub started_unix_s: f64,
    /// How long the whole process took, start-up included.
    pub wall_s: f64,
    /// Whether the run ended by itself; a run that was interrupted is marked in every report.
    pub complete: bool,
    /// One for each rank, in order of rank.
    pub ranks: Vec<RankTimings>,
}

/// What one rank recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankTimings {
    /// The rank.
    pub rank: u32,
    /// The machine it ran on.
    pub host: HostFacts,
    /// Generating the data set, where that was asked for.
    pub generation: Option<GenerationTimings>,
    /// Epochs that were begun, in order.
    pub epochs: Vec<EpochTimings>,
    /// Checkpoints outside of training, in order.
    pub checkpoints: Vec<CheckpointTimings>,
    /// Seconds of CPU of this process and its workers.
    pub cpu_s: f64,
}

/// A machine that ranks run on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// The model of its processor.
    pub processor: String,
    /// How many processors it has.
    pub cpu_count: u32,
    /// Bytes of its memory.
    pub memory_bytes: u64,
}

/// How long a rank generated files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GenerationTimings {
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Files that this rank wrote.
    pub files_written: u64,
    /// Files that were there already.
    pub files_kept: u64,
    /// Bytes that this rank wrote.
    pub bytes: u64,
}

/// One epoch of one rank: training in blocks between checkpoints, then perhaps evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EpochTimings {
    /// From 1.
    pub epoch: u32,
    /// When it began.
    pub start_s: f64,
    /// When it ended, evaluation and checkpoints included.
    pub end_s: f64,
    /// Training steps between checkpoints; one block where there are none.
    pub blocks: Vec<BlockTimings>,
    /// Evaluation after this epoch's training.
    pub evaluation: Option<BlockTimings>,
    /// Checkpoints during and after this epoch, in order.
    pub checkpoints: Vec<CheckpointTimings>,
    /// What each tier served during this epoch; engine `forebay` alone has tiers.
    pub tiers: Vec<TierCounts>,
}

/// Steps that follow each other without a checkpoint between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockTimings {
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Its steps.
    pub steps: Vec<StepTimings>,
    /// How long single samples took from opening to closing the file, all workers together.
    pub latency: LatencyCounts,
}

/// One step: a batch is waited for, then computed on.
///
/// Metadata, reading and preprocessing are sums over the samples of the batch, by whichever worker did them: with several
/// workers they are longer than the wait for the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTimings {
    /// The wait for the batch.
    pub load_s: f64,
    /// Simulated computation.
    pub compute_s: f64,
    /// The wait for other ranks after the step.
    pub barrier_s: f64,
    /// Opening and closing files and data sets, selecting (`read_sample()`: t2 - t1 + t6 - t5).
    pub metadata_s: f64,
    /// Reading alone (`read_sample()`: t4 - t3).
    pub read_s: f64,
    /// Simulated preprocessing.
    pub preprocess_s: f64,
    /// Samples of the batch.
    pub samples: u32,
    /// Bytes of these samples.
    pub bytes: u64,
}

/// A checkpoint that was saved or loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointTimings {
    /// Whether it was read back, not written.
    pub is_load: bool,
    /// The step of the epoch after which it was saved, from 1; 0 outside of training.
    pub step: u32,
    /// When it began.
    pub start_s: f64,
    /// When it ended, `fsync` included where it was asked for.
    pub end_s: f64,
    /// Bytes of this rank.
    pub bytes: u64,
    /// Time of `fsync` alone.
    pub fsync_s: f64,
}

/// What one tier served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierCounts {
    /// `memory`, `disk`, `peers`, `origin`.
    pub tier: String,
    /// Requests for blocks that it served.
    pub hits: u64,
    /// Requests that went on to the next.
    pub misses: u64,
    /// Bytes that it served.
    pub bytes: u64,
}

impl StepTimings {
    /// DLIO's `proc`: the wait and the computation.
    pub fn proc_s(&self) -> f64 {
        self.load_s + self.compute_s
    }
}
