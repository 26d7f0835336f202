//! The presets as data: what `presets.toml` says.

use serde::Deserialize;

use crate::workload::{Compression, FileFormat, Framework, Parallelism, ShuffleMode, TransformerSpec};

/// All presets.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PresetList {
    pub(super) training: Vec<TrainingPreset>,
    pub(super) checkpoint: Vec<CheckpointPreset>,
    pub(super) h5bench: Vec<MeasuredPreset>,
}

/// A model that is trained.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrainingPreset {
    pub(super) name: String,
    pub(super) framework: Framework,
    pub(super) format: FileFormat,
    pub(super) files: u64,
    pub(super) samples_per_file: u64,
    pub(super) record_bytes: u64,
    #[serde(default)]
    pub(super) record_bytes_stdev: f64,
    /// Bytes that the trainer is handed; 0 for those of the sample.
    #[serde(default)]
    pub(super) record_bytes_resized: u64,
    pub(super) file_prefix: String,
    pub(super) read_threads: u32,
    pub(super) file_shuffle: ShuffleMode,
    pub(super) sample_shuffle: ShuffleMode,
    pub(super) epochs: u32,
    pub(super) steps_per_epoch: Option<u64>,
    pub(super) model_bytes: u64,
    pub(super) au: f64,
    /// The first is the default.
    pub(super) accelerators: Vec<AcceleratorPreset>,
}

/// An accelerator whose computation is simulated.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcceleratorPreset {
    pub(super) name: String,
    pub(super) batch_size: u64,
    /// Seconds of computation per step.
    pub(super) compute_s: f64,
}

/// A transformer whose checkpoints are saved and loaded.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointPreset {
    pub(super) name: String,
    pub(super) shape: TransformerSpec,
    pub(super) parallelism: Parallelism,
}

/// A configuration that the h5bench extension was measured with; pairs are of training and evaluation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasuredPreset {
    pub(super) name: String,
    pub(super) record_bytes: u64,
    pub(super) files: (u64, u64),
    pub(super) batch_sizes: (u64, u64),
    pub(super) compute_s: (f64, f64),
    pub(super) read_threads: u32,
    #[serde(default)]
    pub(super) collective: bool,
    #[serde(default)]
    pub(super) chunking: bool,
    pub(super) compression: Option<Compression>,
    #[serde(default)]
    pub(super) subfiling: bool,
}

impl PresetList {
    /// Reads the list, which is part of the program.
    pub(super) fn read() -> Self {
        toml::from_str(include_str!("presets.toml")).expect("a test reads the list that is compiled in")
    }
}
