//! `forebay bench` on every format, with checkpoints, tiers and sweeps, and what it says when something goes wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{bench::libhdf5, ran::command};

/// A workload in DLIO's form: four files of three samples of 4096 bytes, batches of two, two epochs.
const WORKLOAD: &str = "
model: {name: small, model_size_bytes: 1000000}
framework: pytorch
workflow: {generate_data: True, train: True}
dataset: {data_folder: data, format: npz, num_files_train: 4, num_samples_per_file: 3, record_length_bytes: 4096}
reader: {data_loader: pytorch, batch_size: 2, read_threads: 2}
train: {epochs: 2, computation_time: 0.0}
checkpoint: {checkpoint_folder: checkpoints}
";

struct Workload {
    folder: tempfile::TempDir,
}

impl Workload {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("small.yaml"), WORKLOAD).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The command with overrides, of which `workload.` is left out, and flags.
    fn command(&self, words: &[&str]) -> Command {
        let changes = words.iter().map(|word| match word.strip_prefix("++") {
            Some(change) => format!("++workload.{change}"),
            None => (*word).to_owned(),
        });
        let output = self.path("results").display().to_string();
        let mut all = vec!["--json".to_owned(), "bench".into(), "small.yaml".into()];
        all.extend(changes);
        all.extend(["--output".to_owned(), output]);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut command = command(&all);
        command.current_dir(self.folder.path());
        command
    }

    fn run(&self, words: &[&str]) -> Value {
        let done = self.command(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", said(&done));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    fn fails(&self, words: &[&str]) -> (i32, String) {
        let done = self.command(words).output().unwrap();
        (done.status.code().unwrap_or(-1), said(&done))
    }

    fn report(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path("results/report.json")).unwrap()).unwrap()
    }
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

fn python(script: &str, folder: &Path) -> String {
    let python = std::env::var_os("FOREBAY_PYTHON").unwrap_or_else(|| "python3".into());
    let done = Command::new(python).args(["-c", script]).current_dir(folder).output();
    let done = done.expect("FOREBAY_PYTHON is a Python");
    assert!(done.status.success(), "{}", said(&done));
    String::from_utf8(done.stdout).unwrap()
}

/// All files below `folder`.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

const FORMATS: [&str; 9] =
    ["npz", "npy", "tfrecord", "csv", "jpeg", "png", "indexed_binary", "netcdf", "zarr"];

/// Pictures are a sample for each file.
fn samples_per_file(format: &str) -> u64 {
    if ["jpeg", "png"].contains(&format) { 1 } else { 3 }
}

#[test]
fn engine_forebay_reads_every_format_that_is_generated() {
    for format in FORMATS {
        let bench = Workload::new();
        let samples = samples_per_file(format);
        for threads in [0, 2] {
            let answer = bench.run(&[
                &format!("++dataset.format={format}"),
                &format!("++dataset.num_samples_per_file={samples}"),
                &format!("++reader.read_threads={threads}"),
            ]);
            for epoch in answer["runs"][0]["epochs"].as_array().unwrap() {
                assert_eq!(epoch["train"]["samples"], 4 * samples, "{format}, {threads} threads");
                assert_eq!(epoch["train"]["bytes"], 4 * samples * 4096, "{format}, {threads} threads");
            }
        }
    }
}

#[test]
fn samples_whose_sizes_differ_from_file_to_file_are_read_too() {
    for format in FORMATS {
        let bench = Workload::new();
        let answer = bench.run(&[
            &format!("++dataset.format={format}"),
            &format!("++dataset.num_samples_per_file={}", samples_per_file(format)),
            "++dataset.record_length_bytes_stdev=1500",
            "++dataset.record_length_bytes_resize=2048",
            "++reader.sample_shuffle=seed",
        ]);
        let train = &answer["runs"][0]["epochs"][1]["train"];
        assert_eq!(train["samples"], 4 * samples_per_file(format), "{format}");
        let even = 4 * samples_per_file(format) * 4096;
        assert!(train["bytes"] != even && train["bytes"].as_u64().unwrap() > even / 4, "{format}: {train}");
    }
}

#[test]
fn what_an_engine_does_not_read_is_refused_with_what_would_be() {
    let bench = Workload::new();
    let (code, err) = bench.fails(&["--engine", "hdf5"]);
    assert!(
        code == 5
            && err.contains("engine hdf5 reads no files of format npz")
            && err.contains("--engine forebay"),
        "{code} {err}"
    );
    let (code, err) = bench.fails(&["++dataset.format=png"]);
    assert!(code == 2 && err.contains("num_samples_per_file"), "{code} {err}");
    let answer = bench.run(&["++dataset.format=synthetic"]);
    assert_eq!(answer["runs"][0]["epochs"][0]["train"]["samples"], 12, "no input at all");
}

#[test]
fn checkpoints_are_loaded_by_torch_and_have_dlios_payload() {
    let bench = Workload::new();
    bench.run(&["++workflow.checkpoint=True", "++checkpoint.fsync=True"]);
    let script = "
import glob, zipfile
paths = sorted(glob.glob('checkpoints/*/model_states-0.pt'))
assert [path.split('/')[1] for path in paths] == ['global_epoch1_step6', 'global_epoch2_step6'], paths
for path in paths:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and archive.getinfo('archive/data/0').file_size == 1000000
try:
    import torch
except ImportError:
    raise SystemExit
state = torch.load(paths[0])
assert state['a'].dtype == torch.int8 and state['a'].shape == (1000000,)
";
    python(script, bench.folder.path());
    let report = bench.report();
    assert_eq!(report["summary"]["save"]["bytes"], 1_000_000);
    assert_eq!(report["summary"]["save"]["count"], 2);
}

/// A transformer under ZeRO 3 on two ranks, saved and loaded alone.
const SHARDED: [&str; 14] = [
    "++workflow.generate_data=False",
    "++workflow.train=False",
    "++workflow.checkpoint=True",
    "++model.type=transformer",
    "++model.num_layers=2",
    "++model.parallelism.zero_stage=3",
    "++model.transformer.hidden_size=128",
    "++model.transformer.ffn_hidden_size=256",
    "++model.transformer.vocab_size=1000",
    "++model.transformer.num_attention_heads=8",
    "++model.transformer.num_kv_heads=8",
    "++checkpoint.num_checkpoints_write=2",
    "++checkpoint.num_checkpoints_read=2",
    "--ranks=2",
];

#[test]
fn shards_are_saved_and_loaded_directly_and_through_a_staging_area() {
    for staged in [false, true] {
        let bench = Workload::new();
        let stage = bench.path("stage").display().to_string();
        let more: &[&str] = if staged { &["--stage", &stage] } else { &[] };
        bench.run(&[&SHARDED[..], more].concat());
        let summary = bench.report()["summary"].take();
        assert_eq!(
            (&summary["save"]["count"], &summary["load"]["count"]),
            (&2.into(), &2.into()),
            "{staged}"
        );
        assert_eq!(summary["save"]["bytes"], summary["load"]["bytes"]);
        let names: Vec<String> = files_below(&bench.path("checkpoints/global_epoch1_step2"))
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names.iter().all(|name| name.ends_with("_states.pt")), "nothing but whole files: {names:?}");
        python(
            "import glob, zipfile\nfor path in glob.glob('checkpoints/*/*.pt'): assert zipfile.ZipFile(path).testzip() is None",
            bench.folder.path(),
        );
    }
}

#[test]
fn a_checkpoint_that_was_cut_off_is_told_when_it_is_loaded() {
    let bench = Workload::new();
    let alone = ["++workflow.generate_data=False", "++workflow.train=False", "++workflow.checkpoint=True"];
    bench.run(&[&alone[..], &["++checkpoint.num_checkpoints_write=1"]].concat());
    let path = bench.path("checkpoints/global_epoch1_step1/model_states-0.pt");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let load = ["++checkpoint.num_checkpoints_write=0", "++checkpoint.num_checkpoints_read=1"];
    let (code, err) = bench.fails(&[&alone[..], &load].concat());
    assert!(code == 4 && err.contains("model_states-0.pt") && err.contains("save it anew"), "{code} {err}");
    fs::remove_file(&path).unwrap();
    let (code, err) = bench.fails(&[&alone[..], &load].concat());
    assert!(code == 3 && err.contains("model_states-0.pt"), "{code} {err}");
}

#[test]
fn hits_of_tiers_are_in_the_report() {
    let bench = Workload::new();
    bench.run(&["++workflow.train=False"]);
    // Files that changed just now are not copied to tiers: another change might not show in their times.
    thread::sleep(Duration::from_millis(2200));
    bench.run(&["--tier", "memory:64MiB", "++train.epochs=3"]);
    let summary = bench.report()["summary"].take();
    let tiers = summary["tiers"].as_array().unwrap();
    assert!(tiers.len() >= 2 && tiers.last().unwrap()["tier"] == "origin", "{tiers:?}");
    let ratios: Vec<f64> = summary["train"]["epochs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|epoch| epoch["hit_ratio"].as_f64())
        .collect();
    assert_eq!((ratios.len(), ratios[2]), (3, 1.0), "{ratios:?}: the third epoch is read from memory");
    let page = fs::read_to_string(bench.path("results/report.html")).unwrap();
    assert!(page.contains("Tier hit ratio per epoch") && page.contains("Bytes served by each tier"));
}

#[test]
fn a_sweep_has_files_of_its_own_for_each_size_and_plots_over_every_axis() {
    let bench = Workload::new();
    let args = ["++train.epochs=1", "--axis=sample-size=1KiB,4KiB", "--axis=read-threads=0,2"];
    let args = args.map(|arg| arg.replace("++", "++workload."));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = command(&[&["bench", "sweep", "small.yaml"], &args[..], &["--output", "swept"]].concat())
        .current_dir(bench.folder.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", said(&done));
    let csv = fs::read_to_string(bench.path("swept/sweep.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5, "{csv}");
    let folders = ["sample-size-1KiB", "sample-size-4KiB"].map(|name| bench.path("data").join(name));
    assert!(folders.iter().all(|folder| files_below(&folder.join("train")).len() == 4), "{csv}");
    let page = fs::read_to_string(bench.path("swept/sweep.html")).unwrap();
    for heading in ["Throughput over sample-size", "Throughput over read-threads"] {
        assert!(page.contains(heading), "{heading}");
    }
    let wrong =
        command(&["bench", "sweep", "small.yaml", "--axis=dataset.formt=npz,npy", "--output", "none"])
            .current_dir(bench.folder.path())
            .output()
            .unwrap();
    assert!(wrong.status.code() == Some(2) && said(&wrong).contains("format"), "{}", said(&wrong));
    assert!(!bench.path("none").exists(), "nothing is run before all configurations are read");
}

#[test]
fn runs_of_both_engines_are_compared_by_their_folder() {
    let bench = Workload::new();
    bench.run(&["--engine", "forebay", "--engine", "forebay"]);
    let done = command(&["bench", "compare", "results", "--html", "both.html"])
        .current_dir(bench.folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.contains("throughput") && text.contains('x'), "{text}");
    assert!(fs::read_to_string(bench.path("both.html")).unwrap().contains("2 runs compared"));
}

/// Waits until `is_there`, for as long as a slow machine may take.
fn wait_for(is_there: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !is_there() {
        assert!(Instant::now() < until, "it never came");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Interrupts `command` once `is_time`, and gives what it left.
fn interrupted(mut command: Command, is_time: impl Fn() -> bool) -> Output {
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for(is_time);
    let group = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn an_interrupt_while_files_are_generated_leaves_whole_files_and_the_next_run_goes_on() {
    let bench = Workload::new();
    let many =
        ["++dataset.num_files_train=20000", "++dataset.num_samples_per_file=1", "++workflow.train=False"];
    let folder = bench.path("data/train");
    let done = interrupted(bench.command(&many), || files_below(&folder).len() > 20);
    assert_eq!(done.status.code(), Some(130), "{}", said(&done));
    assert_eq!(bench.report()["complete"], false);
    let whole = files_below(&folder);
    assert!(whole.len() < 20000, "it ended early");
    let is_part = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "part");
    assert_eq!(whole.iter().filter(|path| is_part(path)).count(), 0, "nothing half-written");
}

#[test]
fn indexes_go_with_the_files_of_a_data_set_that_is_not_kept() {
    for format in ["indexed_binary", "tfrecord"] {
        let bench = Workload::new();
        let format = format!("++dataset.format={format}");
        bench.run(&[&*format, "++dataset.keep_files=False", "++train.epochs=1"]);
        let left = files_below(&bench.path("data"));
        assert!(left.iter().all(|path| path.ends_with(".generating")), "{left:?}");
    }
}

#[test]
fn scikit_learn_reads_all_samples_before_the_first_step_and_none_again() {
    let bench = Workload::new();
    bench.run(&["++framework=sklearn", "++reader.sample_shuffle=seed", "++reader.read_threads=4"]);
    let epochs = bench.report()["timings"]["ranks"][0]["epochs"].take();
    let sums = |epoch: usize, key: &str| -> f64 {
        let steps = epochs[epoch]["blocks"][0]["steps"].as_array().unwrap();
        steps.iter().map(|step| step[key].as_f64().unwrap()).sum()
    };
    assert_eq!([0, 1].map(|epoch| sums(epoch, "samples")), [12.0, 12.0]);
    assert_eq!([0, 1].map(|epoch| sums(epoch, "bytes")), [12.0 * 4096.0; 2]);
    assert!(sums(0, "read_s") > 0.0 && sums(1, "read_s") == 0.0, "{epochs}");
    let loads = |step: usize| epochs[0]["blocks"][0]["steps"][step]["load_s"].as_f64().unwrap();
    assert!((1..6).all(|step| loads(step) < loads(0)), "{epochs}");
}

/// DLIO's own configuration of DLRM has as many samples, in one file.
const BILLIONS: [&str; 6] = [
    "++workflow.generate_data=False",
    "++dataset.num_files_train=1",
    "++dataset.num_samples_per_file=4195198976",
    "++reader.sample_shuffle=random",
    "++reader.batch_size=2048",
    "++train.total_training_steps=32768",
];

#[test]
fn a_missing_file_is_told_before_billions_of_samples_are_shuffled() {
    let bench = Workload::new();
    let began = Instant::now();
    let (code, err) = bench.fails(&[&BILLIONS[..], &["++dataset.format=indexed_binary"]].concat());
    assert!(code == 3 && err.contains("1 of 1 files are missing"), "{code} {err}");
    assert!(began.elapsed() < Duration::from_secs(300));
}

#[test]
fn an_interrupt_does_not_wait_for_a_shuffle_of_billions() {
    let bench = Workload::new();
    let (began, results) = (Instant::now(), bench.path("results"));
    let command = bench.command(&[&BILLIONS[..], &["++dataset.format=synthetic"]].concat());
    let done = interrupted(command, || results.exists() && began.elapsed() > Duration::from_secs(1));
    assert_eq!(done.status.code(), Some(130), "{}", said(&done));
    assert_eq!(bench.report()["complete"], false);
    assert!(began.elapsed() < Duration::from_secs(300));
}

#[test]
fn an_interrupt_while_a_checkpoint_is_saved_leaves_no_half_of_it() {
    let bench = Workload::new();
    let words = [
        "++workflow.generate_data=False",
        "++workflow.train=False",
        "++workflow.checkpoint=True",
        "++model.model_size_bytes=64000000",
        "++checkpoint.num_checkpoints_write=2000",
    ];
    let folder = bench.path("checkpoints");
    let done = interrupted(bench.command(&words), || files_below(&folder).len() > 2);
    assert_eq!(done.status.code(), Some(130), "{}", said(&done));
    let left = files_below(&folder);
    assert!(left.iter().all(|path| path.extension().is_some_and(|extension| extension == "pt")), "{left:?}");
    let report = bench.report();
    assert_eq!(report["complete"], false);
    assert_eq!(report["summary"]["save"]["count"], left.len(), "all that were saved, and no other");
}

#[test]
fn an_interrupted_sweep_keeps_what_was_done_and_says_so() {
    let bench = Workload::new();
    let args = [
        "--json",
        "bench",
        "sweep",
        "small.yaml",
        "++workload.train.epochs=1",
        "++workload.train.computation_time=0.2",
    ];
    let axis = ["--axis", "batch-size=1,2,3,4,6,12", "--output", "swept"];
    let mut command = command(&[&args[..], &axis].concat());
    command.current_dir(bench.folder.path());
    let first = bench.path("swept/point-1/report.json");
    let done = interrupted(command, || first.exists());
    assert_eq!(done.status.code(), Some(130), "{}", said(&done));
    let page = fs::read_to_string(bench.path("swept/sweep.html")).unwrap();
    assert!(page.contains("interrupted: ") && page.contains("of 6 points"));
    assert!(fs::read_to_string(bench.path("swept/sweep.csv")).unwrap().lines().count() >= 2);
}

/// A file system of a few megabytes, where tests may make one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(folder: &Path) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder).output();
        mounted.is_ok_and(|done| done.status.success()).then(|| Self(folder.to_owned()))
    }

    fn resize(&self, size: &str) {
        let size = format!("remount,size={size}");
        let done = Command::new("mount").args(["-o", &size]).arg(&self.0).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_is_told_and_nothing_half_written_stays() {
    let bench = Workload::new();
    let Some(disk) = SmallDisk::new(&bench.path("disk")) else { return };
    let full = |words: &[&str]| {
        let (code, err) = bench.fails(words);
        assert!(code == 7 && err.contains("disk/"), "{words:?}: {code} {err}");
        let left = files_below(&disk.0);
        let is_part = |path: &&PathBuf| path.to_string_lossy().ends_with(".part");
        assert_eq!(left.iter().find(is_part), None, "{words:?}");
        for path in left {
            fs::remove_file(path).unwrap();
        }
    };
    for format in ["npz", "npy", "tfrecord", "csv", "png", "jpeg", "indexed_binary", "netcdf", "zarr"] {
        let samples = format!("++dataset.num_samples_per_file={}", samples_per_file(format));
        let format = format!("++dataset.format={format}");
        full(&[
            "++dataset.data_folder=disk/data",
            &format,
            &samples,
            "++dataset.record_length_bytes=3000000",
        ]);
    }
    let checkpoint = [
        "++workflow.checkpoint=True",
        "++checkpoint.checkpoint_folder=disk/saved",
        "++model.model_size_bytes=8000000",
    ];
    full(&[&checkpoint[..], &["++train.epochs=1"]].concat());
}

#[test]
fn hdf5_files_that_a_full_disk_had_no_room_for_are_written_once_there_is_room() {
    let bench = Workload::new();
    let Some(disk) = SmallDisk::new(&bench.path("disk")) else { return };
    let library = libhdf5();
    let run = |words: &[&str]| bench.command(words).env("FOREBAY_LIBHDF5", &library).output().unwrap();
    let ways: [&[&str]; 3] = [&[], &["++dataset.chunking=True"], &["++dataset.compression=gzip"]];
    for way in ways {
        let words = [
            "++dataset.data_folder=disk/data",
            "++dataset.format=hdf5",
            "++dataset.num_samples_per_file=2",
            "++dataset.record_length_bytes=700000",
            "++workflow.train=False",
        ];
        let words = [&words[..], way].concat();
        let full = run(&words);
        let (code, err) = (full.status.code(), said(&full));
        assert!(
            code == Some(7) && err.contains("disk/data/train/img_") && err.contains("no space is left"),
            "{code:?} {err}"
        );
        let written = files_below(&disk.0.join("data/train"));
        assert!(
            (1..4).contains(&written.len()),
            "{way:?}: those that fit, and no part of others: {written:?}"
        );
        let times: Vec<_> = written.iter().map(|path| path.metadata().unwrap().modified().unwrap()).collect();
        disk.resize("16m");
        let train = [&words[..], &["++workflow.train=True"]].concat();
        for words in [&words, &train] {
            let done = run(words);
            assert!(done.status.success(), "{words:?}: {}", said(&done));
        }
        assert_eq!(files_below(&disk.0.join("data/train")).len(), 4, "{way:?}");
        let now: Vec<_> = written.iter().map(|path| path.metadata().unwrap().modified().unwrap()).collect();
        assert_eq!(now, times, "{way:?}: whole files are not written anew");
        fs::remove_dir_all(disk.0.join("data")).unwrap();
        disk.resize("4m");
    }
}

#[test]
fn fewer_files_than_asked_are_counted_and_named() {
    let bench = Workload::new();
    bench.run(&["++workflow.train=False"]);
    let (code, err) = bench.fails(&["++workflow.generate_data=False", "++dataset.num_files_train=6"]);
    assert!(
        code == 3 && err.contains("6 of 6 files are missing"),
        "names have the count in them: {code} {err}"
    );
    fs::remove_file(bench.path("data/train/img_1_of_4.npz")).unwrap();
    let (code, err) = bench.fails(&["++workflow.generate_data=False"]);
    assert!(
        code == 3 && err.contains("1 of 4 files are missing") && err.contains("img_1_of_4.npz"),
        "{code} {err}"
    );
    let (code, err) = bench.fails(&["++reader.batch_sise=1"]);
    assert!(code == 2 && err.contains("batch_size"), "{code} {err}");
    let (code, err) = bench.fails(&["++dataset.format=npx"]);
    assert!(code == 2 && err.contains("did you mean 'npy'?"), "{code} {err}");
}
