//! A grid of parameters and its results: `forebay bench sweep`.

use forebay_process::{Error, ErrorKind, Result, suggest::unknown};
use forebay_report::{
    Badge, BadgeKind, Card, Line, LinePlot, Page, Table, XAxis, bytes_text, count_text, time_text,
};

use crate::{
    metrics::{RunSummary, SplitSummary},
    report::page::{card, cells, first_start, scaling},
};

/// One parameter and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepAxis {
    /// The parameter, such as `read-threads`.
    pub name: String,
    /// Its values, as they are written.
    pub values: Vec<String>,
}

/// One point of the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepPoint {
    /// The value of each axis, in order.
    pub values: Vec<String>,
    /// Overrides that make a workload of it.
    pub overrides: Vec<String>,
    /// How many ranks, where that is an axis.
    pub ranks: Option<u32>,
    /// What the files of this point are told apart by from those of others; empty where all points read the same files.
    pub dataset: String,
}

/// The keys that a configuration has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStyle {
    /// DLIO's sections.
    Dlio,
    /// h5bench's parameters.
    H5bench,
}

/// A parameter by its short name.
struct SweepKey {
    name: &'static str,
    dlio: &'static str,
    h5bench: &'static str,
    /// Whether its files differ.
    is_of_dataset: bool,
}

const fn key(name: &'static str, dlio: &'static str, h5bench: &'static str, is_of_dataset: bool) -> SweepKey {
    SweepKey { name, dlio, h5bench, is_of_dataset }
}

const KEYS: [SweepKey; 7] = [
    key("sample-size", "dataset.record_length_bytes", "record-length", true),
    key("samples-per-file", "dataset.num_samples_per_file", "num-samples-per-file", true),
    key("files", "dataset.num_files_train", "num-files-train", true),
    key("read-threads", "reader.read_threads", "read-threads", false),
    key("batch-size", "reader.batch_size", "batch-size", false),
    key("chunking", "dataset.enable_chunking", "chunking", true),
    key("chunk-size", "dataset.chunk_size", "chunk-size", true),
];

/// Keys of h5bench that change no file.
const H5BENCH_OF_RUNS: [&str; 12] = [
    "read-threads",
    "batch-size",
    "batch-size-eval",
    "shuffle",
    "preprocess-time",
    "epochs",
    "total-training-steps",
    "computation-time",
    "eval-time",
    "epochs-between-evals",
    "collective-meta",
    "collective-data",
];

const RANKS: &str = "ranks";

impl KeyStyle {
    /// The override that has the files of the data set in `folder`.
    pub fn data_folder(self, folder: &str) -> String {
        let quoted = folder.replace('\'', "''");
        match self {
            Self::Dlio => format!("++workload.dataset.data_folder='{quoted}'"),
            Self::H5bench => format!("++data-folder='{quoted}'"),
        }
    }

    /// The key that `name` means, and whether it changes files.
    fn key(self, name: &str) -> (&str, bool) {
        let short = KEYS.iter().find(|key| key.name == name);
        match (short, self) {
            (Some(key), Self::Dlio) => (key.dlio, key.is_of_dataset),
            (Some(key), Self::H5bench) => (key.h5bench, key.is_of_dataset),
            (None, Self::Dlio) => {
                let key = name.strip_prefix("workload.").unwrap_or(name);
                (key, key.starts_with("dataset.") || key.starts_with("hdf5."))
            }
            (None, Self::H5bench) => (name, !H5BENCH_OF_RUNS.contains(&name)),
        }
    }
}

/// The axis that `text` says: `read-threads=0,1,4`, or any key such as `reader.prefetch_size=2,8`.
pub fn parse_axis(text: &str, style: KeyStyle) -> Result<SweepAxis> {
    let (name, values) = text.split_once('=').unwrap_or((text, ""));
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err(Error::new(ErrorKind::Invalid, format!("'{text}' gives no values"))
            .hint("axes look like read-threads=0,1,4"));
    }
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).chain([RANKS]).collect();
    if !known.contains(&name) && !name.contains('.') && style == KeyStyle::Dlio {
        return Err(unknown("parameter", name, &known));
    }
    Ok(SweepAxis { name: name.to_owned(), values })
}

/// All points of the grid; the last axis changes fastest.
pub fn sweep_points(axes: &[SweepAxis], style: KeyStyle) -> Result<Vec<SweepPoint>> {
    let mut points = vec![SweepPoint::default()];
    for axis in axes {
        let longer = points
            .iter()
            .flat_map(|point| axis.values.iter().map(move |value| extended(point, axis, value, style)));
        points = longer.collect::<Result<_>>()?;
    }
    Ok(points)
}

fn extended(point: &SweepPoint, axis: &SweepAxis, value: &str, style: KeyStyle) -> Result<SweepPoint> {
    let mut point = point.clone();
    point.values.push(value.to_owned());
    if axis.name == RANKS {
        let ranks = value.parse().ok().filter(|ranks| *ranks > 0);
        let invalid = || Error::new(ErrorKind::Invalid, format!("'{value}' is no number of ranks"));
        point.ranks = Some(ranks.ok_or_else(invalid)?);
        return Ok(point);
    }
    let (key, is_of_dataset) = style.key(&axis.name);
    point.overrides.push(match style {
        KeyStyle::Dlio => format!("++workload.{key}={value}"),
        KeyStyle::H5bench => format!("++{key}={value}"),
    });
    if is_of_dataset {
        let name = axis.name.rsplit('.').next().unwrap_or_default();
        let between = if point.dataset.is_empty() { "" } else { "_" };
        point.dataset += &format!("{between}{name}-{value}");
    }
    Ok(point)
}

/// The results of a sweep as CSV, a line for each point.
pub fn sweep_csv(axes: &[SweepAxis], results: &[(SweepPoint, RunSummary)]) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| &*axis.name).collect();
    let mut text = names.join(",");
    text.push_str(
        ",engine,complete,samples_per_s,bytes_per_s,au_percent,latency_p50_s,latency_p99_s,metadata_per_s,wall_s,cpu_s\n",
    );
    for (point, run) in results {
        let train = run.train.clone().unwrap_or_default();
        let numbers = [
            train.samples_per_s.mean,
            train.bytes_per_s.mean,
            train.au_percent.mean,
            train.latency.p50_s,
            train.latency.p99_s,
            train.metadata_per_s.mean,
            run.wall_s,
            run.cpu_s,
        ];
        let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
        let values = point.values.join(",");
        text.push_str(&format!("{values},{},{},{}\n", run.engine, run.complete, numbers.join(",")));
    }
    text
}

/// Returns the results of a sweep as a page: plots over each axis, and all numbers; `planned` points were asked for.
pub fn sweep_html(axes: &[SweepAxis], results: &[(SweepPoint, RunSummary)], planned: usize) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| &*axis.name).collect();
    let mut points: Vec<&[String]> = results.iter().map(|(point, _)| &*point.values).collect();
    points.dedup();
    let is_whole = points.len() == planned && results.iter().all(|(_, run)| run.complete);
    let text = format!("interrupted: {} of {planned} points", points.len());
    let page = Page {
        command: "forebay bench".into(),
        title: format!("Sweep over {}", names.join(", ")),
        started_unix_s: first_start(results.iter().map(|(_, run)| run)),
        extent: format!("{} runs", results.len()),
        badges: if is_whole { Vec::new() } else { vec![Badge { kind: BadgeKind::Warn, text }] },
        cards: (0..axes.len()).flat_map(|number| axis_cards(axes, results, number)).collect(),
        tables: vec![all_runs(axes, results)],
        ..Page::default()
    };
    page.html()
}

/// A quantity that is plotted over an axis: heading, label, value.
type SweepPlot = (&'static str, &'static str, fn(&SplitSummary) -> f64);

const PLOTS: [SweepPlot; 4] = [
    ("Throughput", "MiB/s", |train| train.bytes_per_s.mean / (1u64 << 20) as f64),
    ("Accelerator utilisation", "AU, %", |train| train.au_percent.mean),
    ("Sample latency, 99 %,", "milliseconds", |train| train.latency.p99_s * 1e3),
    ("Metadata rate of a worker", "files opened per second", |train| train.metadata_per_s.mean),
];

/// Returns a card for each quantity that some run has.
fn axis_cards(axes: &[SweepAxis], results: &[(SweepPoint, RunSummary)], number: usize) -> Vec<Card> {
    let over = &axes[number].name;
    let mut cards = Vec::new();
    if axes.len() == 1 && over == RANKS {
        let runs: Vec<RunSummary> = results.iter().map(|(_, run)| run.clone()).collect();
        cards.extend(scaling(&runs));
    }
    for (heading, label, value) in PLOTS {
        let of = |run: &RunSummary| run.train.as_ref().map(value).filter(|value| *value > 0.0);
        if !results.iter().any(|(_, run)| of(run).is_some()) {
            continue;
        }
        let why = match axes.len() {
            1 => "A line for each engine",
            _ => "A line for each combination of the other parameters",
        };
        let plot = axis_plot(axes, results, number, label, of);
        cards.push(card(&format!("{heading} over {over}"), why, plot));
    }
    cards
}

fn all_runs(axes: &[SweepAxis], results: &[(SweepPoint, RunSummary)]) -> Table {
    let fixed =
        ["engine", "throughput", "samples/s", "AU", "latency 50 %", "latency 99 %", "metadata rate", "time"];
    let row = |(point, run): &(SweepPoint, RunSummary)| {
        let train = run.train.clone().unwrap_or_default();
        let numbers = [
            run.engine.clone(),
            format!("{}/s", bytes_text(train.bytes_per_s.mean)),
            count_text(train.samples_per_s.mean),
            format!("{:.1} %", train.au_percent.mean),
            time_text(train.latency.p50_s),
            time_text(train.latency.p99_s),
            match train.metadata_per_s.mean {
                rate if rate > 0.0 => format!("{}/s", count_text(rate)),
                _ => "-".to_owned(),
            },
            time_text(run.wall_s),
        ];
        cells(point.values.iter().cloned().chain(numbers))
    };
    Table {
        heading: "All runs".into(),
        columns: axes.iter().map(|axis| axis.name.clone()).chain(fixed.map(str::to_owned)).collect(),
        rows: results.iter().map(row).collect(),
        ..Table::default()
    }
}

/// A line for each combination of the other axes; values that are no numbers stand at their place in the list.
fn axis_plot(
    axes: &[SweepAxis],
    results: &[(SweepPoint, RunSummary)],
    number: usize,
    y_label: &str,
    value: impl Fn(&RunSummary) -> Option<f64>,
) -> LinePlot {
    let axis = &axes[number];
    let place = |text: &str| axis.values.iter().position(|known| known == text).map(|at| at as f64);
    let mut series: Vec<Line> = Vec::new();
    for (point, run) in results {
        let (Some(x), Some(y)) = (place(&point.values[number]), value(run)) else { continue };
        let others = axes.iter().zip(&point.values).enumerate().filter(|(at, _)| *at != number);
        let named: Vec<String> = others.map(|(_, (axis, value))| format!("{} {value}", axis.name)).collect();
        let name = if named.is_empty() {
            run.engine.clone()
        } else {
            format!("{}, {}", run.engine, named.join(", "))
        };
        let note = format!("{} {}: {}", axis.name, point.values[number], count_text(y));
        let at = series.iter().position(|line| line.name == name).unwrap_or_else(|| {
            series.push(Line { name, colour: series.len(), ..Line::default() });
            series.len() - 1
        });
        series[at].points.push((x, y));
        series[at].notes.push(note);
    }
    LinePlot {
        x_label: axis.name.clone(),
        y_label: y_label.to_owned(),
        x_axis: XAxis::Names(axis.values.clone()),
        lines: series,
        ..LinePlot::default()
    }
}
