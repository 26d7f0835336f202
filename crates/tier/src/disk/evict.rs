//! Eviction from a full disk: whole mirrors leave, the lowest score first.

use std::{
    sync::{PoisonError, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::{lease, mirror_files, name::MirrorName, shared::DiskShared};
use crate::{Worth, policy::Leavers};

/// To rank all mirrors takes a walk through the folder: it is not done for every block that finds no room.
const ALL_STAY: Duration = Duration::from_millis(100);

impl DiskShared {
    /// Takes `len` bytes for `name`, worth `newcomer`, while others leave for it.
    pub(super) fn reserve_by_evicting(
        &self,
        name: MirrorName,
        len: u64,
        newcomer: impl Fn() -> Worth,
    ) -> bool {
        if len > self.options.quota || self.judge.never_evicts() {
            return false;
        }
        while !self.take(len) {
            if !self.evict_for(name, &newcomer) {
                return false;
            }
        }
        true
    }

    /// True when a mirror would leave for `name`, worth `newcomer`.
    pub(super) fn would_evict_for(&self, name: MirrorName, len: u64, newcomer: impl Fn() -> Worth) -> bool {
        if len > self.options.quota || self.judge.never_evicts() {
            return false;
        }
        let mut leavers = self.leavers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((worth, leaver)) = self.next_leaver(&mut leavers, name, &newcomer) else { return false };
        leavers.put_back(worth, leaver);
        true
    }

    /// Removes the mirror with the lowest score, if there is one below that of `newcomer`, which is not `name` itself.
    fn evict_for(&self, name: MirrorName, newcomer: &impl Fn() -> Worth) -> bool {
        let mut leavers = self.leavers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, leaver)) = self.next_leaver(&mut leavers, name, newcomer) else { return false };
        drop(leavers);
        if self.evict(leaver).is_some() {
            self.evicted.fetch_add(1, Relaxed);
        }
        true
    }

    fn next_leaver(
        &self,
        leavers: &mut Leavers<MirrorName>,
        but: MirrorName,
        newcomer: &impl Fn() -> Worth,
    ) -> Option<(Worth, MirrorName)> {
        let now = Instant::now();
        let mut all_stay_until = self.all_stay_until.lock().unwrap_or_else(PoisonError::into_inner);
        if all_stay_until.is_some_and(|until| now < until) {
            return None;
        }
        let leaver = self.least(leavers, but, newcomer);
        *all_stay_until = leaver.is_none().then(|| now + ALL_STAY);
        leaver
    }

    fn least(
        &self,
        leavers: &mut Leavers<MirrorName>,
        but: MirrorName,
        newcomer: &impl Fn() -> Worth,
    ) -> Option<(Worth, MirrorName)> {
        let newcomer = self.judge.policy.newcomers_compete().then(newcomer);
        let all = || {
            let ranked = mirror_files::ranked(self.folder()).into_iter();
            let ranked = ranked.filter(|(name, _)| *name != but);
            ranked.map(|(name, known)| (self.judge.worth(name.key, known.facts()), name)).collect()
        };
        let now = |name: &MirrorName| {
            // Ranked for another newcomer, or not to be had.
            if *name == but || lease::is_leased(self.folder(), *name) {
                return None;
            }
            let known = mirror_files::known(self.folder(), *name)?;
            Some(self.judge.worth(name.key, known.facts()))
        };
        let leaver = leavers.next(newcomer, all, now)?;
        Some((now(&leaver)?, leaver))
    }
}
