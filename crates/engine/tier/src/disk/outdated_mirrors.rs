//! Mirrors that leave a full tier before all others: older versions of files that are open, and files that are not part
//! of what is read. A folder that is kept so does not stay full of past versions.

use std::{
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant, SystemTime},
};

use forebay_source::SourceId;

use super::{
    lease, mirror_files,
    mirror_listing::{LIST_AGAIN, LISTING_SHARE, ListedMirrors},
    name::MirrorName,
    shared::DiskShared,
};

/// A mirror that was used within this time may be another job's, whose schedule is not known here.
const IDLE: Duration = Duration::from_secs(60);

/// How long nothing is looked for after no mirror was outdated.
const QUIET: Duration = Duration::from_secs(1);

impl DiskShared {
    /// Notes that `source` was opened.
    pub(super) fn note_opened(&self, source: &SourceId, name: MirrorName) {
        // A thread that lists the folder just now looks at what is open itself.
        if let Ok(mut listed) = self.listing.listed.try_lock()
            && let Some(listed) = &mut *listed
        {
            listed.open(source, name);
            if !listed.superseded.is_empty() {
                self.listing.quiet_until_ms.store(0, Relaxed);
            }
        }
    }

    /// Bytes that other versions of `source` take: only looked for where it would not fit without them.
    pub(super) fn superseded_bytes(&self, source: &SourceId, name: MirrorName) -> u64 {
        if self.counter.used().saturating_add(source.len) <= self.options.quota {
            return 0;
        }
        let sum = |listed: &mut ListedMirrors| listed.others(source, name).map(|(_, present)| present).sum();
        self.with_listed(sum).unwrap_or(0)
    }

    /// Takes `len` bytes for a mirror of `newcomer`, for which outdated mirrors leave.
    pub(super) fn take_from_outdated(&self, newcomer: MirrorName, len: u64) -> bool {
        if len > self.options.quota || self.listing.is_quiet() {
            return false;
        }
        let take = |listed: &mut ListedMirrors| loop {
            // Another thread may have made room while this one waited for it.
            if self.take(len) {
                return true;
            }
            let Some(victim) = self.next_outdated(listed, newcomer) else { return false };
            // Another process may have been faster, and have counted it.
            if self.evict(victim).is_some_and(|freed| freed > 0) {
                self.evicted.fetch_add(1, Relaxed);
            }
        };
        self.with_listed(take).unwrap_or(false)
    }

    /// True when `len` bytes are free, or would be once outdated mirrors leave for one of `newcomer`.
    pub(super) fn has_outdated(&self, newcomer: MirrorName, len: u64) -> bool {
        let look = |listed: &mut ListedMirrors| {
            if self.is_free(len) {
                return true;
            }
            let victim = self.next_outdated(listed, newcomer);
            listed.superseded.extend(victim);
            victim.is_some()
        };
        len <= self.options.quota && !self.listing.is_quiet() && self.with_listed(look).unwrap_or(false)
    }

    /// The mirror that leaves next for one of `newcomer`.
    fn next_outdated(&self, listed: &mut ListedMirrors, newcomer: MirrorName) -> Option<MirrorName> {
        while let Some(older) = listed.superseded.pop() {
            if !lease::is_leased(self.folder(), older) {
                return Some(older);
            }
        }
        let prefers_known = self.ranking.prefers_known(newcomer.key);
        while let Some(oldest) = listed.oldest_last.pop_if(|_| prefers_known) {
            let is_free = || self.is_idle(oldest) && !lease::is_leased(self.folder(), oldest);
            if oldest != newcomer && !self.ranking.knows(oldest.key) && is_free() {
                return Some(oldest);
            }
        }
        let quiet_ms = u64::try_from(QUIET.as_millis()).unwrap_or(u64::MAX);
        self.listing.quiet_until_ms.store(self.listing.now_ms().saturating_add(quiet_ms), Relaxed);
        None
    }

    /// True when nobody used the mirror called `name` for a while.
    fn is_idle(&self, name: MirrorName) -> bool {
        let now = mirror_files::clock(SystemTime::now());
        let idle_ns = u64::try_from(IDLE.as_nanos()).unwrap_or(u64::MAX);
        mirror_files::known(self.folder(), name)
            .is_some_and(|known| known.facts().used.saturating_add(idle_ns) <= now)
    }

    /// Calls `read` with the listing, taken now or a while ago; nothing while another thread takes long to
    /// list them.
    fn with_listed<T>(&self, read: impl FnOnce(&mut ListedMirrors) -> T) -> Option<T> {
        let mut held = self.listing.lock()?;
        let is_over =
            |listed: &ListedMirrors| listed.superseded.is_empty() && Instant::now() >= listed.again_at;
        if held.as_ref().is_none_or(is_over) {
            let began = Instant::now();
            let mirrors = mirror_files::mirrors(self.folder());
            let again_at = Instant::now() + LIST_AGAIN.max(began.elapsed() * LISTING_SHARE);
            let mut listed = ListedMirrors::new(mirrors, again_at);
            for (source, name) in self.open_sources() {
                listed.open(&source, name);
            }
            *held = Some(listed);
        }
        held.as_mut().map(read)
    }
}
