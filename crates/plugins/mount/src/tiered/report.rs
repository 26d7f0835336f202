//! What went through a folder that is shown through tiers.

use forebay_tier::Stats;
use serde::Serialize;

use crate::fuse::tally::{Counter, TallyCounts};

/// What went through a mount of `forebay mount`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TieredMountReport {
    /// Files opened.
    pub opens: u64,
    /// Of them, those that the kernel reads from a copy by itself: their reads are not counted.
    pub passthrough_opens: u64,
    /// Reads that came to this process: what the kernel's page cache has does not.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files of which the rest was read from the origin as it is, after an error such as that of a changed file.
    pub fallbacks: u64,
    /// Seconds since it was mounted.
    pub seconds: f64,
    /// What was read from which tier and from the origin; nothing without tiers.
    pub tiers: Option<Stats>,
}

impl TieredMountReport {
    pub(crate) fn new(counts: &TallyCounts, tiers: Option<Stats>) -> Self {
        Self {
            opens: counts.of(Counter::Opens),
            passthrough_opens: counts.of(Counter::PassthroughOpens),
            reads: counts.of(Counter::Reads),
            bytes: counts.of(Counter::Bytes),
            fallbacks: counts.of(Counter::Fallbacks),
            seconds: counts.seconds,
            tiers,
        }
    }

    /// One line of JSON.
    pub fn json(&self) -> String {
        // Numbers and fixed names cannot fail to be JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A few lines for people, sizes written by `size`.
    pub fn lines(&self, size: impl Fn(u64) -> String) -> Vec<String> {
        let mut lines = vec![format!(
            "{} files opened, {} of them read by the kernel from a copy; {} reads of {} in {:.1} s",
            self.opens,
            self.passthrough_opens,
            self.reads,
            size(self.bytes),
            self.seconds
        )];
        let Some(stats) = &self.tiers else { return lines };
        for tier in &stats.tiers {
            let held = match &tier.left_out {
                Some(why) => format!("left out: {why}"),
                None => format!("holds {} of {}", size(tier.used), size(tier.quota)),
            };
            lines.push(format!("  {}: {} reads of {}; {held}", tier.name, tier.reads, size(tier.bytes)));
        }
        let origin = &stats.origin;
        let placed = size(stats.placed_bytes);
        lines.push(format!("  origin: {} reads of {}; {placed} placed", origin.reads, size(origin.bytes)));
        if self.fallbacks > 0 {
            lines.push(format!("  {} files changed or failed while they were open", self.fallbacks));
        }
        lines
    }
}
