//! A progress bar on standard error, on terminals only.

use std::io::{self, IsTerminal};

use forebay::batch::LoaderStats;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::show;

/// Less than this is done before a bar could be read.
const LEAST_BYTES: u64 = 64 << 20;

/// What a bar shares the terminal with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nothing that flows: a checksum, a file.
    Quiet,
    /// Values, which a bar would tear.
    Values,
}

/// A bar for `bytes`; an unseen one where it is not worth showing or not wanted.
pub(crate) fn bar(bytes: u64, beside: Beside) -> ProgressBar {
    let is_torn = beside == Beside::Values && io::stdout().is_terminal();
    if bytes < LEAST_BYTES || is_torn {
        return ProgressBar::hidden();
    }
    // Standard error that is no terminal shows none.
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
    {
        bar.set_style(style);
    }
    bar
}

/// A bar for `count` files.
pub(crate) fn files(count: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} files {msg} {eta}") {
        bar.set_style(style);
    }
    bar
}

/// A bar for `count` batches of `epoch`.
pub(crate) fn batches(count: u64, epoch: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    let template = format!("epoch {epoch} {{wide_bar}} {{pos}}/{{len}} {{msg}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// Writes beside `bar` how fast it goes and where time goes.
pub(crate) fn tell(bar: &ProgressBar, stats: impl FnOnce() -> LoaderStats) {
    if bar.is_hidden() {
        return;
    }
    let (stats, elapsed) = (stats(), bar.elapsed().as_secs_f64().max(1e-3));
    let speed = show::rates(stats.samples as f64 / elapsed, stats.delivered_bytes as f64 / elapsed);
    let working = stats.read_ns + stats.decode_ns + stats.copy_ns;
    let share = |nanos: u64| 100 * nanos / working.max(1);
    let waited = 100.0 * stats.wait_ns as f64 / 1e9 / elapsed;
    bar.set_message(format!(
        "{speed}, read {}%, decode {}%, waited {waited:.0}%",
        share(stats.read_ns),
        share(stats.decode_ns)
    ));
}
