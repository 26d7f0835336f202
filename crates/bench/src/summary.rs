//! What a run came to, in a few lines.

use forebay_workload::{BlockTimings, KernelMode, RunTimings};
use serde_json::{Value, json};

use crate::{command::BenchOutcome, kernel_run::KernelOutcome};

impl BenchOutcome {
    /// For people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (run, with) in self.runs.iter().zip(&self.reads_with) {
            let state = if run.complete { "" } else { ", interrupted: what follows is a part" };
            let ranks = counted_ranks(run.ranks.len());
            text.push_str(&format!("engine {} ({ranks}{state}) {with}\n", run.engine));
            for line in epoch_lines(run) {
                text.push_str(&format!("  {line}\n"));
            }
        }
        for kernel in &self.kernels {
            text.push_str(&kernel_line(kernel));
        }
        text.push_str(&format!("results in {}\n", self.folder.display()));
        text
    }

    /// For programs, on one line.
    pub fn to_json(&self) -> String {
        let runs: Vec<Value> =
            self.runs.iter().zip(&self.reads_with).map(|(run, with)| run_json(run, with)).collect();
        let kernels: Vec<Value> = self.kernels.iter().map(kernel_json).collect();
        let mut answer = json!({ "folder": self.folder, "complete": self.is_complete(), "runs": runs });
        if !kernels.is_empty() {
            answer["kernels"] = kernels.into();
        }
        format!("{answer}\n")
    }
}

fn counted_ranks(count: usize) -> String {
    format!("{count} rank{}", if count == 1 { "" } else { "s" })
}

fn kernel_name(kernel: &KernelOutcome) -> &'static str {
    if kernel.kernel.mode == KernelMode::Read { "read" } else { "write" }
}

fn kernel_line(kernel: &KernelOutcome) -> String {
    let (timings, ranks) = (&kernel.timings, f64::from(kernel.ranks));
    let mebibytes = timings.bytes as f64 * ranks / f64::from(1 << 20);
    let state = if kernel.is_complete { "" } else { ", interrupted: what follows is a part" };
    format!(
        "kernel {} ({}{state})\n  {mebibytes:.1} MiB in {:.3} s: raw {:.1} MiB/s, observed {:.1} MiB/s, metadata {:.3} s\n",
        kernel_name(kernel),
        counted_ranks(kernel.ranks as usize),
        timings.observed_s,
        mebibytes / timings.raw_s.max(1e-9),
        mebibytes / (timings.observed_s - timings.compute_s).max(1e-9),
        timings.metadata_s
    )
}

fn kernel_json(kernel: &KernelOutcome) -> Value {
    json!({ "kernel": kernel_name(kernel), "ranks": kernel.ranks, "complete": kernel.is_complete,
            "bytes": kernel.timings.bytes * u64::from(kernel.ranks), "timings": kernel.timings })
}

/// Sums over ranks and blocks.
#[derive(Default)]
struct Totals {
    samples: u64,
    bytes: u64,
    read_s: f64,
    metadata_s: f64,
    /// The time in which some rank was in one of the blocks: checkpoints between them do not count.
    wall_s: f64,
}

impl Totals {
    fn of<'a>(blocks: impl IntoIterator<Item = &'a BlockTimings>) -> Self {
        let (mut totals, mut spans) = (Self::default(), Vec::new());
        for block in blocks {
            spans.push((block.start_s, block.end_s));
            for step in &block.steps {
                totals.samples += u64::from(step.samples);
                totals.bytes += step.bytes;
                totals.read_s += step.read_s;
                totals.metadata_s += step.metadata_s;
            }
        }
        totals.wall_s = covered(spans);
        totals
    }

    fn rate(&self) -> f64 {
        if self.wall_s > 0.0 { self.samples as f64 / self.wall_s } else { 0.0 }
    }

    fn to_json(&self) -> Value {
        json!({ "samples": self.samples, "bytes": self.bytes, "seconds": self.wall_s, "samples_per_second": self.rate(),
                "read_seconds": self.read_s, "metadata_seconds": self.metadata_s })
    }

    fn to_text(&self) -> String {
        let mebibytes = self.bytes as f64 / f64::from(1 << 20);
        let bandwidth = if self.wall_s > 0.0 { mebibytes / self.wall_s } else { 0.0 };
        format!(
            "{} samples in {:.3} s: {:.1} samples/s, {bandwidth:.1} MiB/s, reading {:.3} s, metadata {:.3} s",
            self.samples,
            self.wall_s,
            self.rate(),
            self.read_s,
            self.metadata_s
        )
    }
}

/// How long at least one of `spans` lasted.
fn covered(mut spans: Vec<(f64, f64)>) -> f64 {
    spans.sort_by(|one, two| one.0.total_cmp(&two.0));
    let (mut sum, mut until) = (0.0, f64::NEG_INFINITY);
    for (start, end) in spans {
        sum += (end - start.max(until)).max(0.0);
        until = until.max(end);
    }
    sum
}

/// Numbers of the epochs that were begun.
fn epochs(run: &RunTimings) -> u32 {
    run.ranks.iter().flat_map(|rank| &rank.epochs).map(|epoch| epoch.epoch).max().unwrap_or(0)
}

fn epoch_totals(run: &RunTimings, number: u32) -> (Totals, Option<Totals>) {
    let of_epoch =
        || run.ranks.iter().flat_map(|rank| &rank.epochs).filter(move |epoch| epoch.epoch == number);
    let train = Totals::of(of_epoch().flat_map(|epoch| &epoch.blocks));
    let evaluation: Vec<&BlockTimings> = of_epoch().filter_map(|epoch| epoch.evaluation.as_ref()).collect();
    (train, (!evaluation.is_empty()).then(|| Totals::of(evaluation)))
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
    for number in 1..=epochs(run) {
        let (train, evaluation) = epoch_totals(run, number);
        lines.push(format!("epoch {number}: {}", train.to_text()));
        lines.extend(evaluation.map(|totals| format!("  evaluation: {}", totals.to_text())));
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
    let epochs: Vec<Value> = (1..=epochs(run))
        .map(|number| {
            let (train, evaluation) = epoch_totals(run, number);
            json!({ "epoch": number, "train": train.to_json(), "evaluation": evaluation.map(|totals| totals.to_json()) })
        })
        .collect();
    json!({ "engine": run.engine, "reads_with": with, "ranks": run.ranks.len(), "complete": run.complete,
            "seconds": run.wall_s, "epochs": epochs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_between_blocks_are_no_time_of_the_training() {
        let block = |start_s, end_s| BlockTimings { start_s, end_s, ..BlockTimings::default() };
        let of_two_ranks = [block(1.0, 3.0), block(5.0, 6.0), block(1.5, 3.5), block(4.5, 6.0)];
        assert_eq!(Totals::of(&of_two_ranks).wall_s, 2.5 + 1.5);
        assert_eq!(Totals::of(&[block(2.0, 2.0)]).rate(), 0.0);
    }
}
