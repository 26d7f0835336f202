//! What was read from which tier, as a table.

use forebay::{EpochTiers, TierReport, tier::TierStats};

use crate::output::show;

/// One line for an epoch.
pub(crate) fn line(epoch: &EpochTiers) -> String {
    let origin = &epoch.stats.origin;
    let hits = epoch.hit_ratio.map_or_else(|| "nothing".to_owned(), |ratio| format!("{:.1}%", 100.0 * ratio));
    format!(
        "tiers: {hits} of the bytes; origin: {} in {} reads, waited {:.2} s",
        show::size(origin.bytes),
        origin.reads,
        seconds(epoch.stats.wait_ns)
    )
}

/// The table at the end of a run.
pub(crate) fn table(report: &TierReport) -> Vec<String> {
    let name_width =
        report.total.tiers.iter().map(|tier| tier.name.chars().count()).max().unwrap_or(0).max(6);
    let row = |name: &str, reads: u64, bytes: u64, ns: u64, rest: &str| {
        format!(
            "  {name:<name_width$}  {reads:>10}  {:>10}  {:>8.2} s  {rest}",
            show::size(bytes),
            seconds(ns)
        )
    };
    let mut lines =
        vec![format!("  {:<name_width$}  {:>10}  {:>10}  {:>10}  held", "tier", "reads", "bytes", "time")];
    for tier in &report.total.tiers {
        lines.push(row(&tier.name, tier.reads, tier.bytes, tier.ns, &held(tier)));
    }
    let total = &report.total;
    lines.push(row("origin", total.origin.reads, total.origin.bytes, total.origin.ns, ""));
    let mut last = format!("  placed {}", show::size(total.placed_bytes));
    if total.backlog > 0 {
        last.push_str(&format!(
            ", {} still to come of",
            show::count(usize::try_from(total.backlog).unwrap_or(usize::MAX), "file", "files")
        ));
    }
    if total.ahead > 0 {
        last.push_str(&format!(", {} reads served by what was fetched ahead", total.ahead));
    }
    last.push_str(&format!("; {} reads of the origin saved", report.saved));
    lines.push(last);
    lines
}

fn held(tier: &TierStats) -> String {
    if let Some(why) = &tier.left_out {
        return format!("left out: {}", show::message(why));
    }
    if tier.quota == 0 {
        return "nothing: there is no room for it, `forebay doctor` says why".to_owned();
    }
    let mut held = format!("{} of {}", show::size(tier.used), show::size(tier.quota));
    if tier.evicted > 0 {
        held.push_str(&format!(", {} left", tier.evicted));
    }
    if tier.faults > 0 {
        held.push_str(&format!(", {} faults", tier.faults));
    }
    held
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
