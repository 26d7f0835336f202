//! Room promised to sources when they are opened: those that will be near for good are read in small requests from the
//! start.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    block::SourceKey,
    tier::{Copies, Tier},
};

/// What was said to fit.
///
/// A source is promised while there is room: of a set that fits, or of which nothing fits, the answer is the same
/// whatever the order of opening; of one that fits in part, sources that are opened first get the room.
#[derive(Debug, Default)]
pub(crate) struct Promises(Mutex<Promised>);

#[derive(Debug, Default)]
struct Promised {
    /// What was free on each tier before anything was promised.
    free: Option<Vec<u64>>,
    /// Bytes of what was promised that were not there yet.
    bytes: u64,
    sources: HashMap<SourceKey, bool>,
}

impl Promises {
    /// Whether all of the source called `key`, of `len` bytes, will be near: the same whenever it is asked. What is
    /// promised is room that was free, or that the source and its older versions take already.
    pub(crate) fn promise(
        &self,
        tiers: &[Arc<dyn Tier>],
        copies: &[(usize, Arc<dyn Copies>)],
        len: u64,
        key: SourceKey,
    ) -> bool {
        let mut promised = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fits) = promised.sources.get(&key) {
            return *fits;
        }
        let free_of = |tier: &Arc<dyn Tier>| {
            let usage = tier.usage();
            usage.quota.saturating_sub(usage.used)
        };
        let free = promised.free.get_or_insert_with(|| tiers.iter().map(free_of).collect());
        let room = copies.iter().fold(0u64, |room, (tier, _)| room.saturating_add(free[*tier]));
        let held = copies.iter().fold(0u64, |held, (_, copies)| held.saturating_add(copies.held()));
        let missing = len.saturating_sub(held);
        let bytes = promised.bytes.saturating_add(missing);
        let fits = missing == 0 || bytes <= room;
        if fits {
            promised.bytes = bytes;
        }
        promised.sources.insert(key, fits);
        fits
    }
}
