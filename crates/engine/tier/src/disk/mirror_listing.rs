//! A listing of the tier's folder, kept for a while: which mirrors are of which file, and which were used longest ago.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, TryLockError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use forebay_source::{Locator, SourceId};

use super::{mirror_files::MirrorSummary, name::MirrorName};

/// The folder is listed again after this time at the earliest, and after this many times what the listing took.
pub(super) const LIST_AGAIN: Duration = Duration::from_secs(10);
pub(super) const LISTING_SHARE: u32 = 20;
/// A thousand mirrors are listed within this time.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_micros(500);

/// The listing, and until when nothing in it is outdated.
#[derive(Debug)]
pub(super) struct MirrorListing {
    began: Instant,
    /// Until when there is nothing to look for, in milliseconds since it began.
    pub(super) quiet_until_ms: AtomicU64,
    /// Nothing before room is short for the first time.
    pub(super) listed: Mutex<Option<ListedMirrors>>,
}

impl Default for MirrorListing {
    fn default() -> Self {
        Self { began: Instant::now(), quiet_until_ms: AtomicU64::new(0), listed: Mutex::default() }
    }
}

impl MirrorListing {
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.now_ms() < self.quiet_until_ms.load(Relaxed)
    }

    /// Waits for a thread that lists the folder, and no longer than a reader may wait for that.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, Option<ListedMirrors>>> {
        let until = Instant::now() + LONGEST_WAIT;
        loop {
            match self.listed.try_lock() {
                Ok(listed) => return Some(listed),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOOK),
                Err(_) => return None,
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct ListedMirrors {
    pub(super) again_at: Instant,
    by_locator: HashMap<Locator, Vec<(MirrorName, u64)>>,
    pub(super) superseded: Vec<MirrorName>,
    /// All mirrors, the one that was used longest ago last.
    pub(super) oldest_last: Vec<MirrorName>,
}

impl ListedMirrors {
    pub(super) fn new(mirrors: Vec<MirrorSummary>, again_at: Instant) -> Self {
        let mut by_locator: HashMap<Locator, Vec<(MirrorName, u64)>> = HashMap::new();
        let mut by_age: Vec<_> = mirrors.iter().map(|mirror| (mirror.used, mirror.name())).collect();
        by_age.sort_unstable_by(|one, other| other.cmp(one));
        let oldest_last = by_age.into_iter().map(|(_, name)| name).collect();
        for mirror in mirrors {
            let entry = (mirror.name(), mirror.present);
            by_locator.entry(mirror.source.locator).or_default().push(entry);
        }
        Self { again_at, by_locator, superseded: Vec::new(), oldest_last }
    }

    /// Mirrors of other versions of `source` than `name` is of, whatever the length of their blocks.
    pub(super) fn others(
        &self,
        source: &SourceId,
        name: MirrorName,
    ) -> impl Iterator<Item = &(MirrorName, u64)> {
        let of_source = self.by_locator.get(&source.locator).into_iter().flatten();
        of_source.filter(move |(other, _)| other.key != name.key)
    }

    /// Notes that `source` is open, which other versions of it are not any more.
    pub(super) fn open(&mut self, source: &SourceId, name: MirrorName) {
        let others: Vec<_> = self.others(source, name).map(|(other, _)| *other).collect();
        self.superseded.extend(others);
    }
}
