//! Where the units of one data set go: its copies in the tier, and its number in this process.

use std::sync::Arc;

use forebay_tier::{Admission, Claim, Claimed, Copies};

use crate::units::cache_stats::CacheStats;

/// Where units go.
#[derive(Clone, Debug)]
pub(crate) struct UnitTarget {
    /// What the tier keeps of the data set.
    pub(crate) copies: Arc<dyn Copies>,
    /// The data set among those of this process.
    pub(crate) number: u64,
    /// Blocks of the tier that a unit takes.
    pub(crate) blocks_per_unit: u64,
    /// Bytes of a block.
    pub(crate) block_len: u64,
    /// Other copies may leave for them.
    pub(crate) may_replace: bool,
}

/// Room for a block, and the lock by which other processes leave its unit to this one.
#[derive(Debug)]
pub(crate) struct BlockClaim {
    /// Which block.
    pub(crate) block: u64,
    /// Its room.
    pub(crate) claim: Box<dyn Claimed>,
}

impl UnitTarget {
    /// Puts `bytes` of `unit`, and zeros behind them, into the tier: all blocks or the first ones where it fills up. `held` is on
    /// one of them.
    pub(crate) fn put(&self, unit: u64, bytes: &[u8], mut held: Option<BlockClaim>, stats: &CacheStats) {
        let step = usize::try_from(self.block_len).unwrap_or(usize::MAX);
        let (mut left, mut padded) = (bytes.len(), Vec::new());
        // The first block goes last: who finds it absent and claimed waits for the whole unit.
        let (first, end) = (unit * self.blocks_per_unit, (unit + 1) * self.blocks_per_unit);
        for block in (first + 1..end).chain([first]) {
            let from = usize::try_from(block - first).unwrap_or(usize::MAX).saturating_mul(step);
            let rest = bytes.get(from..).unwrap_or_default();
            let now = &rest[..step.min(rest.len())];
            left = left.saturating_sub(now.len());
            let now = if now.len() == step {
                now
            } else {
                padded.clear();
                padded.extend_from_slice(now);
                padded.resize(step, 0);
                &padded
            };
            let claim = match held.take_if(|held| held.block == block) {
                Some(held) => Claim::Held(held.claim),
                None => Arc::clone(&self.copies).claim(block, self.block_len, self.may_replace),
            };
            let is_there = match claim {
                Claim::Held(claim) => claim.put(now) == Admission::Kept,
                // Another process puts the same unit.
                Claim::Here | Claim::Busy => true,
                Claim::Full => false,
            };
            if !is_there {
                stats.refused(left + now.len());
                return;
            }
            stats.kept(now.len());
        }
    }
}
