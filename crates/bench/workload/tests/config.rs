//! Configurations as people have them: what they become, and what is said of those that are wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use forebay_process::ErrorKind;
use forebay_workload::{
    Compression, ConfigOptions, ConfigSyntax, ElementType, FileFormat, FileNaming, Framework, LoaderKind,
    RankPosition, RankShare, ShuffleMode, Split, Suite, TimeDistribution, UnsupportedEntry, Workload,
    checkpoint, config, layout, order,
};

fn options(overrides: &[&str]) -> ConfigOptions {
    ConfigOptions {
        overrides: overrides.iter().map(|text| (*text).to_owned()).collect(),
        ..Default::default()
    }
}

fn only(suite: Suite) -> Workload {
    assert_eq!((suite.workloads.len(), suite.unsupported.len()), (1, 0));
    suite.workloads.into_iter().next().unwrap()
}

fn yaml(text: &str) -> Workload {
    only(config::read(text, ConfigSyntax::Yaml, &options(&[])).unwrap())
}

fn fails(text: &str, syntax: ConfigSyntax, overrides: &[&str]) -> String {
    config::read(text, syntax, &options(overrides)).unwrap_err().to_string()
}

const UNET3D: &str = "
model:
  name: unet3d
  type: cnn
  model_size: 499153191

framework: pytorch

workflow:
  generate_data: False
  train: True
  checkpoint: True

dataset:
  data_folder: data/unet3d/
  format: npz
  num_files_train: 168
  num_samples_per_file: 1
  record_length_bytes: 146600628
  record_length_bytes_stdev: 68341808
  record_length_bytes_resize: 2097152

reader:
  data_loader: pytorch
  batch_size: 7
  read_threads: 4
  file_shuffle: seed
  sample_shuffle: off

train:
  epochs: 5
  computation_time: 0.323

checkpoint:
  checkpoint_folder: checkpoints/unet3d
  checkpoint_after_epoch: 5
  epochs_between_checkpoints: 2

metric:
  au: 0.90
";

#[test]
fn a_dlio_workload_becomes_what_it_says() {
    let workload = yaml(UNET3D);
    assert_eq!((workload.framework, workload.reader.loader), (Framework::PyTorch, LoaderKind::PyTorch));
    assert_eq!((workload.dataset.format, workload.dataset.naming), (FileFormat::Npz, FileNaming::Dlio));
    assert_eq!((workload.dataset.num_files_train, workload.reader.batch_size), (168, 7));
    assert_eq!(
        (workload.reader.file_shuffle, workload.reader.sample_shuffle),
        (ShuffleMode::Seed, ShuffleMode::Off)
    );
    assert_eq!(workload.train.compute, TimeDistribution::Fixed { mean: 0.323 });
    assert_eq!((workload.checkpoint.after_epoch, workload.model.size_bytes), (5, 499_153_191));
    assert_eq!(workload.target_au, 0.9);
}

#[test]
fn fractions_of_counts_are_errors_and_those_of_bytes_are_rounded() {
    let error = fails("reader: {batch_size: 4.5}", ConfigSyntax::Yaml, &[]);
    assert!(error.contains("reader.batch_size: '4.5' is no whole number"), "{error}");
    let workload = yaml("reader: {batch_size: 4.0}\ndataset: {record_length_bytes: 114660.07}");
    assert_eq!((workload.reader.batch_size, workload.dataset.record_length_bytes), (4, 114_660));
    let error = fails("zzzzzz: {}", ConfigSyntax::Yaml, &[]);
    assert!(error.contains(" model,") && !error.contains("model, model"), "{error}");
}

#[test]
fn names_of_older_releases_mean_the_same() {
    let workload = yaml(
        "model: resnet50\nframework: tensorflow\nworkflow: {do_eval: True}\ndataset:\n  record_length: 114660.07\n  \
         record_length_resize: 150528\n  record_length_stdev: 3\ndata_reader: {batch_size: 400}\ntrain:\n  \
         computation_time: 0.4\n  computation_time_stdev: 0.1\ncheckpoint: {model_size: 77, tensor_parallelism: 2, \
         pipeline_parallelism: 3}\n",
    );
    assert_eq!((workload.model.parallelism.tensor, workload.model.parallelism.pipeline), (2, 3));
    assert_eq!((&*workload.model.name, workload.model.size_bytes), ("resnet50", 77));
    assert_eq!(workload.dataset.record_length_bytes, 114_660);
    assert_eq!(workload.train.compute, TimeDistribution::Normal { mean: 0.4, stdev: 0.1 });
    assert!(workload.phases.evaluate && workload.reader.batch_size == 400);
}

#[test]
fn overrides_set_add_and_remove_and_come_last() {
    let given = [
        "++workload.reader.read_threads=8",
        "+workload.dataset.record_dims=[4, 5]",
        "workload.train.computation_time={type: gamma, shape: 2, scale: 0.5}",
        "++reader.batch_size=3",
        "~workload.metric",
        "++workload.workflow.generate_data=True",
    ];
    let workload = only(config::read(UNET3D, ConfigSyntax::Yaml, &options(&given)).unwrap());
    assert_eq!((workload.reader.read_threads, workload.reader.batch_size), (8, 3));
    assert_eq!(workload.dataset.record_dims, [4, 5]);
    assert_eq!(workload.train.compute, TimeDistribution::Gamma { shape: 2.0, scale: 0.5 });
    assert!(workload.phases.generate);
    for (text, expected) in [
        ("workload.reader.batch_size", "is no override; overrides look like"),
        ("++workload.reader.batchsize=3", "reader: unknown key 'batchsize'; did you mean 'batch_size'?"),
        ("++workload.reader.batch_size=three", "reader.batch_size: 'three' is no whole number"),
    ] {
        let error = fails(UNET3D, ConfigSyntax::Yaml, &[text]);
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_hydra_saved_beside_the_results_is_read_too() {
    let indented = UNET3D.replace('\n', "\n  ");
    let workload = yaml(&format!("workload:{indented}\n"));
    assert_eq!(workload.reader.batch_size, 7);
}

#[test]
fn errors_name_the_line_the_key_and_the_nearest_one() {
    for (text, expected) in [
        (
            "dataset:\n  num_file_train: 8\n",
            "line 2: dataset: unknown key 'num_file_train'; did you mean 'num_files_train'?",
        ),
        ("datset: {}\n", "line 1: unknown key 'datset'; did you mean 'dataset'?"),
        ("framework: pytroch\n", "line 1: framework: unknown framework 'pytroch'; did you mean 'pytorch'?"),
        ("reader:\n  batch_size: -2\n", "line 2: reader.batch_size: '-2' is out of range"),
        ("reader:\n  batch_size: 0\n", "reader.batch_size is 0"),
        ("dataset:\n  format: hdf\n", "unknown format 'hdf'; did you mean 'hdf5'?"),
        ("train:\n  computation_time: {type: triangular}\n", "unknown distribution 'triangular'"),
        ("train:\n  computation_time: {type: gamma, shape: 1}\n", "a scale is missing"),
        ("metric: {au: 90}\n", "metric.au: the target of AU is a part from 0 to 1"),
        ("dataset: [1]\n", "line 1: dataset: a mapping of keys is meant here"),
        ("dataset: {num_samples_per_file: 0}\n", "num_samples_per_file is 0"),
        (
            "dataset: {num_files_train: 4000000000000, record_length: 1TiB}\n",
            "more bytes than can be counted",
        ),
        ("a: [\n", "this is no YAML"),
    ] {
        let error = fails(text, ConfigSyntax::Yaml, &[]);
        assert!(error.contains(expected), "{error}\n{expected}");
    }
}

#[test]
fn keys_without_effect_are_noted_and_defects_are_reproduced_on_request() {
    let text = "profiling: {profiler: iostat}\nmodel: {name: x, model_size: 5}\nreader: {file_access: shared}\n\
                checkpoint: {fsync: True}\n";
    let suite = config::read(text, ConfigSyntax::Yaml, &options(&[])).unwrap();
    assert_eq!(suite.notes, ["reader.file_access has no effect here", "profiling has no effect here"]);
    let unused = "reader: {odirect: true, read_type: memory, shuffle_size: 8, computation_threads: 2, \
                  transformed_record_dims: [4], transformed_record_element_type: fp32}\n\
                  dataset: {generation_buffer_size: 1024, hdf5: {max_shape: [9]}}\n\
                  workflow: {train: False, evaluation: True}\n";
    let notes = config::read(unused, ConfigSyntax::Yaml, &options(&[])).unwrap().notes;
    for key in
        ["odirect", "read_type", "shuffle_size", "computation_threads", "generation_buffer_size", "max_shape"]
    {
        assert!(notes.iter().any(|note| note.contains(key)), "{key}: {notes:?}");
    }
    assert!(notes.iter().any(|note| note.contains("evaluation comes after epochs of training")), "{notes:?}");
    assert_eq!(notes.len(), 9, "{notes:?}");
    let plain = "reader: {read_type: on_demand, odirect: False}\n";
    assert!(config::read(plain, ConfigSyntax::Yaml, &options(&[])).unwrap().notes.is_empty());
    let documented = only(suite);
    assert!(documented.checkpoint.fsync && documented.model.size_bytes == 5);
    let like = ConfigOptions { like_dlio: true, ..Default::default() };
    let dlio = only(config::read(text, ConfigSyntax::Yaml, &like).unwrap());
    assert!(!dlio.checkpoint.fsync && dlio.model.size_bytes == 10_240 && dlio.like_dlio);
}

#[test]
fn what_cannot_be_counted_drawn_or_named_is_an_error_before_the_run() {
    for (text, expected) in [
        ("dataset: {record_dims: [4294967296, 4294967296]}", "more bytes than can be counted"),
        (
            "train: {computation_time: {type: gamma, shape: -1.5, scale: 1}}",
            "train.computation_time: a shape",
        ),
        (
            "train: {computation_time: {type: poisson, lam: 1.0e+12}}",
            "train.computation_time: a time of more than",
        ),
        ("train: {computation_time: 1.0e+19}", "train.computation_time: a time of more than"),
        ("evaluation: {eval_time: {mean: 0.1, stdev: -1}}", "evaluation.eval_time: a stdev"),
        ("output: {csv_name: results/output}", "output.csv_name: "),
        (
            "model: {type: transformer, transformer: {hidden_size: 8589934592}}",
            "model.transformer.hidden_size: ",
        ),
        ("model: {type: transformer, num_layers: 1.0e+17}", "model.transformer.hidden_size: "),
        ("model: {type: transformer, transformer: {hidden_size: 0}}", "model.transformer.hidden_size: "),
    ] {
        let error = fails(text, ConfigSyntax::Yaml, &[]);
        assert!(error.contains(expected), "{error}\n{expected}");
    }
    let named = r#"{"benchmarks": [{"benchmark": "dlio", "configuration": {"output-csv-name": "a/b"}}]}"#;
    assert!(fails(named, ConfigSyntax::Json, &[]).contains("output-csv-name: "));
    let huge = options(&["++workload.reader.batch_size=9223372036854775807", "++workload.train.epochs=1"]);
    let like = ConfigOptions { like_dlio: true, ..huge };
    let workload = only(config::read("reader: {}", ConfigSyntax::Yaml, &like).unwrap());
    assert_eq!(forebay_workload::order::files_used(&workload, Split::Train, 4), 0);
}

#[test]
fn our_toml_has_the_same_keys_and_sizes_with_units() {
    let text = "framework = \"pytorch\"\n[dataset]\nformat = \"hdf5\"\nlayout = \"h5bench\"\nrecord_length_bytes = \"64MiB\"\n\
                compression = \"zstd\"\ncompressible_to = 0.5\n[hdf5]\ncollective_data = true\n[reader]\nrank_share = \"batches\"\n\
                [train.computation_time]\ntype = \"uniform\"\nmin = 0.1\nmax = 0.2\n";
    let workload = only(config::read(text, ConfigSyntax::Toml, &options(&["++train.epochs=2"])).unwrap());
    assert_eq!(workload.dataset.record_length_bytes, 64 << 20);
    assert_eq!(
        (workload.dataset.naming, workload.dataset.compression),
        (FileNaming::H5bench, Compression::Zstd)
    );
    assert_eq!((workload.reader.rank_share, workload.train.epochs), (RankShare::Batches, 2));
    assert_eq!(workload.train.compute, TimeDistribution::Uniform { min: 0.1, max: 0.2 });
    assert!(workload.hdf5.collective_data);
    assert!(fails("[dataset]\nfiles = 3", ConfigSyntax::Toml, &[]).contains("dataset: unknown key 'files'"));
    assert!(fails("[dataset", ConfigSyntax::Toml, &[]).contains("line 1"));
}

const H5BENCH: &str = r#"{
    "mpi": {"command": "mpirun", "ranks": "24"},
    "vol": {}, "file-system": {"lustre": {"stripe-size": "1M", "stripe-count": "-1"}},
    "directory": "storage",
    "benchmarks": [
        {"benchmark": "dlio", "configuration": {"generate-data": "true", "subfilig": "true", "compression": "true"}},
        {"benchmark": "write", "file": "test.h5", "configuration": {
            "MEM_PATTERN": "CONTIG", "FILE_PATTERN": "INTERLEAVED", "TIMESTEPS": "5", "DELAYED_CLOSE_TIMESTEPS": "2",
            "COLLECTIVE_DATA": "YES", "EMULATED_COMPUTE_TIME_PER_TIMESTEP": "100 ms", "NUM_DIMS": "2",
            "DIM_1": "64", "DIM_2": "32", "DIM_3": "1", "CSV_FILE": "output.csv", "MODE": "SYNC"}},
        {"benchmark": "dlio", "file": "unused.h5", "configuration": {"train": "true"}},
        {"benchmark": "macsio", "configuration": {"interface": "hdf5"}, "anything": [1]}
    ]
}"#;

#[test]
fn an_h5bench_file_is_a_suite_with_its_own_defaults() {
    let suite = config::read(H5BENCH, ConfigSyntax::Json, &options(&[])).unwrap();
    assert_eq!(suite.mpi.unwrap().ranks, Some(24));
    for (arguments, ranks) in
        [("-np 3", Some(3)), ("--bind-to core -n4 -x A", Some(4)), ("-nooversubscribe", None)]
    {
        let text = format!(
            r#"{{"mpi": {{"command": "mpirun", "configuration": "{arguments}"}}, "benchmarks": []}}"#
        );
        let suite = config::read(&text, ConfigSyntax::Json, &options(&[])).unwrap();
        assert_eq!(suite.mpi.unwrap().ranks, ranks, "{arguments}");
    }
    assert!(suite.notes.iter().any(|note| note.contains("file-system.lustre")), "{:?}", suite.notes);
    assert!(suite.notes.iter().any(|note| note.contains("mpi.command")), "{:?}", suite.notes);
    let stripes = suite.stripes.unwrap();
    assert_eq!((stripes.stripe_bytes, stripes.stripe_count), (Some(1 << 20), None));
    let workload = &suite.workloads[0];
    assert!(workload.phases.generate && !workload.phases.train && workload.hdf5.subfiling);
    assert_eq!(workload.dataset.compression, Compression::Gzip);
    table_a1(workload);
}

#[test]
fn entries_that_are_not_dlio_stay_out_of_the_workloads_and_are_errors_that_name_h5bench() {
    let suite = config::read(H5BENCH, ConfigSyntax::Json, &options(&["++epochs=9"])).unwrap();
    let trained: Vec<_> =
        suite.workloads.iter().map(|workload| (workload.phases.train, workload.train.epochs)).collect();
    assert_eq!(trained, [(false, 9), (true, 9)]);
    let errors: Vec<_> = suite.unsupported.iter().map(UnsupportedEntry::error).collect();
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Unsupported), "{errors:?}");
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            r#"entry 2: expected "dlio", got "write"; run this entry with h5bench itself"#,
            r#"entry 4: expected "dlio", got "macsio"; run this entry with h5bench itself"#,
        ]
    );
    assert!(suite.notes.contains(&"benchmarks[2].file has no effect here".to_owned()), "{:?}", suite.notes);
    for (entry, expected) in [
        (r#"{"benchmark": "DLIO"}"#, "unknown benchmark 'DLIO'; did you mean 'dlio'?"),
        (r#"{"benchmark": "dlo"}"#, "unknown benchmark 'dlo'; did you mean 'dlio'?"),
        (r#"{"file": "a.h5"}"#, "benchmarks[0].benchmark: expected the name of a benchmark, got none"),
    ] {
        let error = fails(&format!(r#"{{"benchmarks": [{entry}]}}"#), ConfigSyntax::Json, &[]);
        assert_eq!(error, expected);
    }
}

/// The defaults of Table A.1.
fn table_a1(workload: &Workload) {
    let dataset = &workload.dataset;
    assert_eq!((dataset.num_files_train, dataset.num_files_eval, dataset.num_samples_per_file), (32, 8, 4));
    assert_eq!(
        (dataset.record_length_bytes, &*dataset.file_prefix, dataset.keep_files),
        (67_108_864, "img", false)
    );
    assert_eq!(
        (dataset.compression_level, workload.hdf5.chunk_size, workload.hdf5.chunking),
        (4, 1024, false)
    );
    assert_eq!((&*dataset.train_folder, &*dataset.eval_folder), ("train", "valid"));
    let reader = &workload.reader;
    assert_eq!((reader.batch_size, reader.batch_size_eval, reader.read_threads), (7, 2, 4));
    assert_eq!((reader.sample_shuffle, reader.preprocess), (ShuffleMode::Off, TimeDistribution::ZERO));
    let seconds = TimeDistribution::Fixed { mean: 0.323 };
    assert_eq!(
        (workload.train.epochs, workload.train.steps_per_epoch, workload.train.compute),
        (5, None, seconds)
    );
    assert_eq!((workload.train.seed, workload.train.seed_change_epoch), (42, false));
    assert_eq!((workload.evaluation.compute, workload.evaluation.epochs_between), (seconds, 1));
    assert_eq!((&*workload.hdf5.records_name, &*workload.hdf5.labels_name), ("records", "labels"));
    assert_eq!((workload.hdf5.collective_meta, workload.hdf5.collective_data), (false, false));
    assert_eq!((&*workload.output.csv_name, workload.output.csv_per_rank), ("output", false));
}

#[test]
fn every_parameter_of_table_a1_is_read_and_a_wrong_one_named() {
    let text = r#"{"benchmarks": [{"benchmark": "dlio", "configuration": {
        "generate-data": true, "train": "true", "evaluation": "true", "record-length": "4096", "num-files-train": "3",
        "num-files-eval": "2", "num-samples-per-file": "5", "file-prefix": "a", "chunking": "true", "chunk-size": "64",
        "keep-files": "true", "compression": "true", "compression-level": "9", "batch-size": "1", "batch-size-eval": "1",
        "shuffle": "true", "preprocess-time": "0.1", "preprocess-time-stdev": "0.01", "epochs": "2",
        "total-training-steps": "11", "computation-time": "0.5", "computation-time-stdev": "0.25", "random-seed": "7",
        "eval-time": "0.2", "eval-time-stdev": "0.0", "epochs-between-evals": "2", "train-data-folder": "t",
        "valid-data-folder": "v", "records-dataset-name": "r", "labels-dataset-name": "l", "seed-change-epoch": "true",
        "read-threads": "0", "collective-meta": "true", "collective-data": "true", "subfiling": "false",
        "output-csv-name": "o", "output-ranks-data": "true"}}]}"#;
    let workload = only(config::read(text, ConfigSyntax::Json, &options(&[])).unwrap());
    assert_eq!(workload.train.compute, TimeDistribution::Normal { mean: 0.5, stdev: 0.25 });
    assert_eq!((workload.evaluation.after_epoch, workload.train.steps_per_epoch), (2, Some(11)));
    assert_eq!(layout::file(&workload.dataset, Split::Eval, 1).to_str(), Some("v/a_2_of_2.h5"));
    let wrong = text.replace("\"read-threads\"", "\"read-thread\"");
    let error = fails(&wrong, ConfigSyntax::Json, &[]);
    assert_eq!(error, "benchmarks[0].configuration: unknown key 'read-thread'; did you mean 'read-threads'?");
    let changed = config::read(text, ConfigSyntax::Json, &options(&["++epochs=9"])).unwrap();
    assert_eq!(only(changed).train.epochs, 9);
    assert!(fails("{", ConfigSyntax::Json, &[]).contains("line 1"));
}

#[test]
fn every_preset_can_be_run_and_a_slip_is_put_right() {
    let names = config::preset_names();
    assert!(names.len() > 25, "{names:?}");
    for name in &names {
        let workload = only(config::preset(name, &options(&[])).unwrap());
        if workload.phases.train {
            let steps = order::steps(&workload, Split::Train, RankPosition { rank: 0, ranks: 1 }).unwrap();
            assert!(steps > 0, "{name}");
        }
        assert!(config::preset_summary(name).is_some());
    }
    let h100 = only(config::preset("unet3d_h100", &options(&["++workload.reader.read_threads=2"])).unwrap());
    assert_eq!((h100.reader.batch_size, h100.reader.read_threads), (7, 2));
    assert_eq!(h100.train.compute, TimeDistribution::Fixed { mean: 0.323 });
    let dlrm = ["dlrm", "dlrm_a100", "dlrm_b200", "dlrm_mi355"]
        .map(|name| only(config::preset(name, &options(&[])).unwrap()))
        .map(|dlrm| (dlrm.dataset.record_length_bytes, dlrm.reader.batch_size, dlrm.train.compute));
    let seconds = |mean| TimeDistribution::Fixed { mean };
    let expected = [
        (512, 8192, seconds(0.005)),
        (512, 8192, seconds(0.007)),
        (761, 16_384, seconds(0.000_375)),
        (761, 16_384, seconds(0.000_562_5)),
    ];
    assert_eq!(dlrm, expected);
    let error = config::preset("unet3d_h10", &options(&[])).unwrap_err().to_string();
    assert_eq!(error, "unknown preset 'unet3d_h10'; did you mean 'unet3d_h100'?");
}

#[test]
fn presets_have_the_files_and_samples_of_the_benchmarks_they_are_named_after() {
    let names = "unet3d unet3d_h100 unet3d_a100 unet3d_b200 unet3d_v100 cosmoflow cosmoflow_h100 cosmoflow_a100 cosmoflow_v100 \
                 resnet50 resnet50_h100 resnet50_a100 resnet50_v100 bert bert_v100 retinanet retinanet_b200 retinanet_mi355 \
                 retinanet_h100 dlrm dlrm_h100 dlrm_a100 dlrm_b200 dlrm_mi355 llama3_8b llama3_70b llama3_405b llama3_1t \
                 h5bench_a h5bench_b h5bench_c h5bench_d h5bench_e h5bench_f h5bench_g h5bench_h";
    assert_eq!(config::preset_names().join(" "), names);
    let summaries = [
        ("unet3d", "168 npz files x 1 samples of 146600628 bytes, batches of 7"),
        ("cosmoflow_v100", "524288 tfrecord files x 1 samples of 2828486 bytes, batches of 1"),
        ("resnet50_a100", "1024 tfrecord files x 1251 samples of 114660 bytes, batches of 400"),
        ("bert", "500 tfrecord files x 313532 samples of 2500 bytes, batches of 48"),
        ("llama3_8b", "checkpoints of 8 billion parameters, tensor 1 x pipeline 1, ZeRO 3"),
        ("h5bench_b", "168 hdf5 files x 4 samples of 146600628 bytes, batches of 4"),
    ];
    for (name, summary) in summaries {
        assert_eq!(config::preset_summary(name).as_deref(), Some(summary));
    }
    let workload = |name| only(config::preset(name, &options(&[])).unwrap());
    let unet3d = workload("unet3d");
    assert_eq!((unet3d.dataset.record_length_bytes_stdev, unet3d.target_au), (68_341_808.0, 0.9));
    assert_eq!((unet3d.dataset.record_length_bytes_resize, unet3d.train.epochs), (2_097_152, 5));
    assert_eq!((unet3d.reader.file_shuffle, unet3d.reader.read_threads), (ShuffleMode::Seed, 4));
    assert_eq!(workload("cosmoflow").train.compute, TimeDistribution::Fixed { mean: 0.0035 });
    assert_eq!(workload("bert").train.steps_per_epoch, Some(1000));
    assert_eq!(
        (workload("h5bench_g").dataset.compression, workload("h5bench_f").hdf5.chunking),
        (Compression::Gzip, true)
    );
    assert!(workload("h5bench_e").hdf5.collective_data && !workload("h5bench_d").hdf5.collective_data);
}

#[test]
fn llama_presets_have_the_parameters_their_names_say() {
    for (name, billions) in
        [("llama3_8b", 8.0), ("llama_70b", 70.0), ("llama3_405b", 405.0), ("llama3-1t", 1000.0)]
    {
        let workload = only(config::preset(name, &options(&[])).unwrap());
        let parameters = checkpoint::parameter_count(&workload.model.transformer.unwrap()) as f64 / 1e9;
        assert!((parameters / billions - 1.0).abs() < 0.4, "{name}: {parameters}");
        assert_eq!(workload.model.optimizer_datatype, ElementType::Float32);
    }
}

#[test]
fn a_layout_on_the_command_line_comes_before_the_file() {
    let options = ConfigOptions { naming: Some(FileNaming::Dlio2408), ..Default::default() };
    let suite = config::read(H5BENCH, ConfigSyntax::Json, &options).unwrap();
    let workload = &suite.workloads[0];
    assert_eq!(layout::file(&workload.dataset, Split::Train, 0).to_str(), Some("train/img_00_of_32.hdf5"));
}

#[test]
fn a_workload_survives_its_journey_to_another_process() {
    for name in config::preset_names() {
        let workload = only(config::preset(&name, &options(&[])).unwrap());
        let text = serde_json::to_string(&workload).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&text).unwrap(), workload);
    }
}

#[test]
fn compressions_are_named_or_switched_on_and_lzo_is_refused_for_its_licence() {
    let json = |value: &str| {
        format!(r#"{{"benchmarks": [{{"benchmark": "dlio", "configuration": {{"compression": {value}}}}}]}}"#)
    };
    for (value, compression) in [
        ("true", Compression::Gzip),
        ("\"false\"", Compression::None),
        ("\"lz4\"", Compression::Lz4),
        ("\"BZIP2\"", Compression::Bzip2),
        ("\"zstd\"", Compression::Zstd),
    ] {
        let suite = config::read(&json(value), ConfigSyntax::Json, &options(&[])).unwrap();
        assert_eq!(only(suite).dataset.compression, compression, "{value}");
    }
    let error = fails(&json("\"lzo\""), ConfigSyntax::Json, &[]);
    assert!(error.contains("GPL") && error.contains("lz4"), "{error}");
    assert!(fails("dataset:\n  compression: LZO\n", ConfigSyntax::Yaml, &[]).contains("GPL"));
    assert!(fails(&json("\"zst\""), ConfigSyntax::Json, &[]).contains("zstd"));
}
