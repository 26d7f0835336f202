//! The report as one HTML page: no script, no network, plots as inline SVG, light and dark.
//!
//! | file | idea |
//! |---|---|
//! | `style` | the style sheet |
//! | `plots` | which plots a report has |
//! | `tables` | facts and numbers as tables |

mod plots;
mod style;
mod tables;

use crate::{
    metrics::{RunSummary, SplitSummary},
    report::{
        compare,
        svg::escaped,
        time::iso,
        unit::{bytes_text, count_text, time_text},
    },
};

pub(super) use plots::{card, scaling};
pub(super) use tables::table;

/// The page of `runs`: one, or several side by side.
pub fn html(runs: &[RunSummary]) -> String {
    let runs = &compare::told_apart(runs)[..];
    let title = match runs {
        [one] => format!("{} on {}", one.model, one.engine),
        _ => format!("{} runs compared", runs.len()),
    };
    let mut body = header(&title, runs);
    if let [one] = runs {
        body += &tiles(one);
    } else {
        body += &section("Runs side by side", &tables::comparison(&compare::compare(runs)));
    }
    body += &format!("<div class=\"cards\">{}</div>", plots::cards(runs));
    for run in runs {
        let heading = if runs.len() > 1 { format!("Epochs: {}", run.label) } else { "Epochs".to_owned() };
        body += &section(&heading, &tables::epochs(run));
    }
    body += &section("What was run", &tables::facts(runs));
    page(&title, &body)
}

/// A whole document around `body`.
pub(super) fn page(title: &str, body: &str) -> String {
    page_of("forebay bench", title, body)
}

/// The same, of another command.
pub(super) fn page_of(command: &str, title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{} · {}</title>\n<style>{}</style>\n</head>\n\
         <body>\n<main>\n{body}\n</main>\n</body>\n</html>\n",
        escaped(title),
        escaped(command),
        style::CSS,
    )
}

/// A heading and what stands below it.
pub(super) fn section(heading: &str, inner: &str) -> String {
    if inner.is_empty() {
        return String::new();
    }
    format!("<section><h2>{}</h2>{inner}</section>\n", escaped(heading))
}

fn header(title: &str, runs: &[RunSummary]) -> String {
    let mut badges = String::new();
    if runs.iter().any(|run| !run.complete) {
        badges += "<span class=\"badge warn\">interrupted: numbers cover a part of the run</span>";
    }
    if let [RunSummary { verdict: Some(verdict), .. }] = runs {
        let (class, word) = if verdict.passes { ("pass", "passes") } else { ("fail", "fails") };
        badges += &format!(
            "<span class=\"badge {class}\">MLPerf Storage: {word} ({:.1} % AU, {:.0} % asked for)</span>",
            verdict.au_percent, verdict.target_percent
        );
    }
    let begun = runs.iter().map(|run| run.started_unix_s).fold(f64::INFINITY, f64::min);
    let when = if begun.is_finite() { iso(begun)[..19].replace('T', " ") + " UTC" } else { String::new() };
    format!(
        "<header><p class=\"brand\">forebay bench</p><h1>{}</h1><p class=\"when\">{when}</p>{badges}</header>\n",
        escaped(title)
    )
}

/// The few numbers that are looked at first.
fn tiles(run: &RunSummary) -> String {
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
    let cards = tiles.iter().map(|(name, value, more)| {
        format!(
            "<div class=\"tile\"><p class=\"name\">{name}</p><p class=\"value\">{}</p><p class=\"more\">{}</p></div>",
            escaped(value),
            escaped(more)
        )
    });
    format!("<div class=\"tiles\">{}</div>\n", cards.collect::<String>())
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
