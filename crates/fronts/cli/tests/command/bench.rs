//! `forebay bench`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::ran::command;

/// A folder with a configuration in h5bench's form.
struct Benchmark {
    folder: tempfile::TempDir,
    configuration: Value,
}

impl Benchmark {
    /// Table 6.1 of the thesis: 128 + 32 files of 4 samples, one epoch, 511 steps; samples of 64 KiB, as shorter ones are read through a buffer.
    fn table_6_1(threads: u32) -> Self {
        Self::new(json!({
            "generate-data": true, "train": true, "evaluation": true, "record-length": 65536, "num-files-train": 128,
            "num-files-eval": 32, "num-samples-per-file": 4, "batch-size": 1, "batch-size-eval": 1, "epochs": 1,
            "total-training-steps": 511, "computation-time": 0.0, "eval-time": 0.0, "read-threads": threads,
            "keep-files": true,
        }))
    }

    /// Six files of four samples, read in batches of two.
    fn small(changes: Value) -> Self {
        let mut configuration = json!({
            "generate-data": true, "train": true, "record-length": 4096, "num-files-train": 6, "num-files-eval": 2,
            "num-samples-per-file": 4, "batch-size": 2, "epochs": 2, "computation-time": 0.0, "eval-time": 0.0,
            "read-threads": 0, "keep-files": true,
        });
        configuration.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Self::new(configuration)
    }

    fn new(configuration: Value) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), configuration }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command line of a run, with `changes` to the configuration.
    fn command(&self, changes: Value, args: &[&str]) -> Command {
        let mut configuration = self.configuration.clone();
        configuration.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let suite = json!({ "directory": self.folder.path(),
                            "benchmarks": [{ "benchmark": "dlio", "configuration": configuration }] });
        let file = self.path("suite.json");
        fs::write(&file, suite.to_string()).unwrap();
        let output = self.path("results");
        let head = ["bench", file.to_str().unwrap(), "--output", output.to_str().unwrap(), "--json"];
        let mut command = command(&[&head, args].concat());
        command.env("FOREBAY_LIBHDF5", libhdf5());
        command
    }

    fn run(&self, changes: Value, args: &[&str]) -> (Value, String) {
        let done = self.command(changes, args).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{err}");
        (serde_json::from_slice(&done.stdout).unwrap(), err)
    }

    fn fails(&self, changes: Value, args: &[&str]) -> (i32, String) {
        let done = self.command(changes, args).output().unwrap();
        (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

/// The libhdf5 of the tests' own h5py.
pub(crate) fn libhdf5() -> String {
    let script =
        "import glob, h5py, os; print(glob.glob(os.path.dirname(h5py.__file__) + '.libs/libhdf5-*')[0])";
    python(&["-c", script]).trim().to_owned()
}

fn python(args: &[&str]) -> String {
    let python = std::env::var_os("FOREBAY_PYTHON").unwrap_or_else(|| "python3".into());
    let done = Command::new(python).args(args).output().expect("FOREBAY_PYTHON is a Python with h5py");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// How often each record of the Log VFD stands in `text`, without the blanks that line it up.
fn records(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("H5FD_MEM_")) {
        *counts.entry(line.split_whitespace().collect::<Vec<_>>().join(" ")).or_default() += 1;
    }
    counts
}

#[test]
fn the_log_vfd_has_the_records_of_table_6_1() {
    for threads in [0, 4] {
        let bench = Benchmark::table_6_1(threads);
        bench.run(json!({ "train": false, "evaluation": false }), &[]);
        let log = bench.path("log");
        let (answer, _) = bench.run(json!({ "generate-data": false }), &["--log-vfd", log.to_str().unwrap()]);
        let logs = ["log", "log.1", "log.2", "log.3"]
            .map(|name| fs::read_to_string(bench.path(name)).unwrap_or_default());
        let counts = records(&logs.concat());
        let (data, metadata): (Vec<_>, Vec<_>) =
            counts.iter().partition(|(record, _)| record.contains("H5FD_MEM_DRAW"));
        let data: Vec<(&str, u64)> =
            data.into_iter().map(|(record, count)| (record.as_str(), *count)).collect();
        let slot = |begin: u64| format!("{begin}- {} ( 65536 bytes) (H5FD_MEM_DRAW) Read", begin + 65_535);
        let slots = [slot(2048), slot(67_584), slot(133_120), slot(198_656)];
        let mut expected: Vec<(&str, u64)> =
            slots.iter().map(String::as_str).zip([160, 160, 160, 159]).collect();
        expected.sort_unstable();
        assert_eq!(data, expected, "{threads} threads");
        assert!(metadata.iter().all(|(_, count)| **count == 639), "{threads} threads: {metadata:?}");
        let kinds = [
            "96- 607 ( 512 bytes) (H5FD_MEM_OHDR) Read",
            "680- 1191 ( 512 bytes) (H5FD_MEM_LHEAP) Read",
            "136- 679 ( 544 bytes) (H5FD_MEM_BTREE) Read",
            "1072- 1399 ( 328 bytes) (H5FD_MEM_BTREE) Read",
            "800- 1311 ( 512 bytes) (H5FD_MEM_OHDR) Read",
        ];
        for kind in kinds {
            assert!(metadata.iter().any(|(record, _)| *record == kind), "{kind} in {metadata:?}");
        }
        let epoch = &answer["runs"][0]["epochs"][0];
        assert_eq!((&epoch["train"]["samples"], &epoch["evaluation"]["samples"]), (&json!(511), &json!(128)));
    }
}

#[test]
fn the_log_vfd_of_engine_forebay_has_the_same_reads_of_samples_and_fewer_of_metadata() {
    for threads in [0, 2] {
        let bench = Benchmark::table_6_1(threads);
        bench.run(json!({ "train": false, "evaluation": false }), &[]);
        let log = bench.path("log");
        let args = ["--engine", "forebay", "--log-vfd", log.to_str().unwrap()];
        bench.run(json!({ "generate-data": false }), &args);
        let counts = records(&fs::read_to_string(log).unwrap());
        let (data, metadata): (Vec<_>, Vec<_>) =
            counts.into_iter().partition(|(record, _)| record.contains("H5FD_MEM_DRAW"));
        let slot = |begin: u64| format!("{begin}- {} ( 65536 bytes) (H5FD_MEM_DRAW) Read", begin + 65_535);
        let slots = [slot(133_120), slot(198_656), slot(2048), slot(67_584)];
        assert_eq!(
            data,
            slots.into_iter().zip([160, 159, 160, 160]).collect::<Vec<_>>(),
            "{threads} threads"
        );
        // Each file is described once, not once for each sample.
        let superblocks = metadata.iter().filter(|(record, _)| record.contains("H5FD_MEM_SUPER"));
        assert!(superblocks.clone().count() > 0 && superblocks.clone().all(|(_, count)| *count == 160));
        let kinds = ["(H5FD_MEM_SUPER) Read", "(H5FD_MEM_OHDR) Read"];
        let is_known = |record: &str| kinds.iter().any(|kind| record.ends_with(kind));
        assert!(metadata.iter().all(|(record, _)| is_known(record)), "{metadata:?}");
    }
}

#[test]
fn the_driver_that_the_environment_names_is_in_use() {
    let bench = Benchmark::small(json!({}));
    bench.run(json!({ "train": false }), &[]);
    let done =
        bench.command(json!({ "generate-data": false, "epochs": 1 }), &[]).env("HDF5_DRIVER", "log").output();
    let done = done.unwrap();
    let counts = records(&String::from_utf8_lossy(&done.stderr));
    let draws: u64 =
        counts.iter().filter(|(record, _)| record.contains("DRAW")).map(|(_, count)| count).sum();
    assert_eq!(draws, 24, "{counts:?}");
}

#[test]
fn both_engines_read_all_samples_by_threads_and_without() {
    let bench = Benchmark::small(json!({}));
    for threads in [0, 2] {
        let engines = ["--engine", "hdf5", "--engine", "forebay"];
        let (answer, _) = bench.run(json!({ "read-threads": threads }), &engines);
        for run in answer["runs"].as_array().unwrap() {
            for epoch in run["epochs"].as_array().unwrap() {
                assert_eq!(epoch["train"]["samples"], 24, "{run}");
                assert_eq!(epoch["train"]["bytes"], 24 * 4096, "{run}");
            }
            assert_eq!((run["epochs"].as_array().unwrap().len(), &run["complete"]), (2, &json!(true)));
        }
    }
}

#[test]
fn ranks_without_mpi_share_the_samples_and_report_together() {
    let bench = Benchmark::small(json!({ "epochs": 1, "computation-time": 0.001 }));
    for ranks in [2, 4] {
        let (answer, _) = bench.run(json!({}), &["--ranks", &ranks.to_string()]);
        let run = &answer["runs"][0];
        assert_eq!((&run["ranks"], &run["epochs"][0]["train"]["samples"]), (&json!(ranks), &json!(24)));
    }
}

#[test]
fn only_missing_files_are_generated_and_others_stay_as_they_are() {
    let bench = Benchmark::small(json!({ "train": false }));
    bench.run(json!({}), &[]);
    let one = bench.path("data/train/img_3_of_6.h5");
    let before = fs::metadata(bench.path("data/train/img_1_of_6.h5")).unwrap().modified().unwrap();
    let bytes = fs::read(&one).unwrap();
    fs::remove_file(&one).unwrap();
    fs::write(bench.path("data/train/.img_3_of_6.h5.part"), b"half of a file").unwrap();
    bench.run(json!({}), &[]);
    // Before them stand headers, with the time at which the data sets were made.
    assert!(fs::read(&one).unwrap()[2048..] == bytes[2048..], "the same samples again");
    let after = fs::metadata(bench.path("data/train/img_1_of_6.h5")).unwrap().modified().unwrap();
    assert_eq!(before, after);
    assert!(!bench.path("data/train/.img_3_of_6.h5.part").exists());
}

#[test]
fn a_missing_file_a_short_one_and_too_many_steps_are_told_with_what_helps() {
    let bench = Benchmark::small(json!({}));
    bench.run(json!({ "train": false }), &[]);
    let (code, err) = bench.fails(json!({ "generate-data": false, "num-samples-per-file": 5 }), &[]);
    assert!(code == 3 && err.contains("4 records"), "{code} {err}");
    fs::remove_file(bench.path("data/train/img_2_of_6.h5")).unwrap();
    let (code, err) = bench.fails(json!({ "generate-data": false }), &[]);
    assert!(code == 3 && err.contains("img_2_of_6.h5") && err.contains("generate"), "{code} {err}");
    let (code, err) = bench.fails(json!({ "record-length": 1 << 20 }), &[]);
    assert!(code == 2 && err.contains("another data set"), "{code} {err}");
    // A maximum, as h5bench has it.
    let (answer, _) = bench.run(json!({ "total-training-steps": 100 }), &[]);
    assert_eq!(answer["runs"][0]["epochs"][0]["train"]["samples"], 24);
    let (code, err) = bench.fails(json!({ "batch-sise": 4 }), &[]);
    assert!(code == 2 && err.contains("batch-size"), "{code} {err}");
}

#[test]
fn a_data_set_that_is_not_kept_is_removed_after_the_run() {
    let bench = Benchmark::small(json!({ "keep-files": false, "epochs": 1 }));
    bench.run(json!({}), &[]);
    let left: Vec<_> =
        fs::read_dir(bench.path("data/train")).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[test]
fn a_data_set_that_is_not_kept_is_read_by_every_engine_and_each_has_its_own_processor_time() {
    let bench = Benchmark::small(json!({ "keep-files": false, "epochs": 1, "computation-time": 0.05 }));
    let engines = ["--engine", "hdf5", "--engine", "forebay", "--engine", "hdf5", "--compute", "busy"];
    let (answer, _) = bench.run(json!({}), &engines);
    let samples: Vec<_> =
        (0..3).map(|run| answer["runs"][run]["epochs"][0]["train"]["samples"].clone()).collect();
    assert_eq!(samples, [24, 24, 24]);
    assert_eq!(fs::read_dir(bench.path("data/train")).unwrap().count(), 0);
    assert!(!bench.path("data/.generated.json").exists());
    let cpu_s = |name: &str| {
        let text = fs::read_to_string(bench.path("results").join(name).join("report.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["summary"]["cpu_s"].as_f64().unwrap()
    };
    // Twelve steps that keep a processor busy, and of those before them nothing.
    let last = cpu_s("hdf5-2");
    assert!(last < 12.0 * 0.05 + 0.5, "{last} s of processor time");
}

#[test]
fn files_that_were_generated_as_others_are_not_taken_for_those_that_are_asked_for() {
    let bench = Benchmark::small(json!({ "train": false }));
    bench.run(json!({}), &[]);
    for (changes, what) in [
        (json!({ "record-length": 1024 }), "shape of a sample: [64, 64]; asked for is [32, 32]"),
        (json!({ "num-samples-per-file": 2 }), "samples of a file: 4; asked for is 2"),
        (json!({ "chunking": true }), "shape of a chunk: none; asked for is [1, 32, 32]"),
        (json!({ "records-dataset-name": "x" }), "data sets: records; asked for is x"),
    ] {
        let (code, err) = bench.fails(changes, &[]);
        assert!(code == 2 && err.contains(what) && err.contains("another data folder"), "{code} {err}");
    }
    let other = json!({ "record-length": 1024, "generate-data": false, "train": true });
    let (_, notes) = bench.run(other, &[]);
    assert!(notes.contains("samples have 4096 bytes, and the workload says 1024"), "{notes}");
    fs::remove_dir_all(bench.path("data/train")).unwrap();
    fs::remove_dir_all(bench.path("data/valid")).unwrap();
    bench.run(json!({ "record-length": 1024, "train": true }), &[]);
}

#[test]
fn what_was_done_before_a_failure_is_reported() {
    let bench = Benchmark::small(json!({ "epochs": 1 }));
    let mut second = bench.configuration.clone();
    second["generate-data"] = false.into();
    second["data-folder"] = "nowhere".into();
    let entry = |configuration: &Value| json!({ "benchmark": "dlio", "configuration": configuration });
    let suite = json!({ "directory": bench.folder.path(),
                        "benchmarks": [entry(&bench.configuration), entry(&second)] });
    let file = bench.path("two.json");
    fs::write(&file, suite.to_string()).unwrap();
    let output = bench.path("results");
    let mut command = command(&["bench", file.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    let done = command.env("FOREBAY_LIBHDF5", libhdf5()).output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(3) && err.contains("nowhere"), "{err}");
    let report = fs::read_to_string(bench.path("results/report.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["complete"], true);
}

/// Waits until `is_there`, for as long as a slow machine may take.
fn wait_for(is_there: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !is_there() {
        assert!(Instant::now() < until, "it never came");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupt_leaves_a_partial_report_that_says_so() {
    for ranks in ["1", "2"] {
        let bench = Benchmark::small(json!({ "epochs": 1000, "computation-time": 0.05, "read-threads": 1 }));
        let trace = bench.path("trace.pfw.gz");
        let args = ["--ranks", ranks, "--trace", trace.to_str().unwrap()];
        let mut command = bench.command(json!({}), &args);
        // A group of its own, as a shell gives it: the ranks are in it too.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(|| bench.path("trace.pfw.gz.part").exists());
        thread::sleep(Duration::from_millis(1500));
        let group = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
        let done = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(130), "{ranks} ranks: {err}");
        let answer: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{err}"));
        assert_eq!(answer["complete"], false, "{ranks} ranks");
        assert_eq!(answer["runs"][0]["ranks"].to_string(), ranks, "what every rank recorded is there");
        let timings = fs::read_to_string(bench.path("results/report.json")).unwrap();
        let timings = serde_json::from_str::<Value>(&timings).unwrap()["timings"].take();
        assert_eq!(timings["complete"], false);
        assert!(!timings["ranks"][0]["epochs"].as_array().unwrap().is_empty());
    }
}

#[test]
fn an_interrupt_does_not_wait_for_preprocessing_and_counts_no_step_that_it_cut_short() {
    for threads in [0, 2] {
        let bench = Benchmark::small(json!({ "preprocess-time": 1000.0, "read-threads": threads }));
        let trace = bench.path("trace.pfw.gz");
        let mut command = bench.command(json!({}), &["--trace", trace.to_str().unwrap()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(|| bench.path("trace.pfw.gz.part").exists());
        thread::sleep(Duration::from_millis(1500));
        let process = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let (began, done) = (Instant::now(), child.wait_with_output().unwrap());
        assert!(began.elapsed() < Duration::from_secs(300), "{threads} read threads");
        let err = String::from_utf8_lossy(&done.stderr);
        let answer: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{err}"));
        assert_eq!((done.status.code(), &answer["complete"]), (Some(130), &json!(false)), "{err}");
        assert_eq!(answer["runs"][0]["epochs"][0]["train"]["samples"], 0, "{threads} read threads");
    }
}

/// A file whose `dlio` entry stands between two entries that are not run.
fn mixed_suite(bench: &Benchmark) -> PathBuf {
    let write = json!({ "benchmark": "write", "file": "test.h5", "configuration": { "TIMESTEPS": "1" } });
    let read = json!({ "benchmark": "read", "file": "test.h5", "configuration": { "READ_OPTION": "FULL" } });
    let dlio = json!({ "benchmark": "dlio", "configuration": bench.configuration });
    let suite = json!({ "directory": bench.folder.path(), "benchmarks": [write, dlio, read] });
    let file = bench.path("mixed.json");
    fs::write(&file, suite.to_string()).unwrap();
    file
}

#[test]
fn dlio_entries_run_and_each_other_entry_is_an_error_that_names_h5bench() {
    let bench = Benchmark::small(json!({ "epochs": 1 }));
    let file = mixed_suite(&bench);
    let expected = [(1, "write"), (3, "read")].map(|(number, name)| {
        format!(
            "{}: entry {number}: expected \"dlio\", got \"{name}\"; run this entry with h5bench itself",
            file.display()
        )
    });
    for ranks in ["1", "2"] {
        let output = bench.path(ranks);
        let args = ["bench", file.to_str().unwrap(), "--ranks", ranks, "--json", "--output"];
        let mut command = command(&[&args[..], &[output.to_str().unwrap()]].concat());
        let done = command.env("FOREBAY_LIBHDF5", libhdf5()).output().unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(5), "{err}");
        let errors: Vec<&str> = err.lines().filter(|line| line.contains("h5bench itself")).collect();
        assert_eq!(errors, expected.each_ref().map(|text| format!("forebay: {text}")), "{ranks} ranks");
        let answers: Vec<Value> =
            serde_json::Deserializer::from_slice(&done.stdout).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(answers[0]["runs"][0]["epochs"][0]["train"]["samples"], 24, "{answers:?}");
        assert_eq!(answers[0]["complete"], false, "a part of the file was not run");
        let of_entries = expected.each_ref().map(|text| json!({ "error": text, "kind": "Unsupported" }));
        assert_eq!(answers[1..], of_entries);
        let report = fs::read_to_string(output.join("report.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["complete"], true, "the run is whole");
    }
}

#[test]
fn a_run_that_fails_beside_unsupported_entries_gives_its_own_exit_code_and_reports_all() {
    let mut bench = Benchmark::small(json!({}));
    bench.configuration["generate-data"] = false.into();
    let file = mixed_suite(&bench);
    let output = bench.path("results");
    let mut command = command(&["bench", file.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    let done = command.env("FOREBAY_LIBHDF5", libhdf5()).output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{err}");
    assert!(err.contains("entry 1:") && err.contains("entry 3:") && err.contains("img_1_of_6.h5"), "{err}");
}

#[test]
fn an_interrupted_run_beside_unsupported_entries_ends_with_130_and_reports_them() {
    let bench = Benchmark::small(json!({ "epochs": 100_000, "computation-time": 0.05 }));
    let (file, output, trace) = (mixed_suite(&bench), bench.path("results"), bench.path("trace.pfw.gz"));
    let args = [file.as_path(), Path::new("--output"), &output, Path::new("--trace"), &trace];
    let mut command = command(&["bench"]);
    command.args(args).env("FOREBAY_LIBHDF5", libhdf5());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(|| bench.path("trace.pfw.gz.part").exists());
    let process = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(130), "{err}");
    assert!(err.contains("entry 1:") && err.contains("entry 3:"), "{err}");
}

#[test]
fn a_file_of_unsupported_entries_alone_and_a_sweep_over_one_run_nothing() {
    let bench = Benchmark::small(json!({}));
    let output = bench.path("results");
    let run = |head: &[&str], file: &Path| {
        let tail = [file.to_str().unwrap(), "--output", output.to_str().unwrap(), "--ranks", "2"];
        let done = command(&[head, &tail[..]].concat()).output().unwrap();
        assert!(done.stdout.is_empty() && !output.exists());
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let entry = |benchmark: &str| json!({ "benchmark": benchmark, "configuration": {} });
    let suite = json!({ "directory": bench.folder.path(), "benchmarks": [entry("write"), entry("amrex")] });
    let alone = bench.path("alone.json");
    fs::write(&alone, suite.to_string()).unwrap();
    let (code, err) = run(&["bench"], &alone);
    assert!(code == Some(5) && err.contains("entry 1:") && err.contains("got \"amrex\""), "{code:?} {err}");
    assert_eq!(err.lines().count(), 2, "once, not by every rank: {err}");
    let (code, err) = run(&["bench", "sweep", "--axis", "read-threads=0,1"], &mixed_suite(&bench));
    assert!(code == Some(5) && err.contains("entry 1:") && err.contains("h5bench itself"), "{code:?} {err}");
    assert!(!bench.path("data").exists(), "nothing was generated");
}

#[test]
fn results_of_an_earlier_command_are_not_taken_for_those_of_this_one() {
    let bench = Benchmark::small(json!({ "epochs": 1 }));
    bench.run(json!({}), &["--ranks", "2"]);
    assert!(bench.path("results/1_output.json").exists());
    bench.run(json!({}), &[]);
    assert!(!bench.path("results/1_output.json").exists() && bench.path("results/0_output.json").exists());
    let labels = || -> Vec<Value> {
        let folder = bench.path("results");
        let done = command(&["--json", "bench", "compare", folder.to_str().unwrap()]).output().unwrap();
        serde_json::from_slice::<Value>(&done.stdout).unwrap()["runs"].as_array().unwrap().clone()
    };
    assert_eq!(labels().len(), 1);
    bench.run(json!({}), &["--engine", "hdf5", "--engine", "forebay", "--engine", "forebay"]);
    assert_eq!(labels().len(), 3);
    bench.run(json!({}), &["--engine", "hdf5", "--engine", "forebay"]);
    assert_eq!(labels().len(), 2);
    // What the user put there is not the command's.
    let kept = [bench.path("results/hdf5-first"), bench.path("results/old")];
    for folder in &kept {
        fs::create_dir(folder).unwrap();
        fs::copy(bench.path("results/hdf5/report.json"), folder.join("report.json")).unwrap();
    }
    bench.run(json!({}), &["--engine", "hdf5", "--engine", "forebay"]);
    assert!(kept.iter().all(|folder| folder.join("report.json").exists()));
}

#[test]
fn ranks_end_with_the_process_that_started_them_however_it_ends() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let bench = Benchmark::small(json!({ "epochs": 1000, "computation-time": 0.05 }));
        let trace = bench.path("trace.pfw.gz");
        let mut command = bench.command(json!({}), &["--ranks", "2", "--trace", trace.to_str().unwrap()]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_for(|| bench.path("trace.pfw.gz.part").exists());
        // Ranks come to their first step in a fifth of a second, and later on a machine that is busy.
        thread::sleep(Duration::from_secs(3));
        // The process that was started alone, not its group.
        let launcher = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(launcher, signal).unwrap();
        // Their standard output ends with the last of them.
        let done = child.wait_with_output().unwrap();
        let report = fs::read_to_string(bench.path("results/report.json")).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["complete"], false);
        if signal == rustix::process::Signal::TERM {
            assert_eq!(done.status.code(), Some(130), "{}", String::from_utf8_lossy(&done.stderr));
        }
    }
}

#[test]
fn the_folder_of_evaluation_is_there_without_files_as_dlio_lists_it() {
    let bench = Benchmark::small(json!({ "num-files-eval": 0 }));
    bench.run(json!({ "train": false }), &["--layout", "dlio"]);
    let folders = ["train", "valid"].map(|name| bench.path("data").join(name).is_dir());
    assert_eq!(folders, [true, true]);
}

#[test]
fn generated_files_are_what_h5py_expects_of_h5bench_and_dlio() {
    let bench = Benchmark::small(json!({ "train": false, "num-files-train": 2, "num-files-eval": 1 }));
    let script = "
import h5py, json, sys
with h5py.File(sys.argv[1]) as file:
    out = {name: [list(file[name].shape), str(file[name].dtype), file[name].chunks, file[name].compression, int(file[name][:].max())] for name in file}
print(json.dumps(out))";
    let look = |path: &Path| -> Value {
        serde_json::from_str(&python(&["-c", script, path.to_str().unwrap()])).unwrap()
    };
    bench.run(json!({}), &[]);
    let plain = look(&bench.path("data/train/img_1_of_2.h5"));
    assert_eq!(plain["labels"], json!([[4], "int64", null, null, 0]));
    let records = plain["records"].as_array().unwrap();
    assert_eq!(records[..3], [json!([4, 64, 64]), json!("uint8"), Value::Null]);
    assert!(plain["records"][4].as_i64().unwrap() > 200, "random bytes");
    bench.run(
        json!({ "data-folder": "zipped", "chunking": true, "chunk-size": 1024, "compression": true }),
        &[],
    );
    let zipped = look(&bench.path("zipped/train/img_2_of_2.h5"));
    assert_eq!(zipped["records"][2], json!([1, 32, 32]));
    assert_eq!(zipped["records"][3], "gzip");
    bench.run(json!({ "data-folder": "dlio" }), &["--layout", "dlio"]);
    let latest = look(&bench.path("dlio/train/img_0_of_2.hdf5"));
    assert_eq!(latest["records_0"][0], json!([4, 64, 64]));
}
