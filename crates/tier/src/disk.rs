//! A tier on a local disk, shared by the processes of a node.
//!
//! ```text
//! PATH/forebay-tier-UID/          0700
//!     kept/ or job-NAME-BOOT/     the latter goes with the last process that uses it
//!         lock                    held by every process that uses the folder
//!         usage                   bytes taken, one counter for all
//!         3f/3f….bytes            a sparse mirror of one version of one source
//!         3f/3f….map              which blocks of it are there, with their checksums
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `folder` | who may use the folder, and who removes it |
//! | `usage` | one counter of bytes for all processes |
//! | `map` | which blocks are there: a file that may lie |
//! | `mirror` | the copies of one source |
//! | `lock` | who fetches a block, among processes |
//! | `shelf` | all mirrors of the folder: listed, ranked, removed |
//! | `unwanted` | mirrors that leave a full tier before all others |

mod folder;
mod lock;
mod map;
mod mirror;
mod shelf;
mod unwanted;
mod usage;

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use forebay_source::{Error, FileOrigin, Result, SourceId};

use self::{folder::Folder, mirror::Copy, unwanted::Unwanted, usage::Counter};
use crate::{Blocks, Copies, Judge, SourceKey, Tier, Usage, Worth, policy::Leavers};

pub use self::shelf::Mirror;

/// What a disk tier is made of.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// A folder on a local disk, in which the tier makes one of its own.
    pub path: PathBuf,
    /// The most bytes of copies, over all processes.
    pub quota: u64,
    /// Bytes of the file system that stay free.
    pub free: u64,
    /// Whether copies outlive the job.
    pub keep: bool,
    /// Bytes of a block.
    pub block_len: u64,
}

/// A tier on a local disk.
#[derive(Debug)]
pub struct DiskTier {
    place: Arc<Place>,
}

/// What all mirrors of the tier share.
#[derive(Debug)]
pub(super) struct Place {
    name: String,
    options: DiskOptions,
    folder: Folder,
    counter: Counter,
    /// Reads whole mirrors, all by one budget of descriptors.
    files: FileOrigin,
    /// The file system's device: what already lies there is not copied.
    device: u64,
    judge: Judge,
    open: Mutex<HashMap<SourceKey, Weak<Copy>>>,
    leavers: Mutex<Leavers<SourceKey>>,
    unwanted: Unwanted,
    /// Nobody was worth less than a newcomer a moment ago.
    all_stay_until: Mutex<Option<Instant>>,
    evicted: AtomicU64,
    faults: AtomicU64,
}

impl DiskTier {
    /// The tier at `options.path`; `judge` says which mirrors leave when it is full.
    pub fn open(options: DiskOptions, judge: Judge) -> Result<Self> {
        let at = |error: Error| error.at(format!("disk tier '{}'", options.path.display()));
        let device = fs::metadata(&options.path).map_err(|error| at(Error::from_io(error)))?.dev();
        let (folder, standing) = Folder::open(&options.path, options.keep).map_err(at)?;
        let counter = Counter::open(folder.path()).map_err(at)?;
        if standing == folder::Standing::Alone && !counter.was_left() {
            shelf::sweep(folder.path());
            counter.set(shelf::used(folder.path()));
            counter.forget_users();
        }
        counter.enter();
        folder.share().map_err(at)?;
        let place = Place {
            name: format!("disk {}", options.path.display()),
            options,
            folder,
            counter,
            files: FileOrigin::new(),
            device,
            judge,
            open: Mutex::default(),
            leavers: Mutex::default(),
            unwanted: Unwanted::default(),
            all_stay_until: Mutex::default(),
            evicted: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        };
        Ok(Self { place: Arc::new(place) })
    }

    /// Bytes that the tier at `path` holds, told without using it.
    pub fn used_at(path: &Path, keep: bool) -> u64 {
        folder::path_at(path, keep).map_or(0, |folder| usage::peek(&folder))
    }

    /// What is in it, largest first.
    pub fn mirrors(&self) -> Vec<Mirror> {
        shelf::mirrors(self.place.folder.path())
    }

    /// Removes the mirrors of those sources that `leaves` names, and says how many bytes they took.
    pub fn clear(&self, leaves: impl Fn(&Mirror) -> bool) -> u64 {
        let leaving = self.mirrors().into_iter().filter(leaves);
        leaving.map(|mirror| self.place.remove(mirror.key)).sum()
    }

    /// The folder of its own.
    pub fn folder(&self) -> &Path {
        self.place.folder.path()
    }
}

impl Tier for DiskTier {
    fn name(&self) -> &str {
        &self.place.name
    }

    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>> {
        if device_of(source) == Some(self.place.device) {
            return None;
        }
        let key = SourceKey::of(source);
        let mut open = self.place.lock_open();
        if let Some(copy) = open.get(&key).and_then(Weak::upgrade) {
            return Some(copy);
        }
        let blocks = Blocks::new(source.len, self.place.options.block_len);
        let copy = Copy::new(Arc::clone(&self.place), source.clone(), blocks);
        open.retain(|_, copy| copy.strong_count() > 0);
        open.insert(key, Arc::downgrade(&copy));
        drop(open);
        self.place.note_opened(source, key);
        Some(copy)
    }

    fn usage(&self) -> Usage {
        Usage {
            used: self.place.counter.used(),
            quota: self.place.options.quota,
            evicted: self.place.evicted.load(Relaxed),
            faults: self.place.faults.load(Relaxed),
        }
    }

    fn left_out(&self) -> Option<&str> {
        None
    }
}

/// The device a source lies on, where it is a file of this machine's file systems.
fn device_of(source: &SourceId) -> Option<u64> {
    let locator = source.locator.as_str();
    if locator.contains("://") {
        return None;
    }
    fs::metadata(locator).ok().map(|facts| facts.dev())
}

/// To rank all mirrors takes a walk through the folder: it is not done for every block that finds no room.
const ALL_STAY: Duration = Duration::from_millis(100);

impl Place {
    fn lock_open(&self) -> MutexGuard<'_, HashMap<SourceKey, Weak<Copy>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sources that are open.
    fn open_sources(&self) -> Vec<(SourceId, SourceKey)> {
        let open = self.lock_open();
        open.iter().filter_map(|(key, copy)| Some((copy.upgrade()?.id().clone(), *key))).collect()
    }

    fn fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }

    /// True when the file system has room for `len` bytes more than must stay free.
    fn is_roomy(&self, len: u64) -> bool {
        let free = rustix::fs::statvfs(self.folder.path())
            .map_or(0, |facts| facts.f_bavail.saturating_mul(facts.f_frsize));
        free >= self.options.free.saturating_add(len)
    }

    /// True when `len` bytes are free.
    fn is_free(&self, len: u64) -> bool {
        self.counter.used().saturating_add(len) <= self.options.quota && self.is_roomy(len)
    }

    /// Takes `len` bytes, if they are free.
    fn take(&self, len: u64) -> bool {
        self.is_roomy(len) && self.counter.reserve(len, self.options.quota)
    }

    /// Takes `len` bytes for `key`, worth `newcomer`, while others leave for it.
    fn reserve_by_evicting(&self, key: SourceKey, len: u64, newcomer: impl Fn() -> Worth) -> bool {
        if len > self.options.quota || self.judge.never_evicts() {
            return false;
        }
        while !self.take(len) {
            if !self.evict_for(key, &newcomer) {
                return false;
            }
        }
        true
    }

    /// True when somebody would leave for `key`, worth `newcomer`.
    fn would_evict_for(&self, key: SourceKey, len: u64, newcomer: impl Fn() -> Worth) -> bool {
        if len > self.options.quota || self.judge.never_evicts() {
            return false;
        }
        let mut leavers = self.leavers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((worth, leaver)) = self.next_leaver(&mut leavers, key, &newcomer) else { return false };
        leavers.put_back(worth, leaver);
        true
    }

    /// Removes the mirror worth least, if there is one worth less than `newcomer`, which is not `key`'s own.
    fn evict_for(&self, key: SourceKey, newcomer: &impl Fn() -> Worth) -> bool {
        let mut leavers = self.leavers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, leaver)) = self.next_leaver(&mut leavers, key, newcomer) else { return false };
        drop(leavers);
        self.remove(leaver);
        self.evicted.fetch_add(1, Relaxed);
        true
    }

    fn next_leaver(
        &self,
        leavers: &mut Leavers<SourceKey>,
        but: SourceKey,
        newcomer: &impl Fn() -> Worth,
    ) -> Option<(Worth, SourceKey)> {
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
        leavers: &mut Leavers<SourceKey>,
        but: SourceKey,
        newcomer: &impl Fn() -> Worth,
    ) -> Option<(Worth, SourceKey)> {
        let newcomer = self.judge.policy.newcomers_compete().then(newcomer);
        let all = || {
            let ranked = shelf::ranked(self.folder.path()).into_iter();
            let ranked = ranked.filter(|(key, _)| *key != but);
            ranked.map(|(key, known)| (self.judge.worth(key, known.facts()), key)).collect()
        };
        let now = |key: &SourceKey| {
            // Ranked for another newcomer.
            if *key == but {
                return None;
            }
            let known = shelf::known(self.folder.path(), *key)?;
            Some(self.judge.worth(*key, known.facts()))
        };
        let leaver = leavers.next(newcomer, all, now)?;
        Some((now(&leaver)?, leaver))
    }

    /// Removes the mirror of `key`; who has it open reads on. Gives the bytes it took.
    fn remove(&self, key: SourceKey) -> u64 {
        let freed = shelf::remove(self.folder.path(), key);
        self.counter.release(freed);
        if let Some(copy) = self.lock_open().get(&key).and_then(Weak::upgrade) {
            copy.forget();
        }
        freed
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.folder.leave(|| self.counter.leave());
    }
}
