//! MLPerf Storage's and DLIO's workloads by name, with the accelerators whose computation they stand for.
//!
//! The values are those of the configurations that these benchmarks ship: v1 and v2 (unet3d, cosmoflow, resnet50, bert,
//! llama checkpoints) and the newer retinanet and dlrm; and those that the h5bench extension was measured with.

use forebay_process::{Result, suggest::unknown};

use crate::{
    config::h5bench::measured,
    distribution::TimeDistribution,
    workload::{
        CheckpointSpec, DatasetSpec, FileFormat, Framework, LoaderKind, ModelSpec, Parallelism, PhaseSet,
        ReaderSpec, ShuffleMode, TrainSpec, TransformerSpec, Workload,
    },
};

/// A model that is trained.
struct TrainingPreset {
    name: &'static str,
    framework: Framework,
    format: FileFormat,
    files: u64,
    samples_per_file: u64,
    /// Bytes of a sample, their standard deviation, and the bytes that the trainer is handed (0: the same).
    record: (u64, f64, u64),
    prefix: &'static str,
    threads: u32,
    /// Of files and of samples.
    shuffle: (ShuffleMode, ShuffleMode),
    epochs: u32,
    steps: Option<u64>,
    model_bytes: u64,
    au: f64,
    /// Accelerator, batch size, seconds of computation per step; the first is the default.
    accelerators: &'static [(&'static str, u64, f64)],
}

const TRAINING: &[TrainingPreset] = &[
    TrainingPreset {
        name: "unet3d",
        framework: Framework::PyTorch,
        format: FileFormat::Npz,
        files: 168,
        samples_per_file: 1,
        record: (146_600_628, 68_341_808.0, 2_097_152),
        prefix: "img",
        threads: 4,
        shuffle: (ShuffleMode::Seed, ShuffleMode::Seed),
        epochs: 5,
        steps: None,
        model_bytes: 499_153_191,
        au: 0.9,
        accelerators: &[("h100", 7, 0.323), ("a100", 7, 0.636), ("b200", 7, 0.162), ("v100", 4, 1.3604)],
    },
    TrainingPreset {
        name: "cosmoflow",
        framework: Framework::TensorFlow,
        format: FileFormat::TfRecord,
        files: 524_288,
        samples_per_file: 1,
        record: (2_828_486, 71_311.0, 0),
        prefix: "img",
        threads: 4,
        shuffle: (ShuffleMode::Seed, ShuffleMode::Seed),
        epochs: 5,
        steps: None,
        model_bytes: 10_240,
        au: 0.7,
        accelerators: &[("h100", 1, 0.0035), ("a100", 1, 0.005_51), ("v100", 1, 0.009_36)],
    },
    TrainingPreset {
        name: "resnet50",
        framework: Framework::TensorFlow,
        format: FileFormat::TfRecord,
        files: 1024,
        samples_per_file: 1251,
        record: (114_660, 0.0, 150_528),
        prefix: "img",
        threads: 8,
        shuffle: (ShuffleMode::Off, ShuffleMode::Off),
        epochs: 5,
        steps: None,
        model_bytes: 10_240,
        au: 0.9,
        accelerators: &[("h100", 400, 0.224), ("a100", 400, 0.435), ("v100", 64, 0.195)],
    },
    TrainingPreset {
        name: "bert",
        framework: Framework::TensorFlow,
        format: FileFormat::TfRecord,
        files: 500,
        samples_per_file: 313_532,
        record: (2500, 0.0, 0),
        prefix: "part",
        threads: 1,
        shuffle: (ShuffleMode::Seed, ShuffleMode::Seed),
        epochs: 1,
        steps: Some(1000),
        model_bytes: 4_034_713_312,
        au: 0.9,
        accelerators: &[("v100", 48, 0.968)],
    },
    TrainingPreset {
        name: "retinanet",
        framework: Framework::PyTorch,
        format: FileFormat::Jpeg,
        files: 1_170_301,
        samples_per_file: 1,
        record: (322_957, 0.0, 0),
        prefix: "img",
        threads: 8,
        shuffle: (ShuffleMode::Seed, ShuffleMode::Seed),
        epochs: 8,
        steps: None,
        model_bytes: 10_240,
        au: 0.85,
        accelerators: &[("b200", 24, 0.047_55), ("mi355", 32, 0.0634), ("h100", 16, 0.18)],
    },
    TrainingPreset {
        name: "dlrm",
        framework: Framework::PyTorch,
        format: FileFormat::Npz,
        files: 65_536,
        samples_per_file: 1,
        record: (512, 0.0, 0),
        prefix: "img",
        threads: 8,
        shuffle: (ShuffleMode::Seed, ShuffleMode::Seed),
        epochs: 1,
        steps: None,
        model_bytes: 10_240,
        au: 0.7,
        accelerators: &[("h100", 8192, 0.005), ("a100", 8192, 0.007)],
    },
    // Parquet in MLPerf Storage v3, of which batches are read from groups of 6144 rows: the same rows as indexed binary here.
    TrainingPreset {
        name: "dlrm",
        framework: Framework::PyTorch,
        format: FileFormat::IndexedBinary,
        files: 1024,
        samples_per_file: 1_536_000,
        record: (761, 0.0, 0),
        prefix: "img",
        threads: 4,
        shuffle: (ShuffleMode::Seed, ShuffleMode::Off),
        epochs: 1,
        steps: None,
        model_bytes: 10_240,
        au: 0.7,
        accelerators: &[("b200", 16_384, 0.000_375), ("mi355", 16_384, 0.000_562_5)],
    },
];

/// A transformer whose checkpoints are saved and loaded.
struct CheckpointPreset {
    name: &'static str,
    shape: TransformerSpec,
    /// Tensor, pipeline, ZeRO stage.
    parallelism: (u32, u32, u8),
}

const fn llama(
    num_layers: u64,
    hidden_size: u64,
    ffn_hidden_size: u64,
    heads: (u64, u64),
) -> TransformerSpec {
    let (num_attention_heads, num_kv_heads) = heads;
    TransformerSpec {
        num_layers,
        vocab_size: 128_256,
        hidden_size,
        ffn_hidden_size,
        num_attention_heads,
        num_kv_heads,
    }
}

const CHECKPOINTS: &[CheckpointPreset] = &[
    CheckpointPreset { name: "llama3_8b", shape: llama(32, 4096, 14_336, (32, 8)), parallelism: (1, 1, 3) },
    CheckpointPreset { name: "llama3_70b", shape: llama(80, 8192, 28_672, (128, 8)), parallelism: (8, 1, 3) },
    CheckpointPreset {
        name: "llama3_405b",
        shape: llama(126, 16_384, 53_248, (128, 8)),
        parallelism: (8, 32, 1),
    },
    CheckpointPreset {
        name: "llama3_1t",
        shape: llama(128, 25_872, 98_304, (192, 32)),
        parallelism: (8, 64, 1),
    },
];

/// The names of all presets.
pub fn preset_names() -> Vec<String> {
    let training = TRAINING.iter().flat_map(|preset| {
        let variants =
            preset.accelerators.iter().map(|(accelerator, ..)| format!("{}_{accelerator}", preset.name));
        std::iter::once(preset.name.to_owned()).chain(variants)
    });
    let checkpoints = CHECKPOINTS.iter().map(|preset| preset.name);
    let mut names: Vec<String> =
        training.chain(checkpoints.chain(measured::names()).map(str::to_owned)).collect();
    // A model may be there twice, with files of its own for some accelerators.
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// One line about a preset, for lists.
pub fn preset_summary(name: &str) -> Option<String> {
    let workload = preset(name).ok()?;
    if let Some(transformer) = workload.model.transformer {
        let parameters = crate::checkpoint::parameter_count(&transformer) as f64 / 1e9;
        let Parallelism { tensor, pipeline, zero_stage, .. } = workload.model.parallelism;
        return Some(format!(
            "checkpoints of {parameters:.0} billion parameters, tensor {tensor} x pipeline {pipeline}, ZeRO {zero_stage}"
        ));
    }
    let DatasetSpec { num_files_train, num_samples_per_file, record_length_bytes, format, .. } =
        workload.dataset;
    Some(format!(
        "{num_files_train} {format} files x {num_samples_per_file} samples of {record_length_bytes} bytes, batches of {}",
        workload.reader.batch_size
    ))
}

/// The workload of `name`, such as `unet3d_h100`; without an accelerator the first one is taken.
pub(super) fn preset(name: &str) -> Result<Workload> {
    let word = name.to_ascii_lowercase().replace('-', "_");
    let checkpoint = CHECKPOINTS.iter().find(|preset| {
        let short = preset.name.replace("llama3", "llama");
        [preset.name, &short].contains(&&*word) || word == format!("{short}_zero3")
    });
    if let Some(preset) = checkpoint {
        return Ok(checkpoint_workload(preset));
    }
    let trained = TRAINING.iter().find_map(|preset| {
        let rest = word.strip_prefix(preset.name)?;
        let wanted = rest.strip_prefix('_');
        let mut accelerators = preset.accelerators.iter();
        let found = match wanted {
            Some(wanted) => accelerators.find(|(accelerator, ..)| *accelerator == wanted)?,
            None if rest.is_empty() => accelerators.next()?,
            None => return None,
        };
        Some(training_workload(preset, found.1, found.2))
    });
    let trained = trained.or_else(|| measured::workload(&word));
    let names = preset_names();
    let known: Vec<&str> = names.iter().map(|name| &**name).collect();
    trained.ok_or_else(|| unknown("preset", name, &known))
}

fn training_workload(preset: &TrainingPreset, batch_size: u64, compute_s: f64) -> Workload {
    let (record_length_bytes, record_length_bytes_stdev, record_length_bytes_resize) = preset.record;
    Workload {
        framework: preset.framework,
        model: ModelSpec { name: preset.name.into(), size_bytes: preset.model_bytes, ..ModelSpec::default() },
        dataset: DatasetSpec {
            data_folder: format!("data/{}", preset.name),
            format: preset.format,
            num_files_train: preset.files,
            num_samples_per_file: preset.samples_per_file,
            record_length_bytes,
            record_length_bytes_stdev,
            record_length_bytes_resize,
            file_prefix: preset.prefix.into(),
            ..DatasetSpec::default()
        },
        reader: ReaderSpec {
            loader: LoaderKind::of(preset.framework),
            batch_size,
            read_threads: preset.threads,
            file_shuffle: preset.shuffle.0,
            sample_shuffle: preset.shuffle.1,
            ..ReaderSpec::default()
        },
        train: TrainSpec {
            epochs: preset.epochs,
            steps_per_epoch: preset.steps,
            compute: TimeDistribution::Fixed { mean: compute_s },
            ..TrainSpec::default()
        },
        checkpoint: CheckpointSpec {
            folder: format!("checkpoints/{}", preset.name),
            after_epoch: 5,
            epochs_between: 2,
            ..CheckpointSpec::default()
        },
        target_au: preset.au,
        ..Workload::default()
    }
}

/// MLPerf Storage v2: ten checkpoints written and ten read, each synced, five seconds apart.
fn checkpoint_workload(preset: &CheckpointPreset) -> Workload {
    let (tensor, pipeline, zero_stage) = preset.parallelism;
    Workload {
        framework: Framework::PyTorch,
        phases: PhaseSet { generate: false, train: false, evaluate: false, checkpoint: true },
        model: ModelSpec {
            name: preset.name.into(),
            transformer: Some(preset.shape),
            parallelism: Parallelism { tensor, pipeline, data: None, zero_stage },
            ..ModelSpec::default()
        },
        reader: ReaderSpec { loader: LoaderKind::PyTorch, ..ReaderSpec::default() },
        checkpoint: CheckpointSpec {
            folder: format!("checkpoints/{}", preset.name),
            fsync: true,
            time_between_s: 5.0,
            writes: 10,
            reads: 10,
            ..CheckpointSpec::default()
        },
        ..Workload::default()
    }
}
