//! DLIO's result files, by the same names and keys, for the tools that read them (MLPerf Storage's checker among them).

use forebay_report::iso_time;
use serde_json::{Map, Value, json};

use crate::{
    layout::{self, Split},
    metrics::{CheckpointRates, DlioFormula, DlioMetrics, DlioSplit},
    timings::{BlockTimings, CheckpointTimings, RankTimings, RunTimings, StepTimings},
};

/// `summary.json`.
pub fn summary(run: &RunTimings, formula: DlioFormula) -> Value {
    let metrics = DlioMetrics::of(run, formula);
    let hosts = hosts(run);
    let dataset = &run.workload.dataset;
    let bytes = (dataset.num_files_train + dataset.num_files_eval) * dataset.num_samples_per_file;
    let data_gb = (bytes as f64) * layout::sample_bytes(dataset) as f64 / GIB;
    let memory_gb: Vec<f64> = hosts.iter().map(|rank| rank.host.memory_bytes as f64 / GIB).collect();
    let caching: Vec<bool> =
        memory_gb.iter().map(|memory| data_gb / hosts.len() as f64 * 1.5 <= *memory).collect();
    let epochs = metrics.train.as_ref().map_or(0, |train| train.au_percent.len());
    json!({
        "start": iso_time(run.started_unix_s),
        "end": iso_time(run.started_unix_s + run.wall_s),
        "complete": run.complete,
        "num_accelerators": run.ranks.len(),
        "num_hosts": hosts.len(),
        "hostname": hosts.first().map(|rank| rank.host.name.clone()),
        "num_files_train": dataset.num_files_train,
        "num_files_eval": dataset.num_files_eval,
        "num_samples_per_file": dataset.num_samples_per_file,
        "host_cpu_count": hosts.iter().map(|rank| rank.host.cpu_count).collect::<Vec<u32>>(),
        "host_processor_name": hosts.first().map(|rank| rank.host.processor.clone()),
        "potential_caching": caching,
        "host_memory_GB": memory_gb,
        "data_size_per_host_GB": data_gb / hosts.len().max(1) as f64,
        "epochs": epochs,
        "metric": metric(&metrics),
    })
}

/// `<rank>_per_epoch_stats.json`.
pub fn per_epoch_stats(run: &RunTimings, rank: &RankTimings) -> Value {
    let mut epochs = Map::new();
    for epoch in &rank.epochs {
        // An epoch of DLIO ends before its evaluation.
        let end_s = epoch.evaluation.as_ref().map_or(epoch.end_s, |evaluation| evaluation.start_s);
        let mut entry = span(run, epoch.start_s, end_s);
        for (number, block) in (1..).zip(&epoch.blocks) {
            entry.insert(format!("block{number}"), Value::Object(span(run, block.start_s, block.end_s)));
        }
        if let Some(block) = &epoch.evaluation {
            entry.insert("eval".into(), Value::Object(span(run, block.start_s, block.end_s)));
        }
        insert_checkpoints(run, &mut entry, &epoch.checkpoints);
        epochs.insert(epoch.epoch.to_string(), Value::Object(entry));
    }
    if !rank.checkpoints.is_empty() {
        // A run without training has its checkpoints in one epoch.
        let mut entry = Map::new();
        insert_checkpoints(run, &mut entry, &rank.checkpoints);
        epochs.entry("1").or_insert_with(|| Value::Object(Map::new())).as_object_mut().into_iter().for_each(
            |epoch| {
                epoch.append(&mut entry);
            },
        );
    }
    Value::Object(epochs)
}

/// `<rank>_output.json`.
pub fn output(run: &RunTimings, rank: &RankTimings, formula: DlioFormula) -> Value {
    let mut all = Map::new();
    for epoch in &rank.epochs {
        let train =
            (1..).zip(&epoch.blocks).map(|(number, block)| (format!("block{number}"), Split::Train, block));
        let eval = epoch.evaluation.iter().map(|block| ("eval".to_owned(), Split::Eval, block));
        let blocks: Vec<(String, Split, &BlockTimings)> = train.chain(eval).collect();
        let of_steps = |of: fn(&StepTimings) -> f64| {
            let list = |block: &BlockTimings| Value::from(block.steps.iter().map(of).collect::<Vec<f64>>());
            Value::Object(blocks.iter().map(|(name, _, block)| (name.clone(), list(block))).collect())
        };
        let of_metric = |pick: fn((f64, f64)) -> f64| {
            let value = |split: Split, block: &BlockTimings| {
                Value::from(pick(crate::metrics::block(&run.workload, formula, split, block)))
            };
            Value::Object(
                blocks.iter().map(|(name, split, block)| (name.clone(), value(*split, block))).collect(),
            )
        };
        let entry = json!({
            "load": of_steps(|step| step.load_s),
            "proc": of_steps(StepTimings::proc_s),
            "compute": of_steps(|step| step.compute_s),
            "au": of_metric(|(au, _)| au),
            "throughput": of_metric(|(_, samples)| samples),
        });
        all.insert(epoch.epoch.to_string(), entry);
    }
    all.insert("hostname".into(), rank.host.name.clone().into());
    all.insert("host_cpu_count".into(), rank.host.cpu_count.into());
    all.insert("host_processor_name".into(), rank.host.processor.clone().into());
    all.insert("host_memory_GB".into(), (rank.host.memory_bytes as f64 / GIB).into());
    Value::Object(all)
}

const GIB: f64 = (1u64 << 30) as f64;

/// The first rank of each machine.
fn hosts(run: &RunTimings) -> Vec<&RankTimings> {
    let mut first: Vec<&RankTimings> = Vec::new();
    for rank in &run.ranks {
        if first.iter().all(|known| known.host.name != rank.host.name) {
            first.push(rank);
        }
    }
    first
}

fn metric(metrics: &DlioMetrics) -> Value {
    let mut all = Map::new();
    for (name, split) in [("train", &metrics.train), ("eval", &metrics.eval)] {
        if let Some(split) = split {
            insert_split(&mut all, name, split);
        }
    }
    for (name, rates) in [("save", &metrics.save), ("load", &metrics.load)] {
        if let Some(rates) = rates {
            insert_rates(&mut all, name, rates);
        }
    }
    Value::Object(all)
}

fn insert_split(all: &mut Map<String, Value>, name: &str, split: &DlioSplit) {
    let mut insert = |key: &str, value: Value| all.insert(format!("{name}_{key}"), value);
    insert("au_percentage", split.au_percent.clone().into());
    insert("au_mean_percentage", split.au.mean.into());
    insert("au_meet_expectation", if split.meets_target { "success" } else { "fail" }.into());
    insert("au_stdev_percentage", split.au.stdev.into());
    insert("throughput_samples_per_second", split.samples_per_s.clone().into());
    insert("throughput_mean_samples_per_second", split.throughput.mean.into());
    insert("throughput_stdev_samples_per_second", split.throughput.stdev.into());
    insert("io_mean_MB_per_second", split.io_mib_per_s.mean.into());
    insert("io_stdev_MB_per_second", split.io_mib_per_s.stdev.into());
}

fn insert_rates(all: &mut Map<String, Value>, name: &str, rates: &CheckpointRates) {
    all.insert("checkpoint_size_GB".into(), rates.size_gib.into());
    let mut insert = |key: &str, value: f64| all.insert(format!("{name}_checkpoint_{key}"), value.into());
    insert("io_mean_GB_per_second", rates.gib_per_s.mean);
    insert("io_stdev_GB_per_second", rates.gib_per_s.stdev);
    insert("duration_mean_seconds", rates.seconds.mean);
    insert("duration_stdev_seconds", rates.seconds.stdev);
}

fn span(run: &RunTimings, start_s: f64, end_s: f64) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("start".into(), iso_time(run.started_unix_s + start_s).into());
    entry.insert("end".into(), iso_time(run.started_unix_s + end_s).into());
    entry.insert("duration".into(), format!("{:.2}", end_s - start_s).into());
    entry
}

fn insert_checkpoints(run: &RunTimings, entry: &mut Map<String, Value>, checkpoints: &[CheckpointTimings]) {
    let (mut saved, mut loaded) = (0, 0);
    for checkpoint in checkpoints {
        let (name, number) = if checkpoint.is_load { ("load", &mut loaded) } else { ("save", &mut saved) };
        *number += 1;
        let seconds = checkpoint.end_s - checkpoint.start_s;
        let mut span = span(run, checkpoint.start_s, checkpoint.end_s);
        span.insert("duration".into(), seconds.into());
        span.insert(
            "throughput".into(),
            (checkpoint.bytes as f64 / GIB / seconds.max(f64::MIN_POSITIVE)).into(),
        );
        entry.insert(format!("{name}_ckpt{number}"), Value::Object(span));
    }
}
