//! What went through a folder that is shown through tiers.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Instant,
};

use forebay_tier::Stats;
use serde::Serialize;

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

/// Counters that many threads count in.
#[derive(Debug)]
pub(crate) struct ViewTally {
    pub(crate) opens: AtomicU64,
    pub(crate) passthrough_opens: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) fallbacks: AtomicU64,
    began: Instant,
}

impl ViewTally {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        let (opens, passthrough_opens, reads, bytes, fallbacks) = (zero(), zero(), zero(), zero(), zero());
        Self { opens, passthrough_opens, reads, bytes, fallbacks, began: Instant::now() }
    }

    pub(crate) fn report(&self, tiers: Option<Stats>) -> TieredMountReport {
        TieredMountReport {
            opens: self.opens.load(Relaxed),
            passthrough_opens: self.passthrough_opens.load(Relaxed),
            reads: self.reads.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            fallbacks: self.fallbacks.load(Relaxed),
            seconds: self.began.elapsed().as_secs_f64(),
            tiers,
        }
    }
}
