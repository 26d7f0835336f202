//! What an epoch did, as text and as JSON.

use std::time::Duration;

use forebay::{
    EpochTiers,
    batch::{Bottleneck, LoaderStats},
};
use serde::Serialize;

use crate::{load::tier_report, output::show};

/// What an epoch did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EpochReport {
    pub(crate) epoch: u64,
    /// False when it was interrupted, or ended by an error.
    pub(crate) complete: bool,
    pub(crate) seconds: f64,
    pub(crate) first_batch_seconds: Option<f64>,
    pub(crate) samples_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) read_factor: f64,
    pub(crate) decode_factor: f64,
    pub(crate) verdict: Bottleneck,
    #[serde(flatten)]
    pub(crate) stats: LoaderStats,
    /// What came from where, with tiers.
    #[serde(skip)]
    pub(crate) tiers: Option<EpochTiers>,
}

/// When an epoch was, and how far it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EpochSpan {
    pub(crate) epoch: u64,
    pub(crate) complete: bool,
    pub(crate) took: Duration,
    pub(crate) first_batch: Option<Duration>,
}

impl EpochReport {
    pub(crate) fn new(span: EpochSpan, stats: LoaderStats, tiers: Option<EpochTiers>) -> Self {
        let seconds = span.took.as_secs_f64();
        Self {
            epoch: span.epoch,
            complete: span.complete,
            seconds,
            first_batch_seconds: span.first_batch.map(|time| time.as_secs_f64()),
            samples_per_second: ratio(stats.samples as f64, seconds),
            bytes_per_second: ratio(stats.delivered_bytes as f64, seconds),
            read_factor: ratio(stats.read_bytes as f64, stats.delivered_bytes as f64),
            decode_factor: ratio(stats.decoded_bytes as f64, stats.delivered_bytes as f64),
            verdict: once_running(&stats, span.first_batch).bottleneck(),
            stats,
            tiers,
        }
    }

    /// A few lines for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let stats = &self.stats;
        let so_far = if self.complete { "" } else { " so far" };
        let first =
            self.first_batch_seconds.map(|time| format!(", first batch after {}", show::seconds(time)));
        let mut lines = vec![
            format!(
                "epoch {}: {} samples in {}{so_far}, {}{}",
                self.epoch,
                stats.samples,
                show::seconds(self.seconds),
                self.rates(),
                first.unwrap_or_default()
            ),
            format!("  {}", times(stats)),
            format!(
                "  per byte used: {:.2} read, {:.2} decoded; {} decoded, {} of them again",
                self.read_factor,
                self.decode_factor,
                counted(stats.decoded_units, "unit", "units"),
                stats.decoded_again
            ),
        ];
        if stats.spilled_bytes + stats.unspilled_bytes > 0 {
            let (put, got) = (show::size(stats.spilled_bytes), show::size(stats.unspilled_bytes));
            lines.push(format!("  spill: {put} written, {got} read back"));
        }
        lines.extend(self.tiers.iter().map(|tiers| format!("  {}", tier_report::line(tiers))));
        if stats.skipped + stats.substituted > 0 {
            let (skipped, substituted) = (stats.skipped, stats.substituted);
            lines.push(format!("  could not be read: {skipped} left out, {substituted} replaced"));
        }
        lines.push(format!("  {}", self.verdict.advice()));
        lines
    }

    /// `9990 samples/s, 163.7 MB/s`.
    fn rates(&self) -> String {
        show::rates(self.samples_per_second, self.bytes_per_second)
    }
}

/// `stats` without the wait for the first batch: a run that has begun is judged by what goes on.
fn once_running(stats: &LoaderStats, first_batch: Option<Duration>) -> LoaderStats {
    let mut judged = *stats;
    if stats.batches > 1 {
        let nanos = first_batch.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        judged.wait_ns = judged.wait_ns.saturating_sub(nanos);
    }
    judged
}

/// What limited the run: the verdict on the epoch that took longest.
pub(crate) fn verdict(reports: &[EpochReport]) -> Bottleneck {
    let longest = reports.iter().max_by(|one, other| one.seconds.total_cmp(&other.seconds));
    longest.map_or(Bottleneck::Nothing, |report| report.verdict)
}

/// Where time went: that of threads is summed over all of them.
pub(crate) fn times(stats: &LoaderStats) -> String {
    let time = |nanos: u64| show::seconds(nanos as f64 / 1e9);
    let memory = match stats.memory_ns {
        0 => String::new(),
        waited => format!("waited for memory {}, ", time(waited)),
    };
    format!(
        "read {}, decode {}, copy {}, threads waited {}, {memory}consumer waited {}",
        time(stats.read_ns),
        time(stats.decode_ns),
        time(stats.copy_ns),
        time(stats.full_ns),
        time(stats.wait_ns)
    )
}

fn counted(many: u64, one: &str, more: &str) -> String {
    show::count(usize::try_from(many).unwrap_or(usize::MAX), one, more)
}

fn ratio(amount: f64, by: f64) -> f64 {
    if by > 0.0 { amount / by } else { 0.0 }
}
