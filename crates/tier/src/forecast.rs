//! What a policy would read from the origin, reckoned and not run.

use std::collections::{HashMap, HashSet};

use crate::{Facts, Policy, Worth, policy::Leavers};

/// A tier to reckon with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForecastTier {
    /// The most bytes it may hold.
    pub quota: u64,
    /// Whether a whole source leaves at once, as on a disk, and not single blocks.
    pub evicts_sources: bool,
}

/// What is used: a block of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Used {
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

impl Used {
    /// What it is a use of.
    fn what(self) -> Block {
        (self.source, self.block)
    }
}

/// A block, by its source and number.
type Block = (u32, u32);

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
pub fn forecast(tiers: &[ForecastTier], policy: &dyn Policy, epochs: &[Vec<Used>]) -> Vec<Forecast> {
    let next_uses = next_uses(epochs);
    let mut rooms: Vec<Room<'_>> = tiers.iter().map(|tier| Room::new(*tier, policy)).collect();
    let mut now = 0;
    let mut forecasts = Vec::with_capacity(epochs.len());
    for epoch in epochs {
        let mut forecast = Forecast::default();
        for used in epoch {
            let next = next_uses[usize::try_from(now).unwrap_or(0)];
            now += 1;
            if rooms.iter_mut().any(|room| room.hit(*used, now, next)) {
                continue;
            }
            let newcomer = Newcomer { used: *used, now, next };
            let is_kept = place(&mut rooms, newcomer);
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
struct Newcomer {
    used: Used,
    now: u64,
    next: Option<u64>,
}

/// Keeps `newcomer` on the highest of `rooms` that has room for it, or else on the highest that others leave for it; as
/// placement does, what leaves goes to the rooms below. True when it is kept.
fn place(rooms: &mut [Room<'_>], newcomer: Newcomer) -> bool {
    if rooms.iter_mut().any(|room| room.put_if_free(newcomer)) {
        return true;
    }
    for index in 0..rooms.len() {
        let Some(left) = rooms[index].put_by_evicting(newcomer) else { continue };
        for (block, held) in left {
            let len = u32::try_from(held.len).unwrap_or(u32::MAX);
            let used = Used { source: block.0, block: block.1, len, asked: len };
            place(&mut rooms[index + 1..], Newcomer { used, now: newcomer.now, next: held.next_use });
        }
        return true;
    }
    false
}

/// For each use, when the same block is used next.
fn next_uses(epochs: &[Vec<Used>]) -> Vec<Option<u64>> {
    let count: usize = epochs.iter().map(Vec::len).sum();
    let mut next = vec![None; count];
    let mut seen: HashMap<Block, u64> = HashMap::new();
    let mut at = count;
    for used in epochs.iter().rev().flat_map(|epoch| epoch.iter().rev()) {
        at -= 1;
        next[at] = seen.insert(used.what(), at as u64 + 1);
    }
    next
}

/// What leaves as one.
type Unit = (u32, Option<u32>);

#[derive(Debug)]
struct Room<'a> {
    tier: ForecastTier,
    policy: &'a dyn Policy,
    used: u64,
    blocks: HashSet<Block>,
    units: HashMap<Unit, Held>,
    leavers: Leavers<Unit>,
}

#[derive(Clone, Debug)]
struct Held {
    len: u64,
    blocks: Vec<Block>,
    placed: u64,
    touched: u64,
    uses: u64,
    next_use: Option<u64>,
}

impl Held {
    fn worth(&self, policy: &dyn Policy) -> Worth {
        policy.worth(&Facts {
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

impl<'a> Room<'a> {
    fn new(tier: ForecastTier, policy: &'a dyn Policy) -> Self {
        Self {
            tier,
            policy,
            used: 0,
            blocks: HashSet::new(),
            units: HashMap::new(),
            leavers: Leavers::default(),
        }
    }

    fn unit(&self, used: Used) -> Unit {
        (used.source, (!self.tier.evicts_sources).then_some(used.block))
    }

    /// Uses a block, if it is here.
    fn hit(&mut self, used: Used, now: u64, next: Option<u64>) -> bool {
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

    /// Keeps a block, if there is room.
    fn put_if_free(&mut self, newcomer: Newcomer) -> bool {
        let is_free = self.used + u64::from(newcomer.used.len) <= self.tier.quota;
        if is_free {
            self.insert(newcomer);
        }
        is_free
    }

    /// Keeps a block if others may leave for it, and gives those that another tier may keep; if not, all stay.
    fn put_by_evicting(&mut self, newcomer: Newcomer) -> Option<Vec<(Block, Held)>> {
        let used = newcomer.used;
        // Where what is kept is to last, nothing leaves for bytes that nobody asked for, nor a whole file for a part.
        let is_part = used.len - used.asked.min(used.len) > used.len / 8 || self.tier.evicts_sources;
        let stays = self.policy.never_evicts() || self.policy.newcomers_compete() && is_part;
        if stays || u64::from(used.len) > self.tier.quota {
            return None;
        }
        let mut left: Vec<(Unit, Held)> = Vec::new();
        while self.used + u64::from(used.len) > self.tier.quota {
            let Some(leaver) = self.leaver(newcomer) else {
                for (unit, held) in left {
                    self.used += held.len;
                    self.blocks.extend(&held.blocks);
                    self.units.insert(unit, held);
                }
                return None;
            };
            let held = self.units.remove(&leaver)?;
            self.used -= held.len;
            for block in &held.blocks {
                self.blocks.remove(block);
            }
            left.push((leaver, held));
        }
        self.insert(newcomer);
        let is_block = |(unit, held): (Unit, Held)| unit.1.map(|block| ((unit.0, block), held));
        Some(left.into_iter().filter_map(is_block).collect())
    }

    /// What leaves next for `newcomer`.
    fn leaver(&mut self, newcomer: Newcomer) -> Option<Unit> {
        let (units, policy, own) = (&self.units, self.policy, self.unit(newcomer.used));
        let worth = policy.newcomers_compete().then(|| held(newcomer).worth(policy));
        let others = || units.iter().filter(|(other, _)| **other != own);
        let all = || others().map(|(unit, held)| (held.worth(policy), *unit)).collect();
        // A unit that was ranked for another newcomer may be this one's own.
        let worth_now = |unit: &Unit| units.get(unit).filter(|_| *unit != own).map(|held| held.worth(policy));
        self.leavers.next(worth, all, worth_now)
    }

    fn insert(&mut self, newcomer: Newcomer) {
        let (used, unit) = (newcomer.used, self.unit(newcomer.used));
        self.used += u64::from(used.len);
        self.blocks.insert(used.what());
        match self.units.get_mut(&unit) {
            Some(held) => {
                held.len += u64::from(used.len);
                held.blocks.push(used.what());
                held.touched = newcomer.now;
            }
            None => drop(self.units.insert(unit, held(newcomer))),
        }
    }
}

fn held(newcomer: Newcomer) -> Held {
    let Newcomer { used, now, next } = newcomer;
    let len = u64::from(used.len);
    Held { len, blocks: vec![used.what()], placed: now, touched: now, uses: 1, next_use: next }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Standard;

    fn epoch(blocks: impl IntoIterator<Item = u32>) -> Vec<Used> {
        blocks.into_iter().map(|block| Used { source: block / 4, block, len: 10, asked: 3 }).collect()
    }

    fn reads(policy: Standard, quota: u64, epochs: &[Vec<Used>]) -> Vec<u64> {
        let tier = ForecastTier { quota, evicts_sources: false };
        forecast(&[tier], &policy, epochs).iter().map(|epoch| epoch.reads).collect()
    }

    #[test]
    fn over_full_passes_first_fit_and_clairvoyant_need_what_does_not_fit_and_lru_needs_all() {
        let epochs = [epoch(0..16), epoch((0..16).rev().map(|block| block * 5 % 16)), epoch(0..16)];
        assert_eq!(reads(Standard::FirstFit, 90, &epochs), [16, 7, 7]);
        let clairvoyant = reads(Standard::Clairvoyant, 90, &epochs);
        assert!(clairvoyant[1] <= 7 && clairvoyant[2] <= 7, "{clairvoyant:?}");
        let again = [epoch(0..16), epoch(0..16)];
        assert_eq!(reads(Standard::Lru, 90, &again), [16, 16], "the oldest leaves just before its turn");
    }

    #[test]
    fn what_fits_is_read_once_by_every_policy() {
        for policy in Standard::ALL {
            assert_eq!(reads(policy, 160, &[epoch(0..16), epoch(0..16)]), [16, 0], "{policy:?}");
        }
    }

    #[test]
    fn of_what_no_tier_keeps_just_the_asked_bytes_are_read() {
        let tier = ForecastTier { quota: 20, evicts_sources: false };
        let mut first = epoch(0..4);
        first.extend(epoch(4..6).into_iter().map(|used| Used { asked: 0, ..used }));
        let forecasts = forecast(&[tier], &Standard::FirstFit, &[first, epoch(0..4)]);
        assert_eq!(forecasts[0], Forecast { reads: 4, bytes: 10 + 10 + 3 + 3 });
        assert_eq!(forecasts[1], Forecast { reads: 2, bytes: 6 });
    }

    #[test]
    fn on_a_disk_a_whole_source_leaves() {
        let tier = ForecastTier { quota: 80, evicts_sources: true };
        let epochs = [epoch(0..8), epoch(8..9), epoch(0..8)];
        let read: Vec<u64> =
            forecast(&[tier], &Standard::Fifo, &epochs).iter().map(|epoch| epoch.reads).collect();
        assert_eq!(read[..2], [8, 1]);
        assert!(read[2] >= 4, "{read:?}");
    }
}
