//! h5bench's CSV: a line per metric, with lists of epochs in quotes and a unit for each number.

use std::fmt::Write;

use crate::{
    metrics::{H5benchEpoch, H5benchMetrics, H5benchSplit},
    timings::{RankTimings, RunTimings},
};

/// The CSV of a run, the mean over ranks.
pub fn csv(run: &RunTimings) -> String {
    table(run, &H5benchMetrics::of(run))
}

/// The CSV of one rank.
pub fn csv_of_rank(run: &RunTimings, rank: &RankTimings) -> String {
    table(run, &H5benchMetrics::of_rank(run, rank))
}

fn table(run: &RunTimings, metrics: &H5benchMetrics) -> String {
    let (reader, hdf5) = (&run.workload.reader, &run.workload.hdf5);
    let mut lines = CsvLines::new();
    lines.fact("operation", "dlio");
    lines.fact("ranks", &run.ranks.len().to_string());
    lines.fact("read threads", &reader.read_threads.to_string());
    lines.fact("subfiling", yes(hdf5.subfiling));
    lines.fact("chunking", yes(hdf5.chunking));
    lines.fact("collective meta", yes(hdf5.collective_meta));
    lines.fact("collective data", yes(hdf5.collective_data));
    if !run.complete {
        lines.fact("complete", "NO");
    }
    if let Some(train) = &metrics.train {
        lines.split("train", train);
    }
    if let Some(eval) = &metrics.eval {
        lines.split("eval", eval);
    }
    lines.text
}

fn yes(is: bool) -> &'static str {
    if is { "YES" } else { "NO" }
}

/// The lines of a CSV file, one after the other.
struct CsvLines {
    text: String,
}

impl CsvLines {
    fn new() -> Self {
        Self { text: "metric, value, unit\n".to_owned() }
    }

    fn line(&mut self, metric: &str, value: &str, unit: &str) {
        writeln!(self.text, "{metric}, {value}, {unit}").expect("text grows");
    }

    fn fact(&mut self, metric: &str, value: &str) {
        writeln!(self.text, "{metric}, {value},").expect("text grows");
    }

    fn one(&mut self, metric: &str, value: f64, unit: &str) {
        self.line(metric, &format!("{value:.3}"), unit);
    }

    fn bytes(&mut self, metric: &str, bytes: f64, per: &str) {
        let (value, unit) = scaled_bytes(bytes);
        self.one(metric, value, &format!("{unit}{per}"));
    }

    /// A value of each epoch, each with its unit.
    fn list(&mut self, metric: &str, values: impl Iterator<Item = (f64, String)>) {
        let (values, units): (Vec<String>, Vec<String>) =
            values.map(|(value, unit)| (format!("{value:.3}"), unit)).unzip();
        self.line(metric, &format!("\"{}\"", values.join(", ")), &format!("\"{}\"", units.join(", ")));
    }

    fn rates(&mut self, metric: &str, rates: &[f64]) {
        let scaled = rates.iter().map(|rate| scaled_bytes(*rate));
        self.list(metric, scaled.map(|(value, unit)| (value, format!("{unit}/s"))));
    }

    fn split(&mut self, name: &str, split: &H5benchSplit) {
        let named = |metric: &str| format!("{name} {metric}");
        let epochs = &split.epochs;
        let seconds =
            |of: fn(&H5benchEpoch) -> f64| epochs.iter().map(move |epoch| (of(epoch), "s".to_owned()));
        let total = |of: fn(&H5benchEpoch) -> f64| epochs.iter().map(of).sum::<f64>();
        self.bytes(&named("total size"), split.total_bytes, "");
        self.bytes(&named("size per rank"), split.rank_bytes, "");
        self.list(&named("emulated compute time per epoch"), seconds(|epoch| epoch.compute_s));
        self.one(&named("emulated compute time"), total(|epoch| epoch.compute_s), "s");
        self.list(&named("metadata time per epoch"), seconds(|epoch| epoch.metadata_s));
        self.one(&named("metadata time"), total(|epoch| epoch.metadata_s), "s");
        self.list(&named("raw read time per epoch"), seconds(|epoch| epoch.read_s));
        self.one(&named("total raw read time"), total(|epoch| epoch.read_s), "s");
        let raw = split.raw_read_rates();
        self.rates(&named("raw read rate per epoch"), &raw);
        self.bytes(&named("avg raw read rate"), mean(&raw), "/s");
        self.list(&named("observed time per epoch"), seconds(|epoch| epoch.observed_s));
        self.one(&named("observed time"), total(|epoch| epoch.observed_s), "s");
        let observed = split.observed_rates();
        self.rates(&named("observed rate per epoch"), &observed);
        self.bytes(&named("avg observed rate"), mean(&observed), "/s");
        let samples = epochs.iter().map(|epoch| (epoch.samples_per_s, "samples/s".to_owned()));
        self.list(&named("throughput samples per second per epoch"), samples);
        let throughput = split.throughput();
        self.one(&named("throughput avg samples per second"), throughput.mean, "samples/s");
        self.one(&named("throughput stdev samples per second"), throughput.stdev, "samples/s");
        self.bytes(&named("io avg"), throughput.mean * split.record_bytes, "/s");
        self.bytes(&named("io stdev"), throughput.stdev * split.record_bytes, "/s");
    }
}

/// The mean of the rates that there are.
fn mean(rates: &[f64]) -> f64 {
    let known: Vec<f64> = rates.iter().copied().filter(|rate| !rate.is_nan()).collect();
    known.iter().sum::<f64>() / known.len() as f64
}

/// Scales a number of bytes as h5bench does: by 1024, with units from B to TB.
fn scaled_bytes(bytes: f64) -> (f64, &'static str) {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    (value, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_scaled_by_1024() {
        assert_eq!(scaled_bytes(1023.9), (1023.9, "B"));
        assert_eq!(scaled_bytes(1024.0 * 1024.0), (1.0, "MB"));
    }
}
