//! DLIO's sections, by the names of DLIO 2 and of the releases before it, and the few keys that are ours.

mod data;
mod states;

use forebay_process::{Error, ErrorKind, Result};

use crate::{
    config::{
        node::{ConfigNode, NodeValue},
        options::ConfigOptions,
        overrides,
        section::Section,
    },
    layout,
    workload::{FileFormat, FileNaming, Framework, LoaderKind, StorageKind, Workload},
};

/// The workload that `tree`, changed by the overrides, makes of `base`.
pub(super) fn workload(
    mut tree: ConfigNode,
    base: Workload,
    options: &ConfigOptions,
    notes: &mut Vec<String>,
) -> Result<Workload> {
    // What hydra saves beside the results has all under `workload`.
    if let Some(inner) = tree.remove("workload") {
        tree = inner;
    }
    overrides::apply(&mut tree, &options.overrides)?;
    let mut workload = base;
    workload.like_dlio = options.like_dlio;
    read_sections(&tree, &mut workload, notes)?;
    if let Some(naming) = options.naming {
        workload.dataset.naming = naming;
    }
    if options.like_dlio {
        apply_defects(&mut workload);
    }
    check(&workload)?;
    Ok(workload)
}

fn read_sections(tree: &ConfigNode, workload: &mut Workload, notes: &mut Vec<String>) -> Result<()> {
    let mut top = Section::of(tree, "")?;
    let had_framework = top.set(&["framework"], &mut workload.framework)?;
    if had_framework {
        workload.reader.loader = LoaderKind::of(workload.framework);
    }
    // In older files `model` is a name.
    match top.node(&["model"]) {
        Some((_, node)) if matches!(node.value, NodeValue::Text(_)) => {
            top.set(&["model"], &mut workload.model.name)?;
        }
        _ => states::model(top.child(&["model"])?, workload, notes)?,
    }
    workflow(top.child(&["workflow"])?, workload, notes)?;
    storage(top.child(&["storage"])?, workload)?;
    data::dataset(top.child(&["dataset"])?, workload, notes)?;
    data::reader(top.child(&["reader", "data_reader"])?, workload, notes)?;
    train(top.child(&["train"])?, workload, notes)?;
    evaluation(top.child(&["evaluation"])?, workload, notes)?;
    states::checkpoint(top.child(&["checkpoint"])?, workload, notes)?;
    output(top.child(&["output"])?, workload, notes)?;
    metric(top.child(&["metric"])?, workload)?;
    hdf5(top.child(&["hdf5"])?, workload)?;
    top.ignore(&["profiling", "hydra", "defaults"], notes);
    note_phases(workload, notes);
    if workload.framework == Framework::SkLearn {
        if workload.reader.read_threads > 1 {
            notes.push("reader.read_threads has no effect here: scikit-learn reads by one thread".to_owned());
        }
        workload.reader.read_threads = 0;
    }
    top.finish()
}

/// Says which phases are asked for in vain.
pub(super) fn note_phases(workload: &Workload, notes: &mut Vec<String>) {
    if workload.phases.evaluate && !workload.phases.train {
        notes.push("evaluation comes after epochs of training: without these there is none".to_owned());
    }
}

fn workflow(mut section: Section<'_>, workload: &mut Workload, notes: &mut Vec<String>) -> Result<()> {
    let phases = &mut workload.phases;
    section.set(&["generate_data"], &mut phases.generate)?;
    section.set(&["train"], &mut phases.train)?;
    section.set(&["evaluation", "do_eval"], &mut phases.evaluate)?;
    section.set(&["checkpoint"], &mut phases.checkpoint)?;
    section.ignore(&["profiling", "debug", "query"], notes);
    section.finish()
}

fn storage(mut section: Section<'_>, workload: &mut Workload) -> Result<()> {
    let storage = &mut workload.storage;
    section.set(&["storage_type"], &mut storage.kind)?;
    section.set(&["storage_root"], &mut storage.root)?;
    for (key, node) in section.child(&["storage_options"])?.entries() {
        storage.options.push((key.clone(), node.text()?.to_owned()));
    }
    section.finish()
}

fn train(mut section: Section<'_>, workload: &mut Workload, notes: &mut Vec<String>) -> Result<()> {
    let train = &mut workload.train;
    section.set(&["epochs"], &mut train.epochs)?;
    section.set(&["total_training_steps"], &mut train.steps_per_epoch)?;
    section.set(&["steps_of_all_ranks"], &mut train.steps_of_all_ranks)?;
    section.set_time("computation_time", "computation_time_stdev", &mut train.compute)?;
    section.set(&["seed_change_epoch"], &mut train.seed_change_epoch)?;
    section.set(&["seed"], &mut train.seed)?;
    section.ignore(&["total_eval_steps"], notes);
    section.finish()
}

fn evaluation(mut section: Section<'_>, workload: &mut Workload, notes: &mut Vec<String>) -> Result<()> {
    let evaluation = &mut workload.evaluation;
    section.set_time("eval_time", "eval_time_stdev", &mut evaluation.compute)?;
    section.set(&["eval_after_epoch"], &mut evaluation.after_epoch)?;
    section.set(&["epochs_between_evals"], &mut evaluation.epochs_between)?;
    section.ignore(&["steps_between_evals"], notes);
    section.finish()
}

fn output(mut section: Section<'_>, workload: &mut Workload, notes: &mut Vec<String>) -> Result<()> {
    let output = &mut workload.output;
    section.set(&["folder"], &mut output.folder)?;
    section.set_file_name("csv_name", &mut output.csv_name)?;
    section.set(&["csv_per_rank"], &mut output.csv_per_rank)?;
    let mut metric = section.child(&["metric"])?;
    metric.set(&["exclude_start_steps"], &mut output.exclude_start_steps)?;
    metric.set(&["exclude_end_steps"], &mut output.exclude_end_steps)?;
    metric.finish()?;
    section.ignore(&["log_file"], notes);
    section.finish()
}

fn metric(mut section: Section<'_>, workload: &mut Workload) -> Result<()> {
    section.set(&["au"], &mut workload.target_au)?;
    if !(0.0..=1.0).contains(&workload.target_au) {
        return Err(section.error("au", "the target of AU is a part from 0 to 1"));
    }
    section.finish()
}

/// Keys of our own, for what h5bench can do and DLIO cannot say.
fn hdf5(mut section: Section<'_>, workload: &mut Workload) -> Result<()> {
    let hdf5 = &mut workload.hdf5;
    section.set(&["collective_meta"], &mut hdf5.collective_meta)?;
    section.set(&["collective_data"], &mut hdf5.collective_data)?;
    section.set(&["subfiling"], &mut hdf5.subfiling)?;
    section.set(&["records_name"], &mut hdf5.records_name)?;
    section.set(&["labels_name"], &mut hdf5.labels_name)?;
    section.finish()
}

/// Keys that DLIO 2 reads and does not use; that of 2024-08 chunks.
fn apply_defects(workload: &mut Workload) {
    workload.checkpoint.fsync = false;
    workload.checkpoint.recovery_rank_shift = false;
    workload.hdf5.chunking &= workload.dataset.naming != FileNaming::Dlio;
}

/// What no run could do, said before it begins.
pub(super) fn check(workload: &Workload) -> Result<()> {
    layout::check(&workload.dataset)?;
    let invalid = |what: &str| Err(Error::new(ErrorKind::Invalid, what.to_owned()));
    let phases = workload.phases;
    if phases.train && workload.reader.batch_size == 0 {
        return invalid("reader.batch_size is 0");
    }
    if phases.evaluate && workload.dataset.num_files_eval > 0 && workload.reader.batch_size_eval == 0 {
        return invalid("reader.batch_size_eval is 0");
    }
    if workload.evaluation.epochs_between == 0 || workload.checkpoint.epochs_between == 0 {
        return invalid("epochs_between_evals and epochs_between_checkpoints are at least 1");
    }
    if workload.model.parallelism.zero_stage > 3 {
        return invalid("model.parallelism.zero_stage is 0, 1, 2 or 3");
    }
    let of_files = workload.dataset.format;
    if of_files == FileFormat::TfRecord && workload.framework == Framework::PyTorch && workload.like_dlio {
        return invalid("DLIO's pytorch loader does not read tfrecord");
    }
    if workload.storage.kind == StorageKind::S3
        && !matches!(of_files, FileFormat::Npz | FileFormat::Npy)
        && workload.like_dlio
    {
        return invalid("DLIO reads only npz and npy from s3");
    }
    Ok(())
}
