//! Eviction from a full disk: whole mirrors leave, the lowest score first.

use std::{
    sync::{PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::{lease, mirror_files, name::MirrorName, shared::DiskShared};
use crate::policy::{EvictionQueue, Score};

/// To rank all mirrors takes a walk through the folder: it is not done for every block that finds no room.
const ALL_STAY: Duration = Duration::from_millis(100);

impl DiskShared {
    /// Takes `len` bytes for `name`, whose score is `newcomer`, by evicting others.
    pub(super) fn reserve_by_evicting(
        &self,
        name: MirrorName,
        len: u64,
        newcomer: impl Fn() -> Score,
    ) -> bool {
        if len > self.options.quota || self.ranking.never_evicts() {
            return false;
        }
        while !self.take(len) {
            if !self.evict_for(name, &newcomer) {
                return false;
            }
        }
        true
    }

    /// True when a mirror would be evicted for `name`, whose score is `newcomer`.
    pub(super) fn would_evict_for(&self, name: MirrorName, len: u64, newcomer: impl Fn() -> Score) -> bool {
        if len > self.options.quota || self.ranking.never_evicts() {
            return false;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((score, victim)) = self.next_victim(&mut queue, name, &newcomer) else { return false };
        queue.put_back(score, victim);
        true
    }

    /// Removes the mirror with the lowest score, if there is one below that of `newcomer`, which is not `name` itself.
    fn evict_for(&self, name: MirrorName, newcomer: &impl Fn() -> Score) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, victim)) = self.next_victim(&mut queue, name, newcomer) else { return false };
        drop(queue);
        if self.evict(victim).is_some() {
            self.evicted.fetch_add(1, Relaxed);
        }
        true
    }

    fn next_victim(
        &self,
        queue: &mut EvictionQueue<MirrorName>,
        but: MirrorName,
        newcomer: &impl Fn() -> Score,
    ) -> Option<(Score, MirrorName)> {
        let now = Instant::now();
        let mut all_stay_until = self.all_stay_until.lock().unwrap_or_else(PoisonError::into_inner);
        if all_stay_until.is_some_and(|until| now < until) {
            return None;
        }
        let victim = self.least(queue, but, newcomer);
        *all_stay_until = victim.is_none().then(|| now + ALL_STAY);
        victim
    }

    fn least(
        &self,
        queue: &mut EvictionQueue<MirrorName>,
        but: MirrorName,
        newcomer: &impl Fn() -> Score,
    ) -> Option<(Score, MirrorName)> {
        let newcomer = self.ranking.policy.newcomers_compete().then(newcomer);
        let all = || {
            let ranked = mirror_files::ranked(self.folder()).into_iter();
            let ranked = ranked.filter(|(name, _)| *name != but);
            ranked.map(|(name, known)| (self.ranking.score(name.key, known.facts()), name)).collect()
        };
        let now = |name: &MirrorName| {
            // Ranked for another newcomer, or leased.
            if *name == but || lease::is_leased(self.folder(), *name) {
                return None;
            }
            let known = mirror_files::known(self.folder(), *name)?;
            Some(self.ranking.score(name.key, known.facts()))
        };
        let victim = queue.next(newcomer, all, now)?;
        Some((now(&victim)?, victim))
    }
}
