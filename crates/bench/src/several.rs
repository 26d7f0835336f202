//! Several runs: those of earlier commands side by side, and a grid of parameters.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use forebay::{Error, Result};
use forebay_workload::{
    metrics::summarise,
    report::{self, SweepPoint},
};
use serde_json::json;

use crate::{args::SweepArgs, bench_host::BenchHost, results};

/// Compares the runs at `paths` with the first of them, as text or JSON; a page of all goes to `html`.
pub(crate) fn compare(paths: &[PathBuf], html: Option<&Path>, is_json: bool) -> Result<String> {
    let runs = paths.iter().map(|path| results::read(path)).collect::<Result<Vec<_>>>()?;
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
pub(crate) fn sweep(args: &SweepArgs, host: &BenchHost<'_>, is_json: bool) -> Result<String> {
    let axes = args.axes.iter().map(|axis| report::parse_axis(axis)).collect::<Result<Vec<_>>>()?;
    let points = report::sweep_points(&axes)?;
    let mut done = Vec::new();
    for (number, point) in points.into_iter().enumerate() {
        if (host.is_interrupted)() {
            break;
        }
        let folder = args.output.join(format!("point-{}", number + 1));
        run_point(args, host, &point, &folder)?;
        done.push((point, summarise(&results::read(&folder)?)));
    }
    let (csv, html) = (report::sweep_csv(&axes, &done), report::sweep_html(&axes, &done));
    results::write_file(&args.output, "sweep.csv", &csv)?;
    results::write_file(&args.output, "sweep.html", &html)?;
    match is_json {
        true => Ok(format!("{}\n", json!({ "folder": args.output, "points": done.len() }))),
        false => Ok(format!("{csv}results in {}\n", args.output.display())),
    }
}

fn run_point(args: &SweepArgs, host: &BenchHost<'_>, point: &SweepPoint, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    let (program, rest) = host.program.split_first().ok_or_else(|| Error::invalid("no program"))?;
    let mut command = Command::new(program);
    command.args(rest).arg("bench").arg(&args.workload);
    command.args(args.overrides.iter().chain(&point.overrides));
    if let Some(engine) = args.engine {
        command.args(["--engine", engine.as_str()]);
    }
    if let Some(ranks) = point.ranks.or(args.ranks) {
        command.args(["--ranks", &ranks.to_string()]);
    }
    command.arg("--output").arg(folder).stdout(Stdio::null());
    let status = command.status().map_err(Error::from_io)?;
    if status.success() {
        return Ok(());
    }
    let point: Vec<OsString> = point.values.iter().map(OsString::from).collect();
    Err(Error::invalid(format!("the run at {point:?} ended with {status}")).at(folder.display()))
}
