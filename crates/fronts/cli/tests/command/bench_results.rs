//! What `forebay bench` leaves behind and says, also where something goes wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

use crate::{bench::libhdf5, ran::command};

/// 6 + 2 HDF5 files of 4 samples of 4 KiB, read in batches of 4.
const WORKLOAD: &str = "
framework = \"pytorch\"
[workflow]
generate_data = true
train = true
[dataset]
format = \"hdf5\"
num_files_train = 6
num_files_eval = 2
num_samples_per_file = 4
record_length_bytes = 4096
[reader]
data_loader = \"pytorch\"
batch_size = 4
read_threads = 0
[train]
epochs = 1
";

/// A folder with a workload, where commands run.
struct RunFolder(tempfile::TempDir);

impl RunFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("my.toml"), WORKLOAD).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&[&["bench", "my.toml"], args].concat());
        command.current_dir(self.0.path()).env("FOREBAY_LIBHDF5", libhdf5());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The answer for programs, and what was said besides, of a run that succeeds.
    fn answer(&self, args: &[&str]) -> (Value, String) {
        let done = self.run(&[&["--json", "--output", "out"], args].concat());
        let err = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{err}");
        (serde_json::from_slice(&done.stdout).unwrap(), err)
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }
}

fn texts(done: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code(), text(&done.stdout), text(&done.stderr))
}

#[test]
fn the_console_and_the_report_have_the_same_numbers_of_ranks_of_different_steps() {
    let run = RunFolder::new();
    let steps = ["++workload.train.total_training_steps=5", "++workload.train.steps_of_all_ranks=true"];
    let (answer, _) = run.answer(&[&steps[..], &["--ranks", "2"]].concat());
    let told = &answer["runs"][0]["epochs"][0]["train"];
    let written = &run.json("out/report.json")["summary"]["train"]["epochs"][0];
    assert_eq!((&told["steps"], &told["samples"]), (&3.into(), &20.into()));
    for (told_as, written_as) in [
        ("steps", "steps"),
        ("samples", "samples"),
        ("bytes", "bytes"),
        ("seconds", "seconds"),
        ("samples_per_second", "samples_per_s"),
        ("read_seconds", "read_s"),
        ("metadata_seconds", "metadata_s"),
    ] {
        assert_eq!(told[told_as], written[written_as], "{told_as}");
    }
}

#[test]
fn each_engine_has_a_trace_of_its_own_and_the_first_is_compared_with() {
    let run = RunFolder::new();
    run.answer(&["--engine", "hdf5", "--engine", "forebay", "--trace", "trace.pfw.gz", "--digest"]);
    let mut traces: Vec<_> =
        fs::read_dir(run.path(".")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    traces.retain(|name| name.to_string_lossy().starts_with("trace"));
    traces.sort();
    assert_eq!(traces, ["trace-forebay.pfw.gz", "trace-hdf5.pfw.gz"]);
    let done = command(&["--json", "bench", "compare", run.path("out").to_str().unwrap()]).output().unwrap();
    let compared: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(compared["runs"][0].to_string().contains("hdf5"), "{compared}");
    assert!(!run.path("data/.generating").exists());
}

#[test]
fn results_come_before_what_cannot_be_written() {
    let run = RunFolder::new();
    for engine in ["forebay", "hdf5"] {
        let (code, out, err) =
            texts(&run.run(&["--engine", engine, "--output", "out", "--log-vfd", "/dev/full"]));
        assert!(
            code == Some(7) && err.contains("/dev/full") && out.contains("epoch 1: 24 samples"),
            "{out} {err}"
        );
        assert_eq!(run.json("out/report.json")["complete"], true);
    }
    // Something else has the name of a result.
    fs::create_dir_all(run.path("other/summary.json")).unwrap();
    let (code, out, err) = texts(&run.run(&["--output", "other"]));
    assert!(
        code != Some(0) && err.contains("summary.json") && out.contains("epoch 1: 24 samples"),
        "{out} {err}"
    );
}

#[test]
fn a_checkpoint_that_fails_leaves_what_was_measured_before_it() {
    let run = RunFolder::new();
    fs::create_dir(run.path("checkpoints")).unwrap();
    fs::write(run.path("checkpoints/global_epoch2_step6"), "no folder").unwrap();
    let overrides = ["++workload.workflow.checkpoint=true", "++workload.train.epochs=3"];
    let (code, out, err) = texts(&run.run(&[&overrides[..], &["--output", "out"]].concat()));
    assert!(code.is_some_and(|code| code > 0) && err.contains("global_epoch2_step6"), "{code:?} {err}");
    assert!(out.contains("failed: what follows is a part") && out.contains("epoch 2: 24 samples"), "{out}");
    let report = run.json("out/report.json");
    assert_eq!(
        (&report["complete"], report["timings"]["ranks"][0]["epochs"].as_array().unwrap().len()),
        (&false.into(), 2)
    );
}

#[test]
fn epochs_without_steps_are_told() {
    let run = RunFolder::new();
    let (_, notes) = run.answer(&["++workload.reader.batch_size=100"]);
    assert!(notes.contains("training has no steps") && notes.contains("24 samples of 6 files"), "{notes}");
    let (_, notes) = run.answer(&["--like-dlio"]);
    assert!(notes.contains("training has no steps") && notes.contains("0 samples of 0 files"), "{notes}");
    let (_, notes) = run.answer(&[]);
    assert!(!notes.contains("no steps"), "{notes}");
}

#[test]
fn short_batches_of_tensorflow_count_as_what_they_are() {
    let run = RunFolder::new();
    let overrides = ["++workload.framework=tensorflow", "++workload.reader.data_loader=tensorflow"];
    let (answer, _) = run.answer(&[&overrides[..], &["++workload.reader.read_threads=8"]].concat());
    let epoch = &answer["runs"][0]["epochs"][0]["train"];
    assert_eq!(
        (&epoch["steps"], &epoch["samples"], &epoch["bytes"]),
        (&6.into(), &18.into(), &(18 * 4096).into())
    );
    let csv = fs::read_to_string(run.path("out/output.csv")).unwrap();
    assert!(csv.contains("72.000, KB"), "{csv}");
}

#[test]
fn a_part_of_a_larger_data_set_is_read_as_dlio_does() {
    let run = RunFolder::new();
    run.answer(&["++workload.workflow.train=false"]);
    let read = ["++workload.workflow.generate_data=false", "++workload.dataset.num_files_train=4"];
    for engine in ["hdf5", "forebay"] {
        let (answer, _) = run.answer(&[&read[..], &["--engine", engine]].concat());
        assert_eq!(answer["runs"][0]["epochs"][0]["train"]["samples"], 16, "{engine}");
    }
    let more = ["++workload.workflow.generate_data=false", "++workload.dataset.num_files_train=7"];
    let (code, _, err) = texts(&run.run(&more));
    assert!(
        code == Some(3) && err.contains("7 of 7 files are missing") && !err.contains("--generate"),
        "{err}"
    );
    assert_eq!(
        fs::read_dir(run.path("forebay-bench/default")).unwrap().count(),
        0,
        "no folder without results"
    );
}

#[test]
fn a_truncated_file_is_told_as_such_and_staged_checkpoints_are_recorded() {
    let run = RunFolder::new();
    let staged = ["++workload.workflow.checkpoint=true", "--stage", "stage"];
    run.answer(&staged);
    assert_eq!(run.json("out/report.json")["timings"]["workload"]["checkpoint"]["staged"], true);
    let file = fs::File::options().write(true).open(run.path("data/train/img_2_of_6.hdf5")).unwrap();
    file.set_len(3000).unwrap();
    for threads in ["0", "1"] {
        let threads = format!("++workload.reader.read_threads={threads}");
        let done = run.run(&["++workload.workflow.generate_data=false", &threads, "--engine", "hdf5"]);
        let (_, _, err) = texts(&done);
        assert!(err.contains("img_2_of_6.hdf5") && err.contains("truncated"), "{err}");
    }
}
