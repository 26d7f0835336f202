//! Mirrors that nobody wants: older versions of files that are open, and files that are not part of what is read. They
//! leave a full tier before anything else, so that a folder that is kept does not stay full of the past.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, TryLockError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use forebay_source::{Locator, SourceId};

use super::{DiskShared, Mirror, name::MirrorName, shelf};

/// A mirror that was used within this time may be another job's, which knows what it reads and we do not.
const IDLE: Duration = Duration::from_secs(60);
/// The folder is listed again after this time at the earliest, and after so many times what the listing took.
const LIST_AGAIN: Duration = Duration::from_secs(10);
const LISTING_SHARE: u32 = 20;
/// A thousand mirrors are listed within this time.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_micros(500);

/// Nothing was unwanted: for so long nobody looks again.
const QUIET: Duration = Duration::from_secs(1);

/// What is known of mirrors that nobody wants.
#[derive(Debug)]
pub(super) struct Unwanted {
    began: Instant,
    /// Until when there is nothing to look for, in milliseconds since it began.
    quiet_until_ms: AtomicU64,
    /// Nothing before room is short for the first time.
    listed: Mutex<Option<Listed>>,
}

impl Default for Unwanted {
    fn default() -> Self {
        Self { began: Instant::now(), quiet_until_ms: AtomicU64::new(0), listed: Mutex::default() }
    }
}

impl Unwanted {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_quiet(&self) -> bool {
        self.now_ms() < self.quiet_until_ms.load(Relaxed)
    }

    /// Waits for a thread that lists the folder, and no longer than a reader may wait for that.
    fn lock(&self) -> Option<MutexGuard<'_, Option<Listed>>> {
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
struct Listed {
    again_at: Instant,
    by_locator: HashMap<Locator, Vec<(MirrorName, u64)>>,
    superseded: Vec<MirrorName>,
    /// All mirrors, the one that was used longest ago last.
    oldest_last: Vec<MirrorName>,
}

impl Listed {
    fn new(mirrors: Vec<Mirror>, again_at: Instant) -> Self {
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
    fn others(&self, source: &SourceId, name: MirrorName) -> impl Iterator<Item = &(MirrorName, u64)> {
        let of_source = self.by_locator.get(&source.locator).into_iter().flatten();
        of_source.filter(move |(other, _)| other.key != name.key)
    }

    /// Notes that `source` is open, which other versions of it are not any more.
    fn open(&mut self, source: &SourceId, name: MirrorName) {
        let others: Vec<_> = self.others(source, name).map(|(other, _)| *other).collect();
        self.superseded.extend(others);
    }
}

impl DiskShared {
    /// Notes that `source` was opened.
    pub(super) fn note_opened(&self, source: &SourceId, name: MirrorName) {
        // A thread that lists the folder just now looks at what is open itself.
        if let Ok(mut listed) = self.unwanted.listed.try_lock()
            && let Some(listed) = &mut *listed
        {
            listed.open(source, name);
            if !listed.superseded.is_empty() {
                self.unwanted.quiet_until_ms.store(0, Relaxed);
            }
        }
    }

    /// Bytes that other versions of `source` take: only looked for where it would not fit without them.
    pub(super) fn superseded_bytes(&self, source: &SourceId, name: MirrorName) -> u64 {
        if self.counter.used().saturating_add(source.len) <= self.options.quota {
            return 0;
        }
        let sum = |listed: &mut Listed| listed.others(source, name).map(|(_, present)| present).sum();
        self.with_listed(sum).unwrap_or(0)
    }

    /// Takes `len` bytes for a mirror of `newcomer`, for which mirrors that nobody wants leave.
    pub(super) fn take_from_unwanted(&self, newcomer: MirrorName, len: u64) -> bool {
        if len > self.options.quota || self.unwanted.is_quiet() {
            return false;
        }
        let take = |listed: &mut Listed| loop {
            // Another thread may have made room while this one waited for it.
            if self.take(len) {
                return true;
            }
            let Some(leaver) = self.next_unwanted(listed, newcomer) else { return false };
            // Another process may have been faster, and have counted it.
            if self.remove(leaver) > 0 {
                self.evicted.fetch_add(1, Relaxed);
            }
        };
        self.with_listed(take).unwrap_or(false)
    }

    /// True when `len` bytes are free, or would be once mirrors that nobody wants leave for one of `newcomer`.
    pub(super) fn has_unwanted(&self, newcomer: MirrorName, len: u64) -> bool {
        let look = |listed: &mut Listed| {
            if self.is_free(len) {
                return true;
            }
            let leaver = self.next_unwanted(listed, newcomer);
            listed.superseded.extend(leaver);
            leaver.is_some()
        };
        len <= self.options.quota && !self.unwanted.is_quiet() && self.with_listed(look).unwrap_or(false)
    }

    /// The mirror that leaves next for one of `newcomer`.
    fn next_unwanted(&self, listed: &mut Listed, newcomer: MirrorName) -> Option<MirrorName> {
        if let Some(older) = listed.superseded.pop() {
            return Some(older);
        }
        let prefers_known = self.judge.prefers_known(newcomer.key);
        while let Some(oldest) = listed.oldest_last.pop_if(|_| prefers_known) {
            if oldest != newcomer && !self.judge.knows(oldest.key) && self.is_idle(oldest) {
                return Some(oldest);
            }
        }
        let quiet_ms = u64::try_from(QUIET.as_millis()).unwrap_or(u64::MAX);
        self.unwanted.quiet_until_ms.store(self.unwanted.now_ms().saturating_add(quiet_ms), Relaxed);
        None
    }

    /// True when nobody used the mirror called `name` for a while.
    fn is_idle(&self, name: MirrorName) -> bool {
        let now = shelf::clock(SystemTime::now());
        let idle_ns = u64::try_from(IDLE.as_nanos()).unwrap_or(u64::MAX);
        shelf::known(self.folder(), name)
            .is_some_and(|known| known.facts().used.saturating_add(idle_ns) <= now)
    }

    /// What `read` makes of the mirrors as they were listed, now or a while ago; nothing while another thread takes long to
    /// list them.
    fn with_listed<T>(&self, read: impl FnOnce(&mut Listed) -> T) -> Option<T> {
        let mut held = self.unwanted.lock()?;
        let is_over = |listed: &Listed| listed.superseded.is_empty() && Instant::now() >= listed.again_at;
        if held.as_ref().is_none_or(is_over) {
            let began = Instant::now();
            let mirrors = shelf::mirrors(self.folder());
            let again_at = Instant::now() + LIST_AGAIN.max(began.elapsed() * LISTING_SHARE);
            let mut listed = Listed::new(mirrors, again_at);
            for (source, name) in self.open_sources() {
                listed.open(&source, name);
            }
            *held = Some(listed);
        }
        held.as_mut().map(read)
    }
}
