//! Runs side by side: `forebay bench compare`.

use std::fmt;

use forebay_report::{bytes_text, count_text, time_text};

use crate::metrics::RunSummary;

/// Runs side by side, a row for each metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The runs, in order.
    pub labels: Vec<String>,
    /// The metrics that at least one of them has.
    pub rows: Vec<ComparisonRow>,
}

/// One metric of all runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRow {
    /// Its name.
    pub metric: String,
    /// The value of each run, with its unit; `-` where a run has none.
    pub texts: Vec<String>,
    /// The value of each run over that of the first; none for the first itself.
    pub ratios: Vec<Option<f64>>,
}

type MetricValue = fn(&RunSummary) -> Option<f64>;

/// Name, value and how it is written.
type MetricRow = (&'static str, MetricValue, fn(f64) -> String);

/// All metrics, in order.
const METRICS: [MetricRow; 12] = [
    ("throughput", |run| run.train.as_ref().map(|train| train.bytes_per_s.mean), rate_text),
    ("samples per second", |run| run.train.as_ref().map(|train| train.samples_per_s.mean), count_text),
    ("accelerator utilisation", |run| run.train.as_ref().map(|train| train.au_percent.mean), percent_text),
    ("sample latency, median", |run| latency(run, |latency| latency.p50_s), time_text),
    ("sample latency, 99 %", |run| latency(run, |latency| latency.p99_s), time_text),
    (
        "metadata rate of a worker",
        |run| run.train.as_ref().map(|train| train.metadata_per_s.mean),
        per_second_text,
    ),
    ("evaluation throughput", |run| run.eval.as_ref().map(|eval| eval.bytes_per_s.mean), rate_text),
    ("checkpoint saved at", |run| run.save.map(|save| save.bytes_per_s.mean), rate_text),
    ("checkpoint loaded at", |run| run.load.map(|load| load.bytes_per_s.mean), rate_text),
    ("generated at", |run| run.generation.map(|made| made.bytes as f64 / made.seconds.max(1e-9)), rate_text),
    ("CPU time", |run| Some(run.cpu_s), time_text),
    ("whole process", |run| Some(run.wall_s), time_text),
];

/// Compares `runs` with the first of them.
pub fn compare(runs: &[RunSummary]) -> Comparison {
    let row = |(metric, value, text): &MetricRow| {
        let values: Vec<Option<f64>> =
            runs.iter().map(|run| value(run).filter(|value| *value > 0.0)).collect();
        let first = values.first().copied().flatten();
        let ratio = |(number, value): (usize, &Option<f64>)| Some((*value)? / first.filter(|_| number > 0)?);
        values.iter().any(Option::is_some).then(|| ComparisonRow {
            metric: (*metric).to_owned(),
            texts: values.iter().map(|value| value.map_or("-".to_owned(), text)).collect(),
            ratios: values.iter().enumerate().map(ratio).collect(),
        })
    };
    Comparison { labels: labels(runs), rows: METRICS.iter().filter_map(row).collect() }
}

/// What may tell runs of the same label apart.
const DIFFERENCES: [fn(&RunSummary) -> String; 6] = [
    |run| format!("{} read threads", run.read_threads),
    |run| format!("batches of {}", run.batch_size),
    |run| format!("{} files", run.files),
    |run| format!("{} samples per file", run.samples_per_file),
    |run| format!("samples of {} bytes", run.record_bytes),
    |run| if run.chunking { "chunked".to_owned() } else { "not chunked".to_owned() },
];

/// The runs' labels, with what they differ in where they are the same, and a number where that is nothing.
fn labels(runs: &[RunSummary]) -> Vec<String> {
    let alike = |run: &RunSummary| runs.iter().filter(|other| other.label == run.label).collect::<Vec<_>>();
    let label = |run: &RunSummary| {
        let of_label = alike(run);
        let differs =
            |text: &&fn(&RunSummary) -> String| of_label.iter().any(|other| text(other) != text(run));
        let parts = DIFFERENCES.iter().filter(differs).map(|text| text(run));
        [run.label.clone()].into_iter().chain(parts).collect::<Vec<_>>().join(" · ")
    };
    let labels: Vec<String> = runs.iter().map(label).collect();
    let numbered = |(number, label): (usize, &String)| match labels[..number]
        .iter()
        .filter(|before| *before == label)
        .count()
    {
        0 => label.clone(),
        before => format!("{label} ({})", before + 1),
    };
    labels.iter().enumerate().map(numbered).collect()
}

/// The runs, each with a label of its own.
pub(super) fn told_apart(runs: &[RunSummary]) -> Vec<RunSummary> {
    let relabelled = |(run, label): (&RunSummary, String)| RunSummary { label, ..run.clone() };
    runs.iter().zip(labels(runs)).map(relabelled).collect()
}

fn latency(run: &RunSummary, pick: fn(&crate::metrics::LatencyPoints) -> f64) -> Option<f64> {
    run.train.as_ref().filter(|train| train.latency.count > 0).map(|train| pick(&train.latency))
}

fn rate_text(bytes_per_s: f64) -> String {
    format!("{}/s", bytes_text(bytes_per_s))
}

fn percent_text(percent: f64) -> String {
    format!("{percent:.1} %")
}

fn per_second_text(count: f64) -> String {
    format!("{}/s", count_text(count))
}

/// The comparison as a table for the terminal.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |row: &ComparisonRow, number: usize| match row.ratios[number] {
            Some(ratio) => format!("{} ({ratio:.2}x)", row.texts[number]),
            None => row.texts[number].clone(),
        };
        let width_of = |number: usize| {
            let cells = self.rows.iter().map(|row| cell(row, number).chars().count());
            cells.chain([self.labels[number].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.labels.len()).map(width_of).collect();
        let first = self.rows.iter().map(|row| row.metric.chars().count()).max().unwrap_or(0);
        write!(f, "{:first$}", "")?;
        for (label, width) in self.labels.iter().zip(&widths) {
            write!(f, "  {label:>width$}")?;
        }
        for row in &self.rows {
            write!(f, "\n{:first$}", row.metric)?;
            for (number, width) in widths.iter().enumerate() {
                write!(f, "  {:>width$}", cell(row, number))?;
            }
        }
        Ok(())
    }
}
