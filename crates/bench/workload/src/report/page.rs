//! The page of one run, or of several side by side.
//!
//! | file | idea |
//! |---|---|
//! | `plots` | which plots a page has |
//! | `tables` | facts and numbers as tables |

mod plots;
mod tables;

use forebay_report::{Badge, BadgeKind, Page, Tile, bytes_text, count_text, time_text};

use crate::{
    metrics::{RunSummary, SplitSummary},
    report::compare,
};

pub(super) use plots::{card, scaling};
pub(super) use tables::cells;

/// Returns the HTML page of `runs`: one, or several side by side.
pub fn html(runs: &[RunSummary]) -> String {
    let runs = &compare::told_apart(runs)[..];
    let title = match runs {
        [one] => format!("{} on {}", one.model, one.engine),
        _ => format!("{} runs compared", runs.len()),
    };
    let (tiles, summary) = match runs {
        [one] => (tiles(one), None),
        _ => (Vec::new(), Some(tables::comparison(&compare::compare(runs)))),
    };
    let epochs = runs.iter().filter_map(|run| {
        let heading = if runs.len() > 1 { format!("Epochs: {}", run.label) } else { "Epochs".to_owned() };
        tables::epochs(run, heading)
    });
    let page = Page {
        command: "forebay bench".into(),
        title,
        started_unix_s: first_start(runs.iter()),
        badges: badges(runs),
        tiles,
        summary,
        cards: plots::cards(runs),
        tables: epochs.chain([tables::facts(runs)]).collect(),
        ..Page::default()
    };
    page.html()
}

/// Returns the start of the run that began first, in seconds since 1970.
pub(super) fn first_start<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> Option<f64> {
    runs.map(|run| run.started_unix_s).reduce(f64::min).filter(|start| start.is_finite())
}

fn badges(runs: &[RunSummary]) -> Vec<Badge> {
    let mut badges = Vec::new();
    if runs.iter().any(|run| !run.complete) {
        let text = "interrupted: numbers cover a part of the run".into();
        badges.push(Badge { kind: BadgeKind::Warn, text });
    }
    if let [RunSummary { verdict: Some(verdict), .. }] = runs {
        let (kind, word) =
            if verdict.passes { (BadgeKind::Pass, "passes") } else { (BadgeKind::Fail, "fails") };
        let (au, target) = (verdict.au_percent, verdict.target_percent);
        let text = format!("MLPerf Storage: {word} ({au:.1} % AU, {target:.0} % asked for)");
        badges.push(Badge { kind, text });
    }
    badges
}

/// Returns the few numbers that are looked at first.
fn tiles(run: &RunSummary) -> Vec<Tile> {
    let mut tiles = Vec::new();
    if let Some(train) = &run.train {
        tiles.extend(split_tiles(train));
    }
    if let Some(save) = &run.save {
        tiles.push((
            "Checkpoint saved at",
            format!("{}/s", bytes_text(save.bytes_per_s.mean)),
            time_text(save.seconds.mean),
        ));
    }
    if let Some(load) = &run.load {
        tiles.push((
            "Checkpoint loaded at",
            format!("{}/s", bytes_text(load.bytes_per_s.mean)),
            time_text(load.seconds.mean),
        ));
    }
    tiles.push(("Whole process", time_text(run.wall_s), format!("{} of CPU", time_text(run.cpu_s))));
    let tile = |(name, value, more): (&str, String, String)| Tile { name: name.into(), value, more };
    tiles.into_iter().map(tile).collect()
}

fn split_tiles(train: &SplitSummary) -> Vec<(&'static str, String, String)> {
    let mut tiles = vec![
        (
            "Throughput",
            format!("{}/s", bytes_text(train.bytes_per_s.mean)),
            format!(
                "{} samples/s ± {}",
                count_text(train.samples_per_s.mean),
                count_text(train.samples_per_s.stdev)
            ),
        ),
        (
            "Accelerator utilisation",
            format!("{:.1} %", train.au_percent.mean),
            format!("± {:.1} over {} epochs", train.au_percent.stdev, train.epochs.len()),
        ),
    ];
    if train.latency.count > 0 {
        let latency = &train.latency;
        let more = format!("median {}, 99.9 % {}", time_text(latency.p50_s), time_text(latency.p999_s));
        tiles.push(("Sample latency, 99 %", time_text(latency.p99_s), more));
    }
    if train.metadata_per_s.mean > 0.0 {
        let value = format!("{}/s", count_text(train.metadata_per_s.mean));
        tiles.push(("Metadata rate of a worker", value, "files opened and closed".to_owned()));
    }
    tiles
}
