//! Facts and numbers as tables.

use crate::{
    metrics::RunSummary,
    report::{
        Comparison,
        svg::escaped,
        unit::{bytes_text, count_text, time_text},
    },
};

/// A table that scrolls sideways where the screen is narrow.
pub(in crate::report) fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: &[String]| -> String {
        let all = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>"));
        format!("<tr>{}</tr>", all.collect::<String>())
    };
    let body: String = rows.iter().map(|row| cells("td", row)).collect();
    format!(
        "<div class=\"scroll\"><table><thead>{}</thead><tbody>{body}</tbody></table></div>",
        cells("th", head)
    )
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| escaped(name)).collect()
}

/// The epochs of training and of evaluation.
pub(super) fn epochs(run: &RunSummary) -> String {
    let splits = [("train", &run.train), ("eval", &run.eval)];
    let rows: Vec<Vec<String>> = splits
        .iter()
        .filter_map(|(name, split)| split.as_ref().map(|split| (name, split)))
        .flat_map(|(name, split)| {
            split.epochs.iter().map(move |epoch| {
                vec![
                    format!("{name} {}", epoch.epoch),
                    epoch.steps.to_string(),
                    time_text(epoch.seconds),
                    count_text(epoch.samples_per_s),
                    format!("{}/s", bytes_text(epoch.bytes_per_s)),
                    format!("{:.1} %", epoch.au_percent),
                    time_text(epoch.load_s),
                    time_text(epoch.compute_s),
                    time_text(epoch.barrier_s),
                    time_text(epoch.metadata_s),
                    time_text(epoch.read_s),
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = heads(&[
        "epoch",
        "steps",
        "time",
        "samples/s",
        "throughput",
        "AU",
        "wait for batches",
        "compute",
        "wait for ranks",
        "metadata*",
        "reading*",
    ]);
    let note =
        "<p class=\"why\">Means over ranks; * sums over the workers of a rank, which work side by side.</p>";
    table(&head, &rows) + note
}

/// A fact's name, and what it is of a run.
type FactRow = (&'static str, fn(&RunSummary) -> String);

/// What was run, a column for each run.
pub(super) fn facts(runs: &[RunSummary]) -> String {
    let rows: [FactRow; 12] = [
        ("engine", |run| run.engine.clone()),
        ("framework", |run| run.framework.clone()),
        ("format", |run| run.format.clone()),
        ("ranks", |run| {
            format!("{} on {} host{}", run.ranks, run.hosts, if run.hosts == 1 { "" } else { "s" })
        }),
        ("read threads", |run| run.read_threads.to_string()),
        ("batch size", |run| run.batch_size.to_string()),
        ("files", |run| run.files.to_string()),
        ("samples per file", |run| run.samples_per_file.to_string()),
        ("sample", |run| bytes_text(run.record_bytes as f64)),
        ("generated", |run| {
            run.generation.map_or("-".to_owned(), |made| {
                format!(
                    "{} files in {}, {} were there",
                    made.files_written,
                    time_text(made.seconds),
                    made.files_kept
                )
            })
        }),
        ("whole process", |run| time_text(run.wall_s)),
        ("complete", |run| if run.complete { "yes" } else { "no, interrupted" }.to_owned()),
    ];
    let head: Vec<String> =
        std::iter::once(String::new()).chain(runs.iter().map(|run| escaped(&run.label))).collect();
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(name, value)| {
            std::iter::once((*name).to_owned()).chain(runs.iter().map(|run| escaped(&value(run)))).collect()
        })
        .collect();
    table(&head, &rows)
}

/// Runs side by side, with ratios to the first.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let head: Vec<String> = std::iter::once("metric".to_owned())
        .chain(comparison.labels.iter().map(|label| escaped(label)))
        .collect();
    let row = |row: &crate::report::ComparisonRow| {
        let cells = row.texts.iter().zip(&row.ratios).map(|(text, ratio)| match ratio {
            Some(ratio) => format!("{}<span class=\"ratio\">{ratio:.2}x</span>", escaped(text)),
            None => escaped(text),
        });
        std::iter::once(escaped(&row.metric)).chain(cells).collect()
    };
    table(&head, &comparison.rows.iter().map(row).collect::<Vec<Vec<String>>>())
}
