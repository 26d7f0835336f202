//! MLPerf Storage's and DLIO's workloads by name, with the accelerators whose computation they stand for.
//!
//! The values are in `presets.toml`.

use forebay_process::{Result, suggest::unknown};

use crate::{
    config::{
        h5bench::measured,
        preset_list::{AcceleratorPreset, CheckpointPreset, PresetList, TrainingPreset},
    },
    distribution::TimeDistribution,
    workload::{
        CheckpointSpec, DatasetSpec, Framework, LoaderKind, ModelSpec, Parallelism, PhaseSet, ReaderSpec,
        TrainSpec, Workload,
    },
};

/// The names of all presets.
pub fn preset_names() -> Vec<String> {
    let PresetList { training, checkpoint, h5bench } = PresetList::read();
    let training = training.iter().flat_map(|preset| {
        let variants = preset.accelerators.iter().map(|accelerator| &accelerator.name);
        std::iter::once(preset.name.clone()).chain(variants.map(|name| format!("{}_{name}", preset.name)))
    });
    let others = checkpoint.into_iter().map(|preset| preset.name);
    let others = others.chain(h5bench.into_iter().map(|preset| preset.name));
    let mut names: Vec<String> = training.chain(others).collect();
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
    let list = PresetList::read();
    let checkpoint = list.checkpoint.iter().find(|preset| {
        let short = preset.name.replace("llama3", "llama");
        [&preset.name, &short].contains(&&word) || word == format!("{short}_zero3")
    });
    if let Some(preset) = checkpoint {
        return Ok(checkpoint_workload(preset));
    }
    let trained = list.training.iter().find_map(|preset| {
        let rest = word.strip_prefix(&preset.name)?;
        let wanted = rest.strip_prefix('_');
        let mut accelerators = preset.accelerators.iter();
        let found = match wanted {
            Some(wanted) => accelerators.find(|accelerator| accelerator.name == wanted)?,
            None if rest.is_empty() => accelerators.next()?,
            None => return None,
        };
        Some(training_workload(preset, found))
    });
    let measured = || list.h5bench.iter().find(|preset| preset.name == word).map(measured::workload);
    trained.or_else(measured).ok_or_else(|| {
        let names = preset_names();
        let known: Vec<&str> = names.iter().map(|name| &**name).collect();
        unknown("preset", name, &known)
    })
}

fn training_workload(preset: &TrainingPreset, accelerator: &AcceleratorPreset) -> Workload {
    Workload {
        framework: preset.framework,
        model: ModelSpec {
            name: preset.name.clone(),
            size_bytes: preset.model_bytes,
            ..ModelSpec::default()
        },
        dataset: DatasetSpec {
            data_folder: format!("data/{}", preset.name),
            format: preset.format,
            num_files_train: preset.files,
            num_samples_per_file: preset.samples_per_file,
            record_length_bytes: preset.record_bytes,
            record_length_bytes_stdev: preset.record_bytes_stdev,
            record_length_bytes_resize: preset.record_bytes_resized,
            file_prefix: preset.file_prefix.clone(),
            ..DatasetSpec::default()
        },
        reader: ReaderSpec {
            loader: LoaderKind::of(preset.framework),
            batch_size: accelerator.batch_size,
            read_threads: preset.read_threads,
            file_shuffle: preset.file_shuffle,
            sample_shuffle: preset.sample_shuffle,
            ..ReaderSpec::default()
        },
        train: TrainSpec {
            epochs: preset.epochs,
            steps_per_epoch: preset.steps_per_epoch,
            compute: TimeDistribution::Fixed { mean: accelerator.compute_s },
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
    Workload {
        framework: Framework::PyTorch,
        phases: PhaseSet { generate: false, train: false, evaluate: false, checkpoint: true },
        model: ModelSpec {
            name: preset.name.clone(),
            transformer: Some(preset.shape),
            parallelism: preset.parallelism,
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
