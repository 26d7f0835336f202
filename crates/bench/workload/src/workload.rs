//! One benchmark, resolved: every value is set and has been checked.
//!
//! The parts are those of DLIO's configuration; what h5bench adds is in [`Hdf5Spec`]. Defaults are DLIO's own.

mod dataset;
mod framework;
mod model;
mod reader;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{distribution::TimeDistribution, words::words};

pub use dataset::{Compression, DatasetSpec, ElementType, FileFormat, FileNaming, Hdf5Spec};
pub use framework::Framework;
pub use model::{CheckpointMode, CheckpointSpec, ModelSpec, Parallelism, TransformerSpec};
pub use reader::{LoaderKind, RankShare, ReadType, ReaderSpec, ShuffleMode};

/// A benchmark of training: what is generated, read, computed and checkpointed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Whose pattern of access is replayed.
    pub framework: Framework,
    /// What is done.
    pub phases: PhaseSet,
    /// The model, whose states checkpoints hold.
    pub model: ModelSpec,
    /// Where data lie.
    pub storage: StorageSpec,
    /// The files and samples.
    pub dataset: DatasetSpec,
    /// How samples are read.
    pub reader: ReaderSpec,
    /// Epochs, steps, computation.
    pub train: TrainSpec,
    /// Evaluation between epochs.
    pub evaluation: EvaluationSpec,
    /// Checkpoints, during training or alone.
    pub checkpoint: CheckpointSpec,
    /// Where results go.
    pub output: OutputSpec,
    /// The part of the time, 0 to 1, that accelerators must compute for MLPerf Storage's verdict (`metric.au`).
    pub target_au: f64,
    /// What is particular to HDF5 files.
    pub hdf5: Hdf5Spec,
    /// Whether DLIO's known defects are reproduced (`--like-dlio`).
    pub like_dlio: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            framework: Framework::default(),
            phases: PhaseSet::default(),
            model: ModelSpec::default(),
            storage: StorageSpec::default(),
            dataset: DatasetSpec::default(),
            reader: ReaderSpec::default(),
            train: TrainSpec::default(),
            evaluation: EvaluationSpec::default(),
            checkpoint: CheckpointSpec::default(),
            output: OutputSpec::default(),
            target_au: 0.9,
            hdf5: Hdf5Spec::default(),
            like_dlio: false,
        }
    }
}

/// What a run does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseSet {
    /// Makes the files that are missing.
    pub generate: bool,
    /// Trains.
    pub train: bool,
    /// Evaluates between epochs.
    pub evaluate: bool,
    /// Saves checkpoints while it trains, or saves and loads them alone where it does not train.
    pub checkpoint: bool,
}

impl Default for PhaseSet {
    fn default() -> Self {
        Self { generate: false, train: true, evaluate: false, checkpoint: false }
    }
}

words! {
    /// Where data lie.
    StorageKind as "storage type" {
        /// A file system of this node.
        LocalFs = "local_fs",
        /// A file system of all nodes.
        ParallelFs = "parallel_fs",
        /// An object store that speaks S3.
        S3 = "s3",
    }
}

/// Where data lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageSpec {
    /// The kind of storage.
    pub kind: StorageKind,
    /// The folder or bucket that other paths are relative to.
    pub root: String,
    /// Options of the storage, such as `endpoint_url`.
    pub options: Vec<(String, String)>,
}

impl Default for StorageSpec {
    fn default() -> Self {
        Self { kind: StorageKind::LocalFs, root: "./".into(), options: Vec::new() }
    }
}

/// Epochs, steps and computation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainSpec {
    /// How many epochs.
    pub epochs: u32,
    /// Steps of each epoch at most; all where there is none (`total_training_steps`).
    pub steps_per_epoch: Option<u64>,
    /// Whether that is the limit of all ranks together, as in h5bench, not of each, as in DLIO.
    pub steps_of_all_ranks: bool,
    /// Simulated computation of a step.
    pub compute: TimeDistribution,
    /// Random seed.
    pub seed: u32,
    /// Whether each epoch has a seed of its own, the seed plus the epoch, counted from 1.
    pub seed_change_epoch: bool,
    /// The seed of shuffles that are `random`: a runner sets it anew for each run, the same on all ranks.
    pub run_seed: u32,
}

impl Default for TrainSpec {
    fn default() -> Self {
        Self {
            epochs: 1,
            steps_per_epoch: None,
            steps_of_all_ranks: false,
            compute: TimeDistribution::ZERO,
            seed: 123,
            seed_change_epoch: true,
            run_seed: 0,
        }
    }
}

/// Evaluation between epochs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EvaluationSpec {
    /// Simulated computation of a step.
    pub compute: TimeDistribution,
    /// The first epoch, from 1, after which it is done.
    pub after_epoch: u32,
    /// Epochs from one evaluation to the next.
    pub epochs_between: u32,
}

impl Default for EvaluationSpec {
    fn default() -> Self {
        Self { compute: TimeDistribution::ZERO, after_epoch: 1, epochs_between: 1 }
    }
}

/// Where results go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputSpec {
    /// The folder of the results; a folder of the model and the time where there is none.
    pub folder: Option<PathBuf>,
    /// The name of the CSV file, without extension (`output-csv-name`).
    pub csv_name: String,
    /// Whether each rank has a CSV file too (`output-ranks-data`).
    pub csv_per_rank: bool,
    /// Steps at the start of each block that AU leaves out.
    pub exclude_start_steps: u32,
    /// Steps at the end of each block that AU leaves out.
    pub exclude_end_steps: u32,
}

impl Default for OutputSpec {
    fn default() -> Self {
        Self {
            folder: None,
            csv_name: "output".into(),
            csv_per_rank: false,
            exclude_start_steps: 1,
            exclude_end_steps: 0,
        }
    }
}
