//! What DLIO's own functions say of timings that DLIO recorded, and what ours say of the same ones.
//!
//! `make_dlio_recorded.py` makes the file from a run of DLIO 2.0.0.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use forebay_workload::{
    BlockTimings, EpochTimings, FileNaming, RankTimings, RunTimings, StepTimings, Workload,
    metrics::{DlioFormula, DlioMetrics, DlioSplit},
};
use serde_json::Value;

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect()
}

fn block(recorded: &Value) -> BlockTimings {
    let steps = numbers(&recorded["proc"]).into_iter().zip(numbers(&recorded["compute"]));
    let steps = steps.map(|(proc_s, compute_s)| StepTimings {
        load_s: proc_s - compute_s,
        compute_s,
        ..StepTimings::default()
    });
    let time = |key: &str| recorded[key].as_f64().unwrap();
    BlockTimings {
        start_s: time("start"),
        end_s: time("end"),
        steps: steps.collect(),
        ..BlockTimings::default()
    }
}

fn run_of(recorded: &Value) -> RunTimings {
    let mut workload = Workload::default();
    workload.dataset.naming = FileNaming::Dlio2408;
    workload.reader.batch_size = recorded["batch_size"].as_u64().unwrap();
    workload.reader.batch_size_eval = recorded["batch_size_eval"].as_u64().unwrap();
    let epoch = |(epoch, of): (u32, &Value)| EpochTimings {
        epoch,
        blocks: of["blocks"].as_array().unwrap().iter().map(block).collect(),
        evaluation: Some(block(&of["eval"])),
        ..EpochTimings::default()
    };
    let epochs = (1..).zip(recorded["epochs"].as_array().unwrap()).map(epoch).collect();
    RunTimings {
        workload,
        engine: "hdf5".into(),
        started_unix_s: 0.0,
        wall_s: 1.0,
        complete: true,
        ranks: vec![RankTimings { epochs, ..RankTimings::default() }],
    }
}

/// Differs by no more than a part of a million.
fn assert_near(ours: f64, theirs: f64, what: &str) {
    assert!((ours / theirs - 1.0).abs() < 1e-6, "{what}: {ours}, and DLIO says {theirs}");
}

#[test]
fn au_and_throughput_of_recorded_timings_are_those_of_dlio_itself() {
    let recorded: Value = serde_json::from_str(include_str!("dlio_recorded.json")).unwrap();
    assert_eq!(recorded["dlio"], "2.0.0");
    let run = run_of(&recorded);
    let metrics = DlioMetrics::of(&run, DlioFormula::of(&run.workload));
    let epochs = recorded["epochs"].as_array().unwrap();
    let compare = |ours: &DlioSplit, theirs: &dyn Fn(&Value) -> Value, what: &str| {
        for (number, epoch) in epochs.iter().enumerate() {
            let said = theirs(epoch);
            assert_near(ours.au_percent[number], said["au"].as_f64().unwrap(), what);
            assert_near(ours.samples_per_s[number], said["throughput"].as_f64().unwrap(), what);
        }
    };
    compare(&metrics.train.unwrap(), &|epoch| epoch.clone(), "training");
    compare(&metrics.eval.unwrap(), &|epoch| epoch["eval"].clone(), "evaluation");
}
