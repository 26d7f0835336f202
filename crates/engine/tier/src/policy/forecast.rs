//! What a policy would read from the origin, computed and not run.

use std::collections::{HashMap, HashSet};

use crate::policy::{BlockFacts, EvictionQueue, Policy, Score};

/// A tier that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastTier {
    /// The most bytes it may hold.
    pub quota: u64,
    /// Whether a whole source leaves at once, as on a disk, and not single blocks.
    pub evicts_sources: bool,
}

/// What is used: a block of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockUse {
    /// Which source.
    pub source: u32,
    /// Which block of it.
    pub block: u32,
    /// Bytes of the block.
    pub len: u32,
    /// Bytes of it that are asked for, which are read where no tier keeps the block; 0 for one that only follows what
    /// was read, and is read just if a tier keeps it.
    pub asked: u32,
}

impl BlockUse {
    /// What it is a use of.
    fn what(self) -> BlockNumber {
        (self.source, self.block)
    }
}

/// A block, by its source and number.
type BlockNumber = (u32, u32);

/// What would be read from the origin in one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Blocks, or parts of them that no tier keeps.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What `policy` would read from the origin in each of `epochs`, whose uses come in that order.
///
/// Several uses of a block right after each other are best given as one. Whole files follow a partial read only where
/// `epochs` say so.
pub fn forecast(tiers: &[ForecastTier], policy: &dyn Policy, epochs: &[Vec<BlockUse>]) -> Vec<Forecast> {
    let next_uses = next_uses(epochs);
    let mut simulated: Vec<SimulatedTier<'_>> =
        tiers.iter().map(|tier| SimulatedTier::new(*tier, policy)).collect();
    let mut now = 0;
    let mut forecasts = Vec::with_capacity(epochs.len());
    for epoch in epochs {
        let mut forecast = Forecast::default();
        for used in epoch {
            let next = next_uses[usize::try_from(now).unwrap_or(0)];
            now += 1;
            if simulated.iter_mut().any(|tier| tier.hit(*used, now, next)) {
                continue;
            }
            let incoming = IncomingBlock { used: *used, now, next };
            let is_kept = place(&mut simulated, incoming);
            let bytes = if is_kept { used.len } else { used.asked };
            forecast.reads += u64::from(bytes > 0);
            forecast.bytes += u64::from(bytes);
        }
        forecasts.push(forecast);
    }
    forecasts
}

/// A block that is to be kept.
#[derive(Clone, Copy, Debug)]
struct IncomingBlock {
    used: BlockUse,
    now: u64,
    next: Option<u64>,
}

/// Keeps `incoming` on the highest of `simulated` that has tier for it, or else on the highest that others leave for it; as
/// placement does, what leaves goes to the simulated below. True when it is kept.
fn place(simulated: &mut [SimulatedTier<'_>], incoming: IncomingBlock) -> bool {
    if simulated.iter_mut().any(|tier| tier.put_if_free(incoming)) {
        return true;
    }
    for index in 0..simulated.len() {
        let Some(left) = simulated[index].put_by_evicting(incoming) else { continue };
        for (block, held) in left {
            let len = u32::try_from(held.len).unwrap_or(u32::MAX);
            let used = BlockUse { source: block.0, block: block.1, len, asked: len };
            place(
                &mut simulated[index + 1..],
                IncomingBlock { used, now: incoming.now, next: held.next_use },
            );
        }
        return true;
    }
    false
}

/// For each use, when the same block is used next.
fn next_uses(epochs: &[Vec<BlockUse>]) -> Vec<Option<u64>> {
    let count: usize = epochs.iter().map(Vec::len).sum();
    let mut next = vec![None; count];
    let mut seen: HashMap<BlockNumber, u64> = HashMap::new();
    let mut at = count;
    for used in epochs.iter().rev().flat_map(|epoch| epoch.iter().rev()) {
        at -= 1;
        next[at] = seen.insert(used.what(), at as u64 + 1);
    }
    next
}

/// What leaves as one.
type EvictionUnit = (u32, Option<u32>);

#[derive(Debug)]
struct SimulatedTier<'a> {
    tier: ForecastTier,
    policy: &'a dyn Policy,
    used: u64,
    blocks: HashSet<BlockNumber>,
    units: HashMap<EvictionUnit, SimulatedUnit>,
    queue: EvictionQueue<EvictionUnit>,
}

#[derive(Clone, Debug)]
struct SimulatedUnit {
    len: u64,
    blocks: Vec<BlockNumber>,
    placed: u64,
    touched: u64,
    uses: u64,
    next_use: Option<u64>,
}

impl SimulatedUnit {
    fn score(&self, policy: &dyn Policy) -> Score {
        policy.score(&BlockFacts {
            source: None,
            block: None,
            len: self.len,
            placed: self.placed,
            used: self.touched,
            uses: self.uses,
            next_use: self.next_use,
        })
    }
}

impl<'a> SimulatedTier<'a> {
    fn new(tier: ForecastTier, policy: &'a dyn Policy) -> Self {
        Self {
            tier,
            policy,
            used: 0,
            blocks: HashSet::new(),
            units: HashMap::new(),
            queue: EvictionQueue::default(),
        }
    }

    fn unit(&self, used: BlockUse) -> EvictionUnit {
        (used.source, (!self.tier.evicts_sources).then_some(used.block))
    }

    /// Uses a block, if it is here.
    fn hit(&mut self, used: BlockUse, now: u64, next: Option<u64>) -> bool {
        if !self.blocks.contains(&used.what()) {
            return false;
        }
        let unit = self.unit(used);
        if let Some(held) = self.units.get_mut(&unit) {
            held.touched = now;
            held.uses += 1;
            held.next_use = if self.tier.evicts_sources { held.next_use.min(next).or(next) } else { next };
        }
        true
    }

    /// Keeps a block, if there is tier.
    fn put_if_free(&mut self, incoming: IncomingBlock) -> bool {
        let is_free = self.used + u64::from(incoming.used.len) <= self.tier.quota;
        if is_free {
            self.insert(incoming);
        }
        is_free
    }

    /// Keeps a block if others may leave for it, and gives those that another tier may keep; if not, all stay.
    fn put_by_evicting(&mut self, incoming: IncomingBlock) -> Option<Vec<(BlockNumber, SimulatedUnit)>> {
        let used = incoming.used;
        // Where what is kept is to last, nothing leaves for bytes that nobody asked for, nor a whole file for a part.
        let is_part = used.len - used.asked.min(used.len) > used.len / 8 || self.tier.evicts_sources;
        let stays = self.policy.never_evicts() || self.policy.newcomers_compete() && is_part;
        if stays || u64::from(used.len) > self.tier.quota {
            return None;
        }
        let mut left: Vec<(EvictionUnit, SimulatedUnit)> = Vec::new();
        while self.used + u64::from(used.len) > self.tier.quota {
            let Some(victim) = self.victim(incoming) else {
                for (unit, held) in left {
                    self.used += held.len;
                    self.blocks.extend(&held.blocks);
                    self.units.insert(unit, held);
                }
                return None;
            };
            let held = self.units.remove(&victim)?;
            self.used -= held.len;
            for block in &held.blocks {
                self.blocks.remove(block);
            }
            left.push((victim, held));
        }
        self.insert(incoming);
        let is_block =
            |(unit, held): (EvictionUnit, SimulatedUnit)| unit.1.map(|block| ((unit.0, block), held));
        Some(left.into_iter().filter_map(is_block).collect())
    }

    /// What leaves next for `incoming`.
    fn victim(&mut self, incoming: IncomingBlock) -> Option<EvictionUnit> {
        let (units, policy, own) = (&self.units, self.policy, self.unit(incoming.used));
        let score = policy.newcomers_compete().then(|| held(incoming).score(policy));
        let others = || units.iter().filter(|(other, _)| **other != own);
        let all = || others().map(|(unit, held)| (held.score(policy), *unit)).collect();
        // A unit that was ranked for another incoming may be this one's own.
        let score_now =
            |unit: &EvictionUnit| units.get(unit).filter(|_| *unit != own).map(|held| held.score(policy));
        self.queue.next(score, all, score_now)
    }

    fn insert(&mut self, incoming: IncomingBlock) {
        let (used, unit) = (incoming.used, self.unit(incoming.used));
        self.used += u64::from(used.len);
        self.blocks.insert(used.what());
        match self.units.get_mut(&unit) {
            Some(held) => {
                held.len += u64::from(used.len);
                held.blocks.push(used.what());
                held.touched = incoming.now;
            }
            None => drop(self.units.insert(unit, held(incoming))),
        }
    }
}

fn held(incoming: IncomingBlock) -> SimulatedUnit {
    let IncomingBlock { used, now, next } = incoming;
    let len = u64::from(used.len);
    SimulatedUnit { len, blocks: vec![used.what()], placed: now, touched: now, uses: 1, next_use: next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::BuiltinPolicy;

    fn epoch(blocks: impl IntoIterator<Item = u32>) -> Vec<BlockUse> {
        blocks.into_iter().map(|block| BlockUse { source: block / 4, block, len: 10, asked: 3 }).collect()
    }

    fn reads(policy: BuiltinPolicy, quota: u64, epochs: &[Vec<BlockUse>]) -> Vec<u64> {
        let tier = ForecastTier { quota, evicts_sources: false };
        forecast(&[tier], &policy, epochs).iter().map(|epoch| epoch.reads).collect()
    }

    #[test]
    fn over_full_passes_first_fit_and_clairvoyant_need_what_does_not_fit_and_lru_needs_all() {
        let epochs = [epoch(0..16), epoch((0..16).rev().map(|block| block * 5 % 16)), epoch(0..16)];
        assert_eq!(reads(BuiltinPolicy::FirstFit, 90, &epochs), [16, 7, 7]);
        let clairvoyant = reads(BuiltinPolicy::Clairvoyant, 90, &epochs);
        assert!(clairvoyant[1] <= 7 && clairvoyant[2] <= 7, "{clairvoyant:?}");
        let again = [epoch(0..16), epoch(0..16)];
        assert_eq!(reads(BuiltinPolicy::Lru, 90, &again), [16, 16], "the oldest leaves just before its turn");
    }

    #[test]
    fn what_fits_is_read_once_by_every_policy() {
        for policy in BuiltinPolicy::ALL {
            assert_eq!(reads(policy, 160, &[epoch(0..16), epoch(0..16)]), [16, 0], "{policy:?}");
        }
    }

    #[test]
    fn of_what_no_tier_keeps_just_the_asked_bytes_are_read() {
        let tier = ForecastTier { quota: 20, evicts_sources: false };
        let mut first = epoch(0..4);
        first.extend(epoch(4..6).into_iter().map(|used| BlockUse { asked: 0, ..used }));
        let forecasts = forecast(&[tier], &BuiltinPolicy::FirstFit, &[first, epoch(0..4)]);
        assert_eq!(forecasts[0], Forecast { reads: 4, bytes: 10 + 10 + 3 + 3 });
        assert_eq!(forecasts[1], Forecast { reads: 2, bytes: 6 });
    }

    #[test]
    fn on_a_disk_a_whole_source_leaves() {
        let tier = ForecastTier { quota: 80, evicts_sources: true };
        let epochs = [epoch(0..8), epoch(8..9), epoch(0..8)];
        let read: Vec<u64> =
            forecast(&[tier], &BuiltinPolicy::Fifo, &epochs).iter().map(|epoch| epoch.reads).collect();
        assert_eq!(read[..2], [8, 1]);
        assert!(read[2] >= 4, "{read:?}");
    }
}
