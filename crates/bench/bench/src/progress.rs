//! Progress bars on standard error, of rank 0 alone; none where that is no terminal, or where programs read the answer.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressView {
    /// On terminals.
    Shown,
    /// Never.
    Hidden,
}

/// A bar that leaves the screen when it goes.
#[derive(Debug)]
pub(crate) struct PhaseBar(ProgressBar);

impl ProgressView {
    /// Files that are generated.
    pub(crate) fn files(self, count: u64) -> PhaseBar {
        self.bar(count, "generate {wide_bar} {pos}/{len} files, {eta} left")
    }

    /// Steps of an epoch of `split`.
    pub(crate) fn steps(self, count: u64, split: &str, epoch: u32, epochs: u32) -> PhaseBar {
        self.bar(count, &format!("{split}, epoch {epoch} of {epochs} {{wide_bar}} {{pos}}/{{len}} steps, {{per_sec}}, {{eta}} left"))
    }

    /// Bytes of a checkpoint that is saved or loaded.
    pub(crate) fn checkpoint(self, bytes: u64, verb: &str) -> PhaseBar {
        self.bar(
            bytes,
            &format!("{verb} checkpoint {{wide_bar}} {{bytes}}/{{total_bytes}}, {{bytes_per_sec}}"),
        )
    }

    fn bar(self, len: u64, template: &str) -> PhaseBar {
        let target = match self {
            // Standard error that is no terminal shows none.
            Self::Shown => ProgressDrawTarget::stderr_with_hz(5),
            Self::Hidden => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(len), target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        PhaseBar(bar)
    }
}

impl PhaseBar {
    /// So much more is done.
    pub(crate) fn add(&self, count: u64) {
        self.0.inc(count);
    }
}

impl Drop for PhaseBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
