//! What a run came to, in a few lines.

use forebay_workload::{
    RunTimings,
    metrics::{EpochSummary, RunSummary, SplitSummary, summarise},
};
use serde_json::{Value, json};

use crate::command::BenchOutcome;

impl BenchOutcome {
    /// Returns what the command prints on standard output, as JSON or as text; nothing where nothing was run.
    pub fn answer(&self, is_json: bool) -> Option<String> {
        match &self.text {
            Some(text) => Some(text.clone()),
            None if self.runs.is_empty() => None,
            None if is_json => Some(self.to_json()),
            None => Some(self.to_text()),
        }
    }

    /// For people.
    fn to_text(&self) -> String {
        let mut text = String::new();
        for (run, with) in self.runs.iter().zip(&self.reads_with) {
            let state = match (run.complete, &self.failed) {
                (true, _) => "",
                (false, Some(_)) => ", failed: what follows is a part",
                (false, None) => ", interrupted: what follows is a part",
            };
            let ranks = counted_ranks(run.ranks.len());
            text.push_str(&format!("engine {} ({ranks}{state}) {with}\n", run.engine));
            for line in epoch_lines(run) {
                text.push_str(&format!("  {line}\n"));
            }
        }
        text.push_str(&format!("results in {}\n", self.folder.display()));
        text
    }

    /// For programs, on one line.
    fn to_json(&self) -> String {
        let runs: Vec<Value> =
            self.runs.iter().zip(&self.reads_with).map(|(run, with)| run_json(run, with)).collect();
        let is_complete = self.is_complete() && self.unsupported.is_empty();
        let answer = json!({ "folder": self.folder, "complete": is_complete, "runs": runs });
        format!("{answer}\n")
    }
}

fn counted_ranks(count: usize) -> String {
    format!("{count} rank{}", if count == 1 { "" } else { "s" })
}

fn totals_json(totals: &EpochSummary) -> Value {
    json!({ "samples": totals.samples, "bytes": totals.bytes, "seconds": totals.seconds,
            "samples_per_second": totals.samples_per_s, "steps": totals.steps,
            "read_seconds": totals.read_s, "metadata_seconds": totals.metadata_s })
}

fn totals_text(totals: &EpochSummary) -> String {
    format!(
        "{} samples in {:.3} s: {:.1} samples/s, {:.1} MiB/s, reading {:.3} s, metadata {:.3} s",
        totals.samples,
        totals.seconds,
        totals.samples_per_s,
        totals.bytes_per_s / f64::from(1 << 20),
        totals.read_s,
        totals.metadata_s
    )
}

/// Numbers of the epochs that were begun.
fn epochs(run: &RunTimings) -> u32 {
    run.ranks.iter().flat_map(|rank| &rank.epochs).map(|epoch| epoch.epoch).max().unwrap_or(0)
}

/// Training and evaluation of epoch `number`, in the numbers of the report.
fn epoch_totals(summary: &RunSummary, number: u32) -> (EpochSummary, Option<EpochSummary>) {
    let of_split = |split: &Option<SplitSummary>| {
        split.iter().flat_map(|split| &split.epochs).find(|epoch| epoch.epoch == number).copied()
    };
    (of_split(&summary.train).unwrap_or_default(), of_split(&summary.eval))
}

fn epoch_lines(run: &RunTimings) -> Vec<String> {
    let mut lines = Vec::new();
    let written: u64 =
        run.ranks.iter().filter_map(|rank| rank.generation).map(|generation| generation.files_written).sum();
    let kept: u64 =
        run.ranks.iter().filter_map(|rank| rank.generation).map(|generation| generation.files_kept).sum();
    if written + kept > 0 {
        lines.push(format!("generated {written} files, {kept} were there"));
    }
    let summary = summarise(run);
    for number in 1..=epochs(run) {
        let (train, evaluation) = epoch_totals(&summary, number);
        lines.push(format!("epoch {number}: {}", totals_text(&train)));
        lines.extend(evaluation.map(|totals| format!("  evaluation: {}", totals_text(&totals))));
    }
    let checkpoints = run.ranks.iter().flat_map(|rank| {
        rank.checkpoints.iter().chain(rank.epochs.iter().flat_map(|epoch| &epoch.checkpoints))
    });
    let (count, bytes) = checkpoints.fold((0, 0), |(count, bytes), made| (count + 1, bytes + made.bytes));
    if count > 0 {
        lines.push(format!("{count} checkpoints of ranks, {bytes} bytes"));
    }
    lines
}

fn run_json(run: &RunTimings, with: &str) -> Value {
    let summary = summarise(run);
    let epochs: Vec<Value> = (1..=epochs(run))
        .map(|number| {
            let (train, evaluation) = epoch_totals(&summary, number);
            json!({ "epoch": number, "train": totals_json(&train), "evaluation": evaluation.as_ref().map(totals_json) })
        })
        .collect();
    json!({ "engine": run.engine, "reads_with": with, "ranks": run.ranks.len(), "complete": run.complete,
            "seconds": run.wall_s, "epochs": epochs })
}
