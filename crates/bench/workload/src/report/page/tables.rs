//! Facts and numbers as tables.

use forebay_report::{Cell, Table, bytes_text, count_text, time_text};

use crate::{
    metrics::RunSummary,
    report::{Comparison, ComparisonRow},
};

/// Returns `texts` as cells.
pub(in crate::report) fn cells(texts: impl IntoIterator<Item = String>) -> Vec<Cell> {
    texts.into_iter().map(Cell::from).collect()
}

/// Returns the epochs of training and of evaluation, if there are any.
pub(super) fn epochs(run: &RunSummary, heading: String) -> Option<Table> {
    let splits = [("train", &run.train), ("eval", &run.eval)];
    let rows: Vec<Vec<Cell>> = splits
        .iter()
        .filter_map(|(name, split)| split.as_ref().map(|split| (name, split)))
        .flat_map(|(name, split)| {
            split.epochs.iter().map(move |epoch| {
                cells([
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
                ])
            })
        })
        .collect();
    let columns = [
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
    ];
    let columns = columns.map(str::to_owned).to_vec();
    let note = "Means over ranks; * sums over the workers of a rank, which work side by side.".into();
    (!rows.is_empty()).then_some(Table { heading, columns, rows, note })
}

/// A fact's name, and what it is of a run.
type FactRow = (&'static str, fn(&RunSummary) -> String);

/// Returns the settings of `runs`, a column for each.
pub(super) fn facts(runs: &[RunSummary]) -> Table {
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
    let row =
        |(name, value): &FactRow| cells(std::iter::once((*name).to_owned()).chain(runs.iter().map(value)));
    Table {
        heading: "What was run".into(),
        columns: std::iter::once(String::new()).chain(runs.iter().map(|run| run.label.clone())).collect(),
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Returns runs side by side, with ratios to the first.
pub(super) fn comparison(comparison: &Comparison) -> Table {
    let row = |row: &ComparisonRow| {
        let cells = row.texts.iter().zip(&row.ratios).map(|(text, ratio)| Cell {
            text: text.clone(),
            aside: ratio.map_or(String::new(), |ratio| format!("{ratio:.2}x")),
        });
        std::iter::once(row.metric.clone().into()).chain(cells).collect()
    };
    Table {
        heading: "Runs side by side".into(),
        columns: std::iter::once("metric".to_owned()).chain(comparison.labels.iter().cloned()).collect(),
        rows: comparison.rows.iter().map(row).collect(),
        ..Table::default()
    }
}
