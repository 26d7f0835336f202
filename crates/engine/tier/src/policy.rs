//! Eviction policies: a score per copy, and the queue of those that are evicted next.
//!
//! | file | idea |
//! |---|---|
//! | `forecast` | what a policy would read from the origin, computed and not run |

pub(crate) mod forecast;

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use forebay_source::SourceId;

use crate::{
    block::SourceKey,
    sync::{AtomicU64, Relaxed},
};

/// How much a copy is worth keeping: the lowest score is evicted first.
pub type Score = f64;

/// What a policy ranks a copy by: a block in memory, or all of a source on a disk.
#[derive(Clone, Copy, Debug)]
pub struct BlockFacts<'a> {
    /// Of which source; nothing where a disk holds it for another job.
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
    /// Its name in settings and reports.
    fn name(&self) -> &str;

    /// The score of a copy.
    fn score(&self, facts: &BlockFacts<'_>) -> Score;

    /// True when a newcomer must score higher than what would be evicted for it; false when it is always let in.
    fn newcomers_compete(&self) -> bool;

    /// True when nothing is ever evicted.
    fn never_evicts(&self) -> bool;

    /// True when it ranks by the next use: without foresight nothing is evicted.
    fn needs_foresight(&self) -> bool;
}

/// The built-in policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinPolicy {
    /// Fill from the top, never evict.
    FirstFit,
    /// Belady's rule, where the future is known: what is used latest is evicted.
    Clairvoyant,
    /// LRU: what was used longest ago is evicted.
    Lru,
    /// LFU: what was used least often is evicted.
    Lfu,
    /// FIFO: what was placed first is evicted.
    Fifo,
    /// LIFO: what was placed last is evicted.
    Lifo,
}

impl BuiltinPolicy {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::FirstFit, Self::Clairvoyant, Self::Lru, Self::Lfu, Self::Fifo, Self::Lifo];

    /// Its name in settings and reports.
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

impl Policy for BuiltinPolicy {
    fn name(&self) -> &str {
        self.word()
    }

    #[expect(clippy::cast_precision_loss, reason = "ranks need no more than 53 bits")]
    fn score(&self, facts: &BlockFacts<'_>) -> Score {
        match self {
            Self::FirstFit => 0.0,
            Self::Clairvoyant => facts.next_use.map_or(Score::NEG_INFINITY, |next| -(next as Score)),
            Self::Lru => facts.used as Score,
            Self::Lfu => facts.uses as Score,
            Self::Fifo => facts.placed as Score,
            Self::Lifo => -(facts.placed as Score),
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

/// A logical clock that ticks with every use (LRU): later is larger.
#[derive(Debug, Default)]
pub(crate) struct UseClock(AtomicU64);

impl UseClock {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }
}

/// A handle to what is known of the future, shared by the tiers: nothing at first, and something else with every epoch.
#[derive(Clone, Debug, Default)]
pub struct ForesightHandle(Arc<ArcSwapOption<SharedForesight>>);

/// A sized wrapper, as the atomic pointer needs one.
#[derive(Debug)]
struct SharedForesight(Arc<dyn Foresight>);

impl ForesightHandle {
    /// Makes `foresight` what is known from now on.
    pub fn set(&self, foresight: Option<Arc<dyn Foresight>>) {
        self.0.store(foresight.map(|foresight| Arc::new(SharedForesight(foresight))));
    }

    fn is_empty(&self) -> bool {
        self.0.load().is_none()
    }

    fn knows(&self, source: SourceKey) -> bool {
        self.0.load().as_ref().is_some_and(|known| known.0.knows(source))
    }

    fn next_use(&self, source: SourceKey, block: Option<u64>) -> Option<u64> {
        // An atomic pointer and no lock: a forked child would find a lock that a thread of its parent held.
        self.0.load().as_ref().and_then(|known| known.0.next_use(source, block))
    }
}

/// A policy, and the foresight that it ranks by.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// What is known of the future.
    pub foresight: ForesightHandle,
}

impl Ranking {
    /// `policy`, without foresight.
    pub fn new(policy: impl Policy + 'static) -> Self {
        Self { policy: Arc::new(policy), foresight: ForesightHandle::default() }
    }

    /// True when nothing is evicted now.
    pub(crate) fn never_evicts(&self) -> bool {
        self.policy.never_evicts() || self.policy.needs_foresight() && self.foresight.is_empty()
    }

    /// True when a copy of a source that is not in the schedule may be evicted for one of `newcomer`.
    pub(crate) fn prefers_known(&self, newcomer: SourceKey) -> bool {
        self.policy.newcomers_compete() && !self.never_evicts() && self.foresight.knows(newcomer)
    }

    /// True when `source` is known to be read.
    pub(crate) fn knows(&self, source: SourceKey) -> bool {
        self.foresight.knows(source)
    }

    pub(crate) fn score(&self, key: SourceKey, facts: BlockFacts<'_>) -> Score {
        let score =
            self.policy.score(&BlockFacts { next_use: self.foresight.next_use(key, facts.block), ..facts });
        // NaN cannot be compared: such a copy is evicted first.
        if score.is_nan() { Score::NEG_INFINITY } else { score }
    }
}

/// The copies that are evicted next, in order.
///
/// All copies are ranked when the queue is empty, and only the lowest scores are kept: one ranking serves many evictions.
#[derive(Debug)]
pub(crate) struct EvictionQueue<K> {
    least_last: Vec<(Score, K)>,
}

/// One in this many copies is queued by a ranking: more would be out of date when their turn comes.
const VICTIMS_PER_RANKING: usize = 8;

impl<K> Default for EvictionQueue<K> {
    fn default() -> Self {
        Self { least_last: Vec::new() }
    }
}

impl<K> EvictionQueue<K> {
    /// Puts `copy`, whose score is `score`, back to the front.
    pub(crate) fn put_back(&mut self, score: Score, copy: K) {
        self.least_last.push((score, copy));
    }

    /// The copy that is evicted next for a newcomer, if one scores lower; `all` ranks all copies, `now` gives the current
    /// score of one, if it is still there.
    pub(crate) fn next(
        &mut self,
        newcomer: Option<Score>,
        all: impl Fn() -> Vec<(Score, K)>,
        now: impl Fn(&K) -> Option<Score>,
    ) -> Option<K> {
        for is_ranked in [false, true] {
            if is_ranked {
                self.least_last = all();
                self.least_last.sort_by(|one, other| other.0.total_cmp(&one.0));
                let leave = self.least_last.len().div_ceil(VICTIMS_PER_RANKING);
                self.least_last.drain(..self.least_last.len() - leave);
            }
            while let Some((score, copy)) = self.least_last.pop() {
                let Some(current) = now(&copy) else { continue };
                if current > score {
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

    fn facts(placed: u64, used: u64, uses: u64, next_use: Option<u64>) -> BlockFacts<'static> {
        BlockFacts { source: None, block: Some(0), len: 1, placed, used, uses, next_use }
    }

    #[test]
    fn each_policy_lets_the_right_one_leave() {
        let copies = [
            facts(1, 9, 5, Some(7)),
            facts(2, 4, 2, None),
            facts(3, 8, 1, Some(2)),
            facts(0, 6, 3, Some(90)),
        ];
        use BuiltinPolicy::{Clairvoyant, Fifo, Lfu, Lifo, Lru};
        for (policy, leaves) in [(Clairvoyant, 1), (Lru, 1), (Lfu, 2), (Fifo, 3), (Lifo, 2)] {
            let least = (0..copies.len())
                .min_by(|one, other| policy.score(&copies[*one]).total_cmp(&policy.score(&copies[*other])));
            assert_eq!(least, Some(leaves), "{policy:?}");
        }
    }

    #[test]
    fn the_least_leaves_and_one_that_became_worth_more_stays() {
        let mut queue = EvictionQueue::default();
        let all = || vec![(3.0, 'a'), (1.0, 'b'), (2.0, 'c')];
        assert_eq!(queue.next(None, all, |_| Some(1.0)), Some('b'));
        assert_eq!(queue.next(Some(1.0), all, |_| Some(1.0)), None, "a newcomer worth no more stays out");
        assert_eq!(queue.next(Some(1.5), all, |_| Some(1.0)), Some('b'));
        assert_eq!(queue.next(None, all, |copy| (*copy != 'b').then_some(9.0)), None);
    }
}
