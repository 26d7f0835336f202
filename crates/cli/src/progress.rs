//! A progress bar on standard error, on terminals only.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

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
