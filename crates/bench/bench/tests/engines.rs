//! Both engines, run as the command runs them: the same steps, and every byte of the samples.

use std::{fs, path::Path};

use clap::Parser;
use forebay::Origins;
use forebay_bench::{BenchArgs, BenchHost, BenchOutcome, bench};
use forebay_libhdf5::check::needed_libhdf5;
use serde_json::json;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    bench: BenchArgs,
}

/// One file of 24 samples, as several are written by processes, trained on for two epochs in batches of two.
fn configuration(folder: &Path) -> serde_json::Value {
    json!({ "directory": folder, "benchmarks": [{ "benchmark": "dlio", "configuration": {
        "generate-data": true, "train": true, "record-length": 4096, "num-files-train": 1, "num-files-eval": 0,
        "num-samples-per-file": 24, "batch-size": 2, "epochs": 2, "computation-time": 0.0, "eval-time": 0.0,
        "read-threads": 0, "keep-files": true,
    } }] })
}

fn run(folder: &Path, more: &[&str]) -> BenchOutcome {
    let file = folder.join("suite.json");
    fs::write(&file, configuration(folder).to_string()).expect("a configuration");
    let (file, output) = (file.display().to_string(), folder.join("results").display().to_string());
    let line = [&["bench", &file, "--output", &output], more].concat();
    let args = CommandLine::try_parse_from(line).expect("a command line");
    let origins = Origins::new();
    let host = BenchHost {
        program: vec!["forebay".into()],
        arguments: Vec::new(),
        origins: &origins,
        tiers: None,
        is_json: true,
        is_interrupted: &|| false,
    };
    bench(&args.bench, &host).expect("a benchmark")
}

#[test]
fn both_engines_take_every_step_and_read_every_byte() {
    // That its absence is told by the name of its package.
    needed_libhdf5();
    let folder = tempfile::tempdir().expect("a folder");
    let outcome = run(folder.path(), &["--engine", "hdf5", "--engine", "forebay"]);
    assert!(outcome.is_complete(), "{:?}", outcome.failed);
    let engines: Vec<&str> = outcome.runs.iter().map(|run| run.engine.as_str()).collect();
    assert_eq!(engines, ["hdf5", "forebay"]);
    assert!(outcome.reads_with[0].starts_with("libhdf5 "), "{:?}", outcome.reads_with);
    for run in &outcome.runs {
        let epochs = run.ranks[0].epochs.iter().map(|epoch| {
            let steps = || epoch.blocks.iter().flat_map(|block| &block.steps);
            (steps().count(), steps().map(|step| step.bytes).sum::<u64>())
        });
        let epochs: Vec<(usize, u64)> = epochs.collect();
        assert_eq!(epochs, [(12, 24 * 4096); 2], "{}: 24 samples in batches of two", run.engine);
    }
    let generated = fs::read_dir(folder.path()).expect("the folder").count();
    assert!(generated > 1, "files are kept");
}
