//! Several runs: those of earlier commands side by side, and a grid of parameters.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use forebay::{Error, Result};
use forebay_workload::{
    ConfigOptions,
    metrics::summarise,
    report::{self, KeyStyle, SweepPoint},
};
use serde_json::json;

use crate::{
    command::{args::SweepArgs, bench_host::BenchHost, config_file},
    ranks::lifeline::Lifeline,
    results,
};

/// Compares the runs at `paths` with the first of them, as text or JSON; a page of all goes to `html`.
pub(crate) fn compare(paths: &[PathBuf], html: Option<&Path>, is_json: bool) -> Result<String> {
    let mut runs = Vec::new();
    for path in paths {
        runs.extend(results::read_all(path)?);
    }
    let summaries: Vec<_> = runs.iter().map(summarise).collect();
    if let Some(html) = html {
        fs::write(html, report::html(&summaries))
            .map_err(|error| Error::from_io(error).at(html.display()))?;
    }
    let comparison = report::compare(&summaries);
    if !is_json {
        return Ok(format!("{comparison}\n"));
    }
    let rows = comparison.rows.iter();
    let rows: Vec<_> =
        rows.map(|row| json!({ "metric": row.metric, "values": row.texts, "ratios": row.ratios })).collect();
    Ok(format!("{}\n", json!({ "runs": comparison.labels, "rows": rows })))
}

/// Runs the workload at every point of a grid, each in a process of its own, and reports them together.
///
/// All configurations are read before the first run, and an entry that is not run is an error then. What was done before an interrupt or a run that failed is reported.
pub(crate) fn sweep(args: &SweepArgs, host: &BenchHost<'_>, is_json: bool) -> Result<String> {
    let suite = config_file::read(&args.workload, &options(&args.overrides))?;
    if let Some(entry) = suite.unsupported.first() {
        return Err(entry.error().at(args.workload.display()));
    }
    let style = if suite.is_h5bench { KeyStyle::H5bench } else { KeyStyle::Dlio };
    let axes = args.axes.iter().map(|axis| report::parse_axis(axis, style)).collect::<Result<Vec<_>>>()?;
    let mut points = report::sweep_points(&axes, style)?;
    for point in &mut points {
        let overrides = [&args.overrides[..], &point.overrides].concat();
        let suite = config_file::read(&args.workload, &options(&overrides))?;
        if let (false, Some(workload)) = (point.dataset.is_empty(), suite.workloads.first()) {
            let folder = Path::new(&workload.dataset.data_folder).join(&point.dataset);
            point.overrides.push(style.data_folder(&folder.display().to_string()));
        }
    }
    let (planned, mut done, mut failed) = (points.len(), Vec::new(), None);
    for (number, point) in points.into_iter().enumerate() {
        if (host.is_interrupted)() {
            break;
        }
        let folder = args.output.join(format!("point-{}", number + 1));
        failed = run_point(args, host, &point, &folder).err();
        // A run that was interrupted leaves a part of its results, which is marked as such.
        let runs = results::read_all(&folder).unwrap_or_default();
        done.extend(runs.iter().map(|run| (point.clone(), summarise(run))));
        if failed.is_some() {
            break;
        }
    }
    let (csv, html) = (report::sweep_csv(&axes, &done), report::sweep_html(&axes, &done, planned));
    results::write_file(&args.output, "sweep.csv", &csv)?;
    results::write_file(&args.output, "sweep.html", &html)?;
    match failed.filter(|_| !(host.is_interrupted)()) {
        Some(error) => Err(error.hint("what was done before lies in the output folder")),
        None if is_json => {
            Ok(format!("{}\n", json!({ "folder": args.output, "points": planned, "runs": done.len() })))
        }
        None => Ok(format!("{csv}results in {}\n", args.output.display())),
    }
}

fn options(overrides: &[String]) -> ConfigOptions {
    ConfigOptions { overrides: overrides.to_vec(), ..ConfigOptions::default() }
}

fn run_point(args: &SweepArgs, host: &BenchHost<'_>, point: &SweepPoint, folder: &Path) -> Result<()> {
    // What an earlier sweep left must not be taken for results of this one.
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    let (program, rest) = host.program.split_first().ok_or_else(|| Error::invalid("no program"))?;
    let mut command = Command::new(program);
    command.args(rest).arg("bench").arg(&args.workload);
    command.args(args.overrides.iter().chain(&point.overrides));
    for engine in &args.engines {
        command.args(["--engine", engine.as_str()]);
    }
    if let Some(ranks) = point.ranks.or(args.ranks) {
        command.args(["--ranks", &ranks.to_string()]);
    }
    command.arg("--output").arg(folder).stdout(Stdio::null());
    let mut process = Lifeline::start(&mut command).map_err(Error::from_io)?;
    let status = process.wait(&mut || (host.is_interrupted)()).map_err(Error::from_io)?;
    if status.success() {
        return Ok(());
    }
    let values = point.values.join(", ");
    Err(Error::invalid(format!("the run at {values} ended with {status}")).at(folder.display()))
}
