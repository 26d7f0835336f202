//! Results as files: h5bench's CSV, DLIO's JSON, ours, and an HTML page. All are text; another crate writes them.
//!
//! | file | idea |
//! |---|---|
//! | `csv` | h5bench's CSV, of all ranks and of each |
//! | `dlio` | `summary.json`, `per_epoch_stats`, `output.json` |
//! | `page/` | the tiles, plots and tables of one page of HTML |
//! | `compare` | runs side by side |
//! | `sweep` | a grid of parameters, as overrides, and its results |

mod compare;
mod csv;
mod dlio;
mod page;
mod sweep;

use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{
    metrics::{DlioFormula, RunSummary, summarise},
    timings::RunTimings,
};

pub use compare::{Comparison, ComparisonRow, compare};
pub use csv::{csv, csv_of_rank};
pub use dlio::{output, per_epoch_stats, summary};
pub use page::html;
pub use sweep::{KeyStyle, SweepAxis, SweepPoint, parse_axis, sweep_csv, sweep_html, sweep_points};

/// One file of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Its name within the folder of the results.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// The version of our JSON: readers refuse a newer one.
pub const REPORT_VERSION: u32 = 1;

/// All files of the report of one run.
pub fn files(run: &RunTimings) -> Result<Vec<ReportFile>> {
    let formula = DlioFormula::of(&run.workload);
    let output_spec = &run.workload.output;
    let file = |name: String, text: String| ReportFile { name, text };
    let mut files = vec![
        file(format!("{}.csv", output_spec.csv_name), csv(run)),
        file("summary.json".into(), pretty(&summary(run, formula))?),
        file("report.json".into(), json(run)?),
        file("report.html".into(), html(&[summarise(run)])),
    ];
    for rank in &run.ranks {
        files.push(file(format!("{}_per_epoch_stats.json", rank.rank), pretty(&per_epoch_stats(run, rank))?));
        files.push(file(format!("{}_output.json", rank.rank), pretty(&output(run, rank, formula))?));
        if output_spec.csv_per_rank {
            files.push(file(format!("{}_{}.csv", rank.rank, output_spec.csv_name), csv_of_rank(run, rank)));
        }
    }
    Ok(files)
}

/// Our JSON: the summary of the run and all it recorded, from which [`read_json`] makes the run again.
pub fn json(run: &RunTimings) -> Result<String> {
    let (complete, summary) = (run.complete, summarise(run));
    pretty(&OwnReport { forebay_bench: REPORT_VERSION, complete, summary, timings: run })
}

/// Our JSON; of millions of steps no tree is built.
#[derive(Serialize)]
struct OwnReport<'a> {
    forebay_bench: u32,
    complete: bool,
    summary: RunSummary,
    timings: &'a RunTimings,
}

/// What is looked at first in our JSON.
#[derive(Deserialize)]
struct ReportVersion {
    forebay_bench: Option<u64>,
}

/// What a run is made again from.
#[derive(Deserialize)]
struct ReportTimings {
    timings: RunTimings,
}

/// The run of a file that [`json`] made.
pub fn read_json(text: &str) -> Result<RunTimings> {
    let not_ours = |cause: serde_json::Error| {
        Error::new(ErrorKind::Invalid, "this is no report of forebay bench").because(cause)
    };
    match serde_json::from_str::<ReportVersion>(text).map_err(not_ours)?.forebay_bench {
        Some(version) if version <= u64::from(REPORT_VERSION) => {}
        Some(version) => {
            let what =
                format!("a report of version {version}, and this program reads up to {REPORT_VERSION}");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        None => return Err(Error::new(ErrorKind::Invalid, "this is no report of forebay bench")),
    }
    serde_json::from_str::<ReportTimings>(text).map(|report| report.timings).map_err(not_ours)
}

fn pretty(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    text.map(|text| text + "\n")
        .map_err(|cause| Error::new(ErrorKind::Bug, "results are no JSON").because(cause))
}
