//! `forebay load`.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    ran::{command, out, run},
    written::{SETS, Written},
};

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&out(&[args, &["--json"]].concat())).unwrap()
}

/// How often each line stands in the file.
fn lines(path: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// Every sample of every epoch, once.
fn each_once(epochs: u64, samples: u64) -> BTreeMap<String, usize> {
    (0..epochs).flat_map(|epoch| (0..samples).map(move |sample| (format!("{epoch} {sample}"), 1))).collect()
}

#[test]
fn figures_are_those_h5py_has_of_the_files() {
    let set = Written::by(SETS);
    let facts = &set.facts;
    let number = |name: &str| facts[name].as_u64().unwrap();
    let paths = [set.path("train_0.h5"), set.path("train_1.h5")];
    let args = ["load", &paths[0], &paths[1], "--field", "image", "--label", "label", "--batch", "16"];
    for shuffle in ["full", "block", "none"] {
        let answer = json(&[&args[..], &["--epochs", "2", "--shuffle", shuffle, "--seed", "3"]].concat());
        assert_eq!((&answer["samples"], &answer["file_count"]), (&facts["count"], &2.into()));
        let first = &answer["epochs"][0];
        assert_eq!(first["samples"], facts["count"], "{shuffle}");
        assert_eq!(first["batches"], number("count").div_ceil(16));
        assert_eq!(first["delivered_bytes"], number("images") + number("labels"));
        assert_eq!(first["decoded_units"], facts["chunks"]);
        assert_eq!(first["read_bytes"], number("stored") + number("labels"));
        assert_eq!((&first["complete"], &answer["interrupted"]), (&true.into(), &false.into()));
        let second = &answer["epochs"][1];
        assert_eq!((&second["epoch"], &second["decoded_units"]), (&1.into(), &0.into()), "all is kept");
    }
}

#[test]
fn fields_are_renamed_cast_ragged_whole_or_of_many_rows() {
    let set = Written::by(SETS);
    let number = |name: &str| set.facts[name].as_u64().unwrap();
    let train = set.path("train_0.h5");
    let cast = json(&["load", &set.path("train_*.h5"), "--field", "x=image:float16"]);
    assert_eq!(
        cast["fields"][0],
        serde_json::json!({ "name": "x", "dtype": "<f2", "sample_shape": [16, 16] })
    );
    assert_eq!(cast["epochs"][0]["delivered_bytes"], number("images") / 2);

    let graphs = set.path("graphs.h5");
    let ragged = ["--field", "pos", "--field", "z", "--label", "y", "--samples", "ragged:ptr"];
    let answer = json(&[&["load", &graphs], &ragged[..]].concat());
    assert_eq!((&answer["samples"], &answer["epochs"][0]["samples"]), (&60.into(), &60.into()));
    assert_eq!(answer["epochs"][0]["delivered_bytes"], set.facts["graph_bytes"]);
    assert_eq!(answer["fields"][0]["sample_shape"], serde_json::json!([null, 3]));

    let whole = json(&["load", &train, "--field", "image", "--samples", "whole"]);
    assert_eq!((&whole["samples"], &whole["epochs"][0]["batches"]), (&1.into(), &1.into()));
    let five = json(&["load", &train, "--samples", "fixed:5", "--batch", "7"]);
    assert_eq!((&five["samples"], &five["epochs"][0]["batches"]), (&30.into(), &5.into()));
}

#[test]
fn without_fields_all_that_fit_are_taken_and_named() {
    let set = Written::by(SETS);
    let text = out(&["load", &set.path("train_0.h5"), "--batch", "50"]);
    for line in [
        "150 samples in 1 file, 151.2 KiB\n",
        "  image <f4 (16, 16)\n  label <i8 ()\n",
        "  no --field was given: these are all with as many rows as image (150)\n",
        "epoch 0: 150 samples in ",
        "  per byte used: 0.",
        "; 19 units decoded, 0 of them again\n",
        " limit",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let graphs = json(&["load", &set.path("graphs.h5"), "--samples", "ragged:ptr", "--label", "y"]);
    let names: Vec<_> = graphs["fields"].as_array().unwrap().iter().map(|field| &field["name"]).collect();
    assert_eq!(names, ["pos", "z", "y"]);
}

#[test]
fn three_ranks_with_padding_have_every_sample_once_and_as_many_batches() {
    let set = Written::by(SETS);
    for shuffle in ["full", "block", "none"] {
        let list = |rank: usize| set.path(&format!("{shuffle}-{rank}.txt"));
        let mut all = BTreeMap::new();
        let mut delivered = Vec::new();
        for rank in 0..3 {
            let (number, list) = (rank.to_string(), list(rank));
            let answer = json(&[
                "load",
                &set.path("train_*.h5"),
                "--batch",
                "16",
                "--world",
                "3",
                "--rank",
                &number,
                "--tail",
                "pad",
                "--shuffle",
                shuffle,
                "--lanes",
                "6",
                "--list",
                &list,
            ]);
            all.extend(lines(&list));
            delivered.push(answer["epochs"][0].clone());
        }
        assert_eq!(all, each_once(1, 235), "{shuffle}");
        assert!(delivered.iter().all(|epoch| epoch["batches"] == 5), "{shuffle}");
        let samples: u64 = delivered.iter().map(|epoch| epoch["samples"].as_u64().unwrap()).sum();
        assert_eq!(samples, 235, "{shuffle}");
    }
}

/// Starts a run of two epochs that takes a while, interrupts it, and gives what it said.
fn interrupted(args: &[&str], list: &str) -> (Option<i32>, serde_json::Value, Duration) {
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    // The list is written through once the state is saved, after a second.
    while fs::metadata(list).map_or(true, |facts| facts.len() == 0) {
        assert!(began.elapsed() < Duration::from_secs(240) && child.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(20));
    }
    let sent = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    let took = sent.elapsed();
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    (done.status.code(), serde_json::from_slice(&done.stdout).unwrap(), took)
}

#[test]
fn an_interrupted_run_goes_on_and_delivers_every_sample_once() {
    let set = Written::by(SETS);
    let (state, list, train) = (set.path("run.json"), set.path("list.txt"), set.path("train_*.h5"));
    let args = [
        "load", &train, "--batch", "8", "--epochs", "2", "--seed", "5", "--state", &state, "--list", &list,
        "--json",
    ];
    // The run would last 24 s: one that ends within 15 was interrupted at once, also on a machine that is busy.
    let slow = [&args[..], &["--compute-ms", "400"]].concat();
    let (code, answer, took) = interrupted(&slow, &list);
    assert_eq!((code, &answer["interrupted"]), (Some(130), &true.into()), "{answer}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    let before = lines(&list);
    assert!(!before.is_empty() && before.len() < 470, "{}", before.len());
    let last = answer["epochs"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["complete"], false);

    // More threads make no difference to what is left.
    let rest = json(&[&args[..12], &["--read-threads", "3"]].concat());
    assert_eq!((&rest["resumed"], &rest["interrupted"]), (&true.into(), &false.into()));
    assert_eq!(lines(&list), each_once(2, 235));

    let nothing = out(&args[..12]);
    assert!(
        nothing.contains("goes on from ") && nothing.contains("nothing is left of 2 epochs"),
        "{nothing}"
    );
    assert_eq!(lines(&list), each_once(2, 235));
}

/// Runs the command, which must fail with `code` and say `text`.
fn fails(args: &[&str], code: i32, text: &str) {
    let ran = run(args);
    assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
    assert!(ran.err.contains(text), "{args:?}: {}", ran.err);
    assert!(!ran.err.contains("panicked"), "{args:?}: {}", ran.err);
}

#[test]
fn errors_have_their_exit_codes_and_say_what_helps() {
    let set = Written::by(SETS);
    let train = set.path("train_0.h5");
    let fails = |args: &[&str], code, text: &str| fails(&[&["load", &train], args].concat(), code, text);
    fails(&["--field", "imaeg"], 3, "did you mean 'image'?");
    fails(&["--field", "names:float32"], 2, "text is no number that can be cast");
    fails(&["--field", "mean"], 2, "a scalar has no samples");
    fails(&["--field", "image", "--field", "image"], 2, "two fields are called 'image'");
    fails(&["--samples", "fixed:7"], 2, "150 rows are no whole number of samples of 7");
    fails(&["--samples", "some"], 2, "fixed:ROWS");
    fails(&["--memory", "64 apples"], 2, "look like 64MiB");
    fails(&["--memory", "1KiB"], 7, "memory=1024 is");
    fails(&["--world", "3"], 2, "set tail='drop', 'pad' or 'wrap'");
    fails(
        &["--world", "5", "--tail", "pad", "--shuffle", "block"],
        2,
        "lanes=48 does not divide among 5 ranks",
    );
    fails(&["--rank", "1"], 2, "rank=1 with world=1");
    fails(&["--compute-ms", "soon"], 2, "--compute-ms");
    fails(&["--list", "/nowhere/list.txt"], 3, "/nowhere/list.txt");
    fails(&["--state", "/nowhere/state.json"], 3, "/nowhere/state.json");
    fails(&["--list", "/dev/full"], 7, "/dev/full: ");
    fails(&["--state", "/dev/full"], 2, "is not the state of a run");
    let other = set.path("other.json");
    fs::write(&other, "{}").unwrap();
    fails(&["--state", &other], 2, "is not the state of a run");
    out(&["load", &set.path("train_1.h5"), "--state", &set.path("state.json")]);
    fails(&["--state", &set.path("state.json")], 2, "the state is of a set of 85 samples, this one has 150");
    let missing = run(&["load", &set.path("nothing_*.h5")]);
    assert_eq!((missing.code, missing.err.contains("no file matches")), (3, true), "{}", missing.err);
}

/// The first file with one chunk damaged.
fn damaged(set: &Written) -> String {
    let path = set.path("damaged.h5");
    let mut bytes = fs::read(set.path("train_0.h5")).unwrap();
    let stream = (0..bytes.len() - 1).find(|at| bytes[*at..].starts_with(&[0x78, 0x5e])).unwrap();
    bytes[stream + 2..stream + 10].fill(0xff);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_damaged_chunk_ends_the_run_or_its_samples_are_left_out_or_replaced() {
    let set = Written::by(SETS);
    let path = damaged(&set);
    let list = set.path("list.txt");
    let args = |on_error| ["load", &path, "--batch", "32", "--on-error", on_error, "--list", &list, "--json"];
    let ran = run(&args("raise"));
    let answer: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &answer["kind"]), (4, &"Corrupt".into()), "{answer}");
    assert_eq!(answer["epochs"][0]["complete"], false);
    assert!(ran.err.contains("damaged.h5: variable 'image': chunk "), "{}", ran.err);

    let skipped: serde_json::Value = serde_json::from_str(&out(&args("skip"))).unwrap();
    let epoch = &skipped["epochs"][0];
    assert_eq!((&epoch["skipped"], &epoch["samples"]), (&8.into(), &142.into()));
    assert_eq!(skipped["troubles"].as_array().unwrap().len(), 8);
    assert_eq!(lines(&list).len(), 142);
    let replaced: serde_json::Value = serde_json::from_str(&out(&args("substitute"))).unwrap();
    let epoch = &replaced["epochs"][0];
    assert_eq!((&epoch["substituted"], &epoch["samples"]), (&8.into(), &150.into()));
    let text = out(&args("skip")[..8]);
    assert!(text.contains("could not be read: 8 left out, 0 replaced\n"), "{text}");
}

#[test]
fn a_consumer_that_takes_its_time_is_what_limits() {
    let set = Written::by(SETS);
    let train = set.path("train_0.h5");
    let answer = json(&["load", &train, "--batch", "10", "--compute-ms", "30", "--epochs", "2"]);
    assert_eq!(answer["epochs"][1]["verdict"], "consumer");
    assert!(answer["epochs"][1]["seconds"].as_f64().unwrap() > 15.0 * 0.030);
}

#[test]
fn latencies_of_the_origin_are_measured_behind_a_network_and_not_on_this_machine() {
    let set = Written::by(SETS);
    let args = ["load", &set.path("train_0.h5"), "--field", "image"];
    assert_eq!(json(&args)["origin_latency"]["count"], 0);
    let slow = json(&[&args[..], &["--slow", "2ms"]].concat());
    let number = |name: &str| slow["origin_latency"][name].as_u64().unwrap();
    assert!(number("count") > 0);
    let sorted = ["p50_ns", "p90_ns", "p99_ns", "max_ns"].map(number);
    assert!(sorted.is_sorted() && sorted[0] >= 2_000_000, "{sorted:?}");
}
