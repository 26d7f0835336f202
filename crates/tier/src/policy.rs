//! What is worth keeping, and who leaves when a tier is full.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use forebay_source::SourceId;

use crate::{
    SourceKey,
    sync::{AtomicU64, Relaxed},
};

/// How much a copy is worth: the least leaves first.
pub type Worth = f64;

/// What is known of a copy: a block in memory, or all of a source on a disk.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Of which source; nothing where a disk holds it for somebody else.
    pub source: Option<&'a SourceId>,
    /// Which block; nothing when it is all of the source.
    pub block: Option<u64>,
    /// Its bytes.
    pub len: u64,
    /// When it came: larger is later.
    pub placed: u64,
    /// When it was last used, on the same clock.
    pub used: u64,
    /// How often it was used.
    pub uses: u64,
    /// When it is used next, where the future is known: larger is later.
    pub next_use: Option<u64>,
}

/// Ranks copies.
///
/// # Contract
/// Quick and without side effects: it is asked about all copies whenever room is needed.
pub trait Policy: Send + Sync + fmt::Debug {
    /// What people call it.
    fn name(&self) -> &str;

    /// How much a copy is worth.
    fn worth(&self, facts: &Facts<'_>) -> Worth;

    /// True when a newcomer must be worth more than what would leave for it; false when it is always let in.
    fn newcomers_compete(&self) -> bool;

    /// True when nothing ever leaves.
    fn never_evicts(&self) -> bool;

    /// True when it can only rank what it knows the future of: without that, nothing leaves.
    fn needs_foresight(&self) -> bool;
}

/// The policies that come with forebay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standard {
    /// Fill from the top, never evict.
    FirstFit,
    /// Keep what is used soonest.
    Clairvoyant,
    /// What was used longest ago leaves.
    Lru,
    /// What was used least often leaves.
    Lfu,
    /// What came first leaves.
    Fifo,
    /// What came last leaves.
    Lifo,
}

impl Standard {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::FirstFit, Self::Clairvoyant, Self::Lru, Self::Lfu, Self::Fifo, Self::Lifo];

    /// What people call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::FirstFit => "first-fit",
            Self::Clairvoyant => "clairvoyant",
            Self::Lru => "lru",
            Self::Lfu => "lfu",
            Self::Fifo => "fifo",
            Self::Lifo => "lifo",
        }
    }
}

impl Policy for Standard {
    fn name(&self) -> &str {
        self.word()
    }

    #[expect(clippy::cast_precision_loss, reason = "ranks need no more than 53 bits")]
    fn worth(&self, facts: &Facts<'_>) -> Worth {
        match self {
            Self::FirstFit => 0.0,
            Self::Clairvoyant => facts.next_use.map_or(Worth::NEG_INFINITY, |next| -(next as Worth)),
            Self::Lru => facts.used as Worth,
            Self::Lfu => facts.uses as Worth,
            Self::Fifo => facts.placed as Worth,
            Self::Lifo => -(facts.placed as Worth),
        }
    }

    fn newcomers_compete(&self) -> bool {
        matches!(self, Self::FirstFit | Self::Clairvoyant)
    }

    fn never_evicts(&self) -> bool {
        matches!(self, Self::FirstFit)
    }

    fn needs_foresight(&self) -> bool {
        matches!(self, Self::Clairvoyant)
    }
}

/// What is known of the future.
pub trait Foresight: Send + Sync + fmt::Debug {
    /// When `block` of `source` is used next, larger is later; nothing when it is not used again as far as can be seen.
    /// Without a block: any byte of the source.
    ///
    /// A moment and not a distance: what is not used stays as it was ranked while time passes.
    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64>;

    /// True when `source` is part of what is read, whether or not its next use can be seen.
    fn knows(&self, source: SourceKey) -> bool;
}

/// A clock whose ticks are uses: later is larger.
#[derive(Debug, Default)]
pub(crate) struct Ticks(AtomicU64);

impl Ticks {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// What is known of the future, by all who have to know: nothing at first, and something else with every epoch.
#[derive(Clone, Debug, Default)]
pub struct Outlook(Arc<ArcSwapOption<Known>>);

/// Whoever knows.
#[derive(Debug)]
struct Known(Arc<dyn Foresight>);

impl Outlook {
    /// Makes `foresight` what is known from now on.
    pub fn set(&self, foresight: Option<Arc<dyn Foresight>>) {
        self.0.store(foresight.map(|foresight| Arc::new(Known(foresight))));
    }

    fn is_empty(&self) -> bool {
        self.0.load().is_none()
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.0.load().as_ref().is_some_and(|known| known.0.knows(source))
    }

    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64> {
        // No lock: a forked child finds none that is held for ever.
        self.0.load().as_ref().and_then(|known| known.0.next_use(source, block))
    }
}

/// Who ranks, and what it is told of the future.
#[derive(Clone, Debug)]
pub struct Judge {
    /// Who ranks.
    pub policy: Arc<dyn Policy>,
    /// What it is told of the future.
    pub outlook: Outlook,
}

impl Judge {
    /// `policy`, which knows nothing of the future yet.
    pub fn new(policy: impl Policy + 'static) -> Self {
        Self { policy: Arc::new(policy), outlook: Outlook::default() }
    }

    /// True when nothing leaves now.
    pub(crate) fn never_evicts(&self) -> bool {
        self.policy.never_evicts() || self.policy.needs_foresight() && self.outlook.is_empty()
    }

    /// True when a copy of a source that nobody is known to read may leave for one of `newcomer`.
    pub(crate) fn prefers_known(&self, newcomer: SourceKey) -> bool {
        self.policy.newcomers_compete() && !self.never_evicts() && self.outlook.knows(newcomer)
    }

    /// True when `source` is known to be read.
    pub(crate) fn knows(&self, source: SourceKey) -> bool {
        self.outlook.knows(source)
    }

    pub(crate) fn worth(&self, key: SourceKey, facts: Facts<'_>) -> Worth {
        let worth = self.policy.worth(&Facts { next_use: self.outlook.next_use(key, facts.block), ..facts });
        // What cannot be compared is worth nothing.
        if worth.is_nan() { Worth::NEG_INFINITY } else { worth }
    }
}

/// Copies in the order in which they leave.
///
/// All copies are ranked when nobody is left to leave, and only the least of them kept: one ranking serves many.
#[derive(Debug)]
pub(crate) struct Leavers<K> {
    least_last: Vec<(Worth, K)>,
}

/// One in so many of all copies is kept after a ranking: more would be out of date when their turn comes.
const LEAVERS_PER_RANKING: usize = 8;

impl<K> Default for Leavers<K> {
    fn default() -> Self {
        Self { least_last: Vec::new() }
    }
}

impl<K> Leavers<K> {
    /// Lets `copy`, worth `worth`, leave next after all.
    pub(crate) fn put_back(&mut self, worth: Worth, copy: K) {
        self.least_last.push((worth, copy));
    }

    /// The copy that leaves next for a newcomer, if one is worth less; `all` ranks all copies, `now` tells what one is
    /// worth by now, if it is still there.
    pub(crate) fn next(
        &mut self,
        newcomer: Option<Worth>,
        all: impl Fn() -> Vec<(Worth, K)>,
        now: impl Fn(&K) -> Option<Worth>,
    ) -> Option<K> {
        for is_ranked in [false, true] {
            if is_ranked {
                self.least_last = all();
                self.least_last.sort_by(|one, other| other.0.total_cmp(&one.0));
                let leave = self.least_last.len().div_ceil(LEAVERS_PER_RANKING);
                self.least_last.drain(..self.least_last.len() - leave);
            }
            while let Some((worth, copy)) = self.least_last.pop() {
                let Some(current) = now(&copy) else { continue };
                if current > worth {
                    continue;
                }
                if newcomer.is_some_and(|newcomer| newcomer <= current) {
                    self.least_last.push((current, copy));
                    return None;
                }
                return Some(copy);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(placed: u64, used: u64, uses: u64, next_use: Option<u64>) -> Facts<'static> {
        Facts { source: None, block: Some(0), len: 1, placed, used, uses, next_use }
    }

    #[test]
    fn each_policy_lets_the_right_one_leave() {
        let copies = [
            facts(1, 9, 5, Some(7)),
            facts(2, 4, 2, None),
            facts(3, 8, 1, Some(2)),
            facts(0, 6, 3, Some(90)),
        ];
        use Standard::{Clairvoyant, Fifo, Lfu, Lifo, Lru};
        for (policy, leaves) in [(Clairvoyant, 1), (Lru, 1), (Lfu, 2), (Fifo, 3), (Lifo, 2)] {
            let least = (0..copies.len())
                .min_by(|one, other| policy.worth(&copies[*one]).total_cmp(&policy.worth(&copies[*other])));
            assert_eq!(least, Some(leaves), "{policy:?}");
        }
    }

    #[test]
    fn the_least_leaves_and_one_that_became_worth_more_stays() {
        let mut leavers = Leavers::default();
        let all = || vec![(3.0, 'a'), (1.0, 'b'), (2.0, 'c')];
        assert_eq!(leavers.next(None, all, |_| Some(1.0)), Some('b'));
        assert_eq!(leavers.next(Some(1.0), all, |_| Some(1.0)), None, "a newcomer worth no more stays out");
        assert_eq!(leavers.next(Some(1.5), all, |_| Some(1.0)), Some('b'));
        assert_eq!(leavers.next(None, all, |copy| (*copy != 'b').then_some(9.0)), None);
    }
}
