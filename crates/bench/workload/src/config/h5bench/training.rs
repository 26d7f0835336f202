//! The benchmark `dlio` of h5bench: all parameters of its table, with its defaults.

use forebay_process::Result;

use crate::{
    config::{dlio, options::ConfigOptions, section::Section},
    distribution::TimeDistribution,
    workload::{
        DatasetSpec, FileFormat, FileNaming, Framework, Hdf5Spec, LoaderKind, PhaseSet, RankShare,
        ReaderSpec, ShuffleMode, TrainSpec, Workload,
    },
};

/// What h5bench takes where a parameter is not given.
pub(super) fn defaults() -> Workload {
    let seconds = TimeDistribution::Fixed { mean: 0.323 };
    let mut workload = Workload {
        framework: Framework::PyTorch,
        phases: PhaseSet { generate: false, train: false, evaluate: false, checkpoint: false },
        dataset: DatasetSpec {
            data_folder: "./data".into(),
            format: FileFormat::Hdf5,
            naming: FileNaming::H5bench,
            num_files_train: 32,
            num_files_eval: 8,
            num_samples_per_file: 4,
            record_length_bytes: 67_108_864,
            keep_files: false,
            ..DatasetSpec::default()
        },
        reader: ReaderSpec {
            loader: LoaderKind::PyTorch,
            batch_size: 7,
            batch_size_eval: 2,
            read_threads: 4,
            rank_share: RankShare::Batches,
            ..ReaderSpec::default()
        },
        train: TrainSpec {
            epochs: 5,
            compute: seconds,
            seed: 42,
            seed_change_epoch: false,
            steps_of_all_ranks: true,
            ..TrainSpec::default()
        },
        hdf5: Hdf5Spec { chunk_size: 1024, ..Hdf5Spec::default() },
        ..Workload::default()
    };
    workload.model.name = "h5bench".into();
    workload.evaluation.compute = seconds;
    workload
}

pub(super) fn workload(
    mut section: Section<'_>,
    options: &ConfigOptions,
    notes: &mut Vec<String>,
) -> Result<Workload> {
    let mut workload = defaults();
    workload.like_dlio = options.like_dlio;
    section.set(&["generate-data"], &mut workload.phases.generate)?;
    section.set(&["train"], &mut workload.phases.train)?;
    section.set(&["evaluation"], &mut workload.phases.evaluate)?;
    dataset(&mut section, &mut workload)?;
    hdf5(&mut section, &mut workload.hdf5)?;
    steps(&mut section, &mut workload)?;
    section.set_file_name("output-csv-name", &mut workload.output.csv_name)?;
    section.set(&["output-ranks-data"], &mut workload.output.csv_per_rank)?;
    section.set(&["output-data-folder"], &mut workload.output.folder)?;
    section.ignore(&["drop-last"], notes);
    section.finish()?;
    if let Some(naming) = options.naming {
        workload.dataset.naming = naming;
    }
    dlio::check(&workload)?;
    dlio::note_phases(&workload, notes);
    Ok(workload)
}

fn dataset(section: &mut Section<'_>, workload: &mut Workload) -> Result<()> {
    let dataset = &mut workload.dataset;
    section.set(&["record-length"], &mut dataset.record_length_bytes)?;
    section.set(&["num-files-train"], &mut dataset.num_files_train)?;
    section.set(&["num-files-eval"], &mut dataset.num_files_eval)?;
    section.set(&["num-samples-per-file"], &mut dataset.num_samples_per_file)?;
    section.set(&["data-folder"], &mut dataset.data_folder)?;
    section.set(&["train-data-folder"], &mut dataset.train_folder)?;
    section.set(&["valid-data-folder"], &mut dataset.eval_folder)?;
    section.set(&["file-prefix"], &mut dataset.file_prefix)?;
    section.set(&["keep-files"], &mut dataset.keep_files)?;
    section.set_compression("compression", &mut dataset.compression)?;
    section.set(&["compression-level"], &mut dataset.compression_level)?;
    if !(1..=9).contains(&dataset.compression_level) {
        return Err(section.error("compression-level", "levels of compression go from 1 to 9"));
    }
    Ok(())
}

fn hdf5(section: &mut Section<'_>, hdf5: &mut Hdf5Spec) -> Result<()> {
    section.set(&["chunking"], &mut hdf5.chunking)?;
    section.set(&["chunk-size"], &mut hdf5.chunk_size)?;
    section.set(&["records-dataset-name"], &mut hdf5.records_name)?;
    section.set(&["labels-dataset-name"], &mut hdf5.labels_name)?;
    section.set(&["collective-meta"], &mut hdf5.collective_meta)?;
    section.set(&["collective-data"], &mut hdf5.collective_data)?;
    // The table has a slip of the pen; both spellings are in use.
    section.set(&["subfiling", "subfilig"], &mut hdf5.subfiling)?;
    Ok(())
}

fn steps(section: &mut Section<'_>, workload: &mut Workload) -> Result<()> {
    let (reader, train) = (&mut workload.reader, &mut workload.train);
    section.set(&["batch-size"], &mut reader.batch_size)?;
    section.set(&["batch-size-eval"], &mut reader.batch_size_eval)?;
    section.set(&["read-threads"], &mut reader.read_threads)?;
    let mut shuffled = false;
    section.set(&["shuffle"], &mut shuffled)?;
    reader.sample_shuffle = if shuffled { ShuffleMode::Seed } else { ShuffleMode::Off };
    section.set_time("preprocess-time", "preprocess-time-stdev", &mut reader.preprocess)?;
    section.set(&["epochs"], &mut train.epochs)?;
    section.set(&["total-training-steps"], &mut train.steps_per_epoch)?;
    section.set_time("computation-time", "computation-time-stdev", &mut train.compute)?;
    section.set(&["random-seed"], &mut train.seed)?;
    section.set(&["seed-change-epoch"], &mut train.seed_change_epoch)?;
    let evaluation = &mut workload.evaluation;
    section.set_time("eval-time", "eval-time-stdev", &mut evaluation.compute)?;
    section.set(&["epochs-between-evals"], &mut evaluation.epochs_between)?;
    evaluation.after_epoch = evaluation.epochs_between;
    Ok(())
}
