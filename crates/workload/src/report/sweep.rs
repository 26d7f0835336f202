//! A grid of parameters and its results: `forebay bench sweep`.

use forebay_source::{Error, ErrorKind, Result, suggest::unknown};

use crate::{
    metrics::RunSummary,
    report::{
        html::{card, page, section, table},
        svg::{LinePlot, PlotLine, escaped},
        time::iso,
        unit::{bytes_text, count_text, time_text},
    },
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
}

/// Parameters by their short names, and the keys that they set.
const AXES: [(&str, &[&str]); 8] = [
    ("sample-size", &["dataset.record_length_bytes"]),
    ("samples-per-file", &["dataset.num_samples_per_file"]),
    ("files", &["dataset.num_files_train"]),
    ("read-threads", &["reader.read_threads"]),
    ("batch-size", &["reader.batch_size"]),
    ("chunking", &["dataset.enable_chunking"]),
    ("chunk-size", &["dataset.chunk_size"]),
    ("ranks", &[]),
];

/// The axis that `text` says: `read-threads=0,1,4`, or any key such as `reader.prefetch_size=2,8`.
pub fn parse_axis(text: &str) -> Result<SweepAxis> {
    let (name, values) = text.split_once('=').unwrap_or((text, ""));
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err(Error::new(ErrorKind::Invalid, format!("'{text}' gives no values"))
            .hint("axes look like read-threads=0,1,4"));
    }
    let known: Vec<&str> = AXES.iter().map(|(name, _)| *name).collect();
    if !known.contains(&name) && !name.contains('.') {
        return Err(unknown("parameter", name, &known));
    }
    Ok(SweepAxis { name: name.to_owned(), values })
}

/// All points of the grid; the last axis changes fastest.
pub fn sweep_points(axes: &[SweepAxis]) -> Result<Vec<SweepPoint>> {
    let mut points = vec![SweepPoint::default()];
    for axis in axes {
        let longer =
            points.iter().flat_map(|point| axis.values.iter().map(move |value| extended(point, axis, value)));
        points = longer.collect::<Result<_>>()?;
    }
    Ok(points)
}

fn extended(point: &SweepPoint, axis: &SweepAxis, value: &str) -> Result<SweepPoint> {
    let mut point = point.clone();
    point.values.push(value.to_owned());
    if axis.name == "ranks" {
        let ranks = value.parse().ok().filter(|ranks| *ranks > 0);
        let invalid = || Error::new(ErrorKind::Invalid, format!("'{value}' is no number of ranks"));
        point.ranks = Some(ranks.ok_or_else(invalid)?);
        return Ok(point);
    }
    let keys = AXES.iter().find(|(name, _)| *name == axis.name).map(|(_, keys)| *keys);
    match keys {
        Some(keys) => point.overrides.extend(keys.iter().map(|key| format!("++workload.{key}={value}"))),
        None => point.overrides.push(format!("++{}={value}", axis.name)),
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

/// The results of a sweep as a page: a plot of throughput and one of the metadata rate for each axis, and all numbers.
pub fn sweep_html(axes: &[SweepAxis], results: &[(SweepPoint, RunSummary)]) -> String {
    let names: Vec<&str> = axes.iter().map(|axis| &*axis.name).collect();
    let title = format!("Sweep over {}", names.join(", "));
    let mut cards = String::new();
    for number in 0..axes.len() {
        let rate =
            |run: &RunSummary| run.train.as_ref().map(|train| train.bytes_per_s.mean / (1u64 << 20) as f64);
        let metadata = |run: &RunSummary| run.train.as_ref().map(|train| train.metadata_per_s.mean);
        let over = &axes[number].name;
        let why = "A line for each combination of the other parameters";
        let plot = axis_plot(axes, results, number, "MiB/s", rate);
        cards += &card(&format!("Throughput over {over}"), why, &plot);
        let plot = axis_plot(axes, results, number, "files opened per second", metadata);
        cards += &card(&format!("Metadata rate of a worker over {over}"), why, &plot);
    }
    let begun = results.iter().map(|(_, run)| run.started_unix_s).fold(f64::INFINITY, f64::min);
    let when = if begun.is_finite() { iso(begun)[..19].replace('T', " ") + " UTC" } else { String::new() };
    let header = format!(
        "<header><p class=\"brand\">forebay bench</p><h1>{}</h1><p class=\"when\">{when}, {} runs</p></header>",
        escaped(&title),
        results.len()
    );
    page(
        &title,
        &format!(
            "{header}<div class=\"cards\">{cards}</div>{}",
            section("All runs", &all_runs(axes, results))
        ),
    )
}

fn all_runs(axes: &[SweepAxis], results: &[(SweepPoint, RunSummary)]) -> String {
    let fixed =
        ["engine", "throughput", "samples/s", "AU", "latency 50 %", "latency 99 %", "metadata rate", "time"];
    let head: Vec<String> =
        axes.iter().map(|axis| escaped(&axis.name)).chain(fixed.map(str::to_owned)).collect();
    let row = |(point, run): &(SweepPoint, RunSummary)| {
        let train = run.train.clone().unwrap_or_default();
        let numbers = [
            escaped(&run.engine),
            format!("{}/s", bytes_text(train.bytes_per_s.mean)),
            count_text(train.samples_per_s.mean),
            format!("{:.1} %", train.au_percent.mean),
            time_text(train.latency.p50_s),
            time_text(train.latency.p99_s),
            format!("{}/s", count_text(train.metadata_per_s.mean)),
            time_text(run.wall_s),
        ];
        point.values.iter().map(|value| escaped(value)).chain(numbers).collect()
    };
    table(&head, &results.iter().map(row).collect::<Vec<Vec<String>>>())
}

/// A line for each combination of the other axes; values that are no numbers stand at their place in the list.
fn axis_plot(
    axes: &[SweepAxis],
    results: &[(SweepPoint, RunSummary)],
    number: usize,
    y_label: &str,
    value: impl Fn(&RunSummary) -> Option<f64>,
) -> String {
    let axis = &axes[number];
    let place = |text: &str| axis.values.iter().position(|known| known == text).map(|at| at as f64);
    let mut series: Vec<PlotLine> = Vec::new();
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
            series.push(PlotLine { name, colour: series.len(), ..PlotLine::default() });
            series.len() - 1
        });
        series[at].points.push((x, y));
        series[at].notes.push(note);
    }
    let plot = LinePlot {
        title: format!("{y_label} over {}", axis.name),
        x_label: axis.name.clone(),
        y_label: y_label.to_owned(),
        x_ticks: (0..axis.values.len()).map(|at| at as f64).collect(),
        x_names: axis.values.clone(),
        series,
        ..LinePlot::default()
    };
    plot.draw()
}
