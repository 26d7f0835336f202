//! What tiers served during an epoch, as reports have it.

use forebay::tier::Stats;
use forebay_workload::TierCounts;

/// What each tier and the origin served, of what was read in `stats`: a read that a tier did not serve went on to the next.
pub(crate) fn counts(stats: &Stats) -> Vec<TierCounts> {
    let origin = TierCounts {
        tier: "origin".to_owned(),
        hits: stats.origin.reads,
        misses: 0,
        bytes: stats.origin.bytes,
    };
    let mut counts = vec![origin];
    let mut beyond = stats.origin.reads;
    for tier in stats.tiers.iter().rev() {
        counts.push(TierCounts {
            tier: tier.name.clone(),
            hits: tier.reads,
            misses: beyond,
            bytes: tier.bytes,
        });
        beyond += tier.reads;
    }
    counts.reverse();
    counts
}

#[cfg(test)]
mod tests {
    use forebay::tier::{OriginStats, TierStats};

    use super::*;

    #[test]
    fn what_a_tier_does_not_serve_goes_on_to_the_next() {
        let tier = |name: &str, reads| TierStats {
            name: name.into(),
            reads,
            bytes: 10 * reads,
            ..TierStats::default()
        };
        let stats = Stats {
            tiers: vec![tier("memory", 7), tier("disk", 2)],
            origin: OriginStats { reads: 1, bytes: 100, ns: 5 },
            ..Stats::default()
        };
        let seen: Vec<_> =
            counts(&stats).into_iter().map(|one| (one.tier, one.hits, one.misses, one.bytes)).collect();
        let expected = [("memory", 7, 3, 70), ("disk", 2, 1, 20), ("origin", 1, 0, 100)];
        assert_eq!(seen, expected.map(|(name, hits, misses, bytes)| (name.to_owned(), hits, misses, bytes)));
    }
}
