//! A tier on a local disk, shared by the processes of a node.
//!
//! ```text
//! PATH/forebay-tier-UID/          0700
//!     kept/ or job-NAME-BOOT/     the latter goes with the last process that uses it
//!         lock                    held by every process that uses the folder
//!         usage                   bytes taken, one counter for all
//!         3f/3f…-100000.map             which blocks of 1 MiB of a source's version are there, with their checksums
//!         3f/3f…-100000.NONCE.bytes     a sparse mirror of it
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `folder` | what the folder is called, and what in it is the tier's own |
//! | `usage` | one counter of bytes for all processes |
//! | `device` | which device a source lies on |
//! | `name` | what files are called |
//! | `map` | which blocks are there: a file that may lie |
//! | `files` | the two files of a mirror, and what is known of its blocks |
//! | `writeback` | whether what was written reached the disk |
//! | `mirror`, `find` | the copies of one source, and how they are found |
//! | `whole` | a mirror of which all is there, read as one file |
//! | `shelf` | all mirrors of the folder: listed, ranked, removed |
//! | `unwanted` | mirrors that leave a full tier before all others |
//! | `in_use` | the copies that are in use |
//! | `sync` | copies on their way from memory to the disk |
//! | `worker` | one thread for what nobody waits for |

mod device;
mod files;
mod find;
mod folder;
mod in_use;
mod map;
mod mirror;
mod name;
mod shelf;
mod sync;
mod unwanted;
mod usage;
mod whole;
mod worker;
mod writeback;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use forebay_scratch::{OwnFolder, SharedFolder, Sharing};
use forebay_source::{Error, FileOrigin, Result, SourceId};

use self::{
    device::Devices,
    in_use::InUse,
    mirror::Copy,
    name::MirrorName,
    unwanted::Unwanted,
    usage::{Before, Counter},
    worker::Worker,
    writeback::Disk,
};
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
    shared: Arc<DiskShared>,
}

/// What all mirrors of the tier share.
#[derive(Debug)]
pub(super) struct DiskShared {
    name: String,
    options: DiskOptions,
    shared_folder: SharedFolder,
    counter: Counter,
    /// Reads whole mirrors, all by one budget of descriptors.
    files: FileOrigin,
    /// The file system's device: what already lies there is not copied.
    device: u64,
    devices: Devices,
    judge: Judge,
    open: Mutex<InUse>,
    disk: Disk,
    began: Instant,
    /// When all of the file system was last on the disk, in milliseconds since the tier was opened.
    all_synced_ms: AtomicU64,
    leavers: Mutex<Leavers<MirrorName>>,
    unwanted: Unwanted,
    /// Nobody was worth less than a newcomer a moment ago.
    all_stay_until: Mutex<Option<Instant>>,
    evicted: AtomicU64,
    faults: AtomicU64,
    worker: Worker,
}

/// How long a tier that is opened waits for what was left behind to be counted; a large one is counted meanwhile.
const COUNT_PATIENCE: Duration = Duration::from_millis(200);

/// How long a tier that is dropped waits for its thread: a sync that takes longer ends after it.
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);

impl DiskTier {
    /// The tier at `options.path`; `judge` says which mirrors leave when it is full.
    pub fn open(options: DiskOptions, judge: Judge) -> Result<Self> {
        Self::open_with(options, judge, Disk::default())
    }

    fn open_with(options: DiskOptions, judge: Judge, disk: Disk) -> Result<Self> {
        let at = |error: Error| error.at(format!("disk tier '{}'", options.path.display()));
        let device = fs::metadata(&options.path).map_err(|error| at(Error::from_io(error)))?.dev();
        let (shared_folder, sharing) = folder::open(&options.path, options.keep).map_err(at)?;
        let counter = Counter::open(shared_folder.folder()).map_err(at)?;
        let count = if sharing == Sharing::Alone && counter.is_inexact() {
            Some(counter.begin_count())
        } else {
            counter.is_unknown().then(|| counter.before())
        };
        let since = SystemTime::now();
        counter.enter();
        // Before anything is counted: no other process waits for that.
        shared_folder.share().map_err(at)?;
        let shared = Arc::new(DiskShared {
            name: format!("disk {}", options.path.display()),
            options,
            shared_folder,
            counter,
            files: FileOrigin::new(),
            device,
            devices: Devices::default(),
            judge,
            open: Mutex::default(),
            disk,
            began: Instant::now(),
            all_synced_ms: AtomicU64::new(0),
            leavers: Mutex::default(),
            unwanted: Unwanted::default(),
            all_stay_until: Mutex::default(),
            evicted: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            worker: Worker::default(),
        });
        shared.clear_up(count, since);
        Ok(Self { shared })
    }

    /// Bytes that the tier at `path` holds, told without using it.
    pub fn used_at(path: &Path, keep: bool) -> u64 {
        folder::find(path, keep).map_or(0, |folder| usage::peek(&folder))
    }

    /// What is in it, largest first.
    pub fn mirrors(&self) -> Vec<Mirror> {
        shelf::mirrors(self.shared.folder())
    }

    /// Removes the mirrors of those sources that `leaves` names, and says how many bytes they took.
    pub fn clear(&self, leaves: impl Fn(&Mirror) -> bool) -> u64 {
        let leaving = self.mirrors().into_iter().filter(leaves);
        leaving.map(|mirror| self.shared.remove(mirror.name())).sum()
    }

    /// The folder of its own.
    pub fn folder(&self) -> &Path {
        self.shared.folder().path()
    }
}

impl Tier for DiskTier {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn copies(&self, source: &SourceId) -> Option<Arc<dyn Copies>> {
        if self.shared.devices.of(&source.locator) == Some(self.shared.device) {
            return None;
        }
        let blocks = Blocks::new(source.len, self.shared.options.block_len);
        let name = MirrorName { key: SourceKey::of(source), block_len: blocks.block_len() };
        let mut open = self.shared.lock_open();
        if let Some(copy) = open.get(name) {
            return Some(copy);
        }
        let copy = Copy::new(Arc::clone(&self.shared), source.clone(), blocks);
        open.insert(&copy);
        drop(open);
        self.shared.note_opened(source, name);
        Some(copy)
    }

    fn usage(&self) -> Usage {
        Usage {
            used: self.shared.counter.used(),
            quota: self.shared.options.quota,
            evicted: self.shared.evicted.load(Relaxed),
            faults: self.shared.faults.load(Relaxed),
        }
    }

    fn left_out(&self) -> Option<&str> {
        None
    }

    fn wait(&self, until: Instant) -> bool {
        self.shared.worker.wait(until)
    }
}

impl Drop for DiskTier {
    fn drop(&mut self) {
        // Its thread ends first, so that what it uses ends here and not some time later.
        self.shared.worker.close(CLOSE_PATIENCE);
    }
}

/// So many inodes stay free, as many bytes do: others want to make files too.
const LEAST_INODES: u64 = 1024;

/// To rank all mirrors takes a walk through the folder: it is not done for every block that finds no room.
const ALL_STAY: Duration = Duration::from_millis(100);

impl DiskShared {
    fn folder(&self) -> &OwnFolder {
        self.shared_folder.folder()
    }

    fn lock_open(&self) -> MutexGuard<'_, InUse> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the tier was opened, and one.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Removes what killed processes left before `since`, in the background, and counts what is there if that is to be.
    fn clear_up(self: &Arc<Self>, count: Option<Before>, since: SystemTime) {
        let later = |work: Box<dyn FnOnce(&Self) + Send>| {
            let shared = Arc::downgrade(self);
            self.worker.push(Box::new(move || {
                if let Some(shared) = shared.upgrade() {
                    work(&shared);
                }
            }));
        };
        if let Some(before) = count {
            later(Box::new(move |shared| {
                shelf::sweep(shared.folder(), since);
                shared.counter.finish_count(before, shelf::used(shared.folder()));
            }));
        }
        later(Box::new(|shared| folder::remove_deserted(shared.shared_folder.parent())));
        self.worker.wait(Instant::now() + COUNT_PATIENCE);
    }

    /// The sources that are open.
    fn open_sources(&self) -> Vec<(SourceId, MirrorName)> {
        let open: Vec<Arc<Copy>> = self.lock_open().copies.values().filter_map(Weak::upgrade).collect();
        open.iter().map(|copy| (copy.id.clone(), copy.name)).collect()
    }

    fn fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }

    /// True when the file system has room for `len` bytes more than must stay free.
    fn is_roomy(&self, len: u64) -> bool {
        let Ok(facts) = rustix::fs::fstatvfs(self.folder().descriptor()) else { return false };
        let free = facts.f_bavail.saturating_mul(facts.f_frsize);
        // A file system that makes inodes as they are needed says that it has none.
        let has_inodes = facts.f_files == 0 || facts.f_favail >= LEAST_INODES;
        has_inodes && free >= self.options.free.saturating_add(len)
    }

    /// True when `len` bytes are free.
    fn is_free(&self, len: u64) -> bool {
        self.counter.used().saturating_add(len) <= self.options.quota && self.is_roomy(len)
    }

    /// Takes `len` bytes, if they are free.
    fn take(&self, len: u64) -> bool {
        self.is_roomy(len) && self.counter.reserve(len, self.options.quota)
    }

    /// Takes `len` bytes for `name`, worth `newcomer`, while others leave for it.
    fn reserve_by_evicting(&self, name: MirrorName, len: u64, newcomer: impl Fn() -> Worth) -> bool {
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

    /// True when somebody would leave for `name`, worth `newcomer`.
    fn would_evict_for(&self, name: MirrorName, len: u64, newcomer: impl Fn() -> Worth) -> bool {
        if len > self.options.quota || self.judge.never_evicts() {
            return false;
        }
        let mut leavers = self.leavers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((worth, leaver)) = self.next_leaver(&mut leavers, name, &newcomer) else { return false };
        leavers.put_back(worth, leaver);
        true
    }

    /// Removes the mirror worth least, if there is one worth less than `newcomer`, which is not `name` itself.
    fn evict_for(&self, name: MirrorName, newcomer: &impl Fn() -> Worth) -> bool {
        let mut leavers = self.leavers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, leaver)) = self.next_leaver(&mut leavers, name, newcomer) else { return false };
        drop(leavers);
        self.remove(leaver);
        self.evicted.fetch_add(1, Relaxed);
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
            let ranked = shelf::ranked(self.folder()).into_iter();
            let ranked = ranked.filter(|(name, _)| *name != but);
            ranked.map(|(name, known)| (self.judge.worth(name.key, known.facts()), name)).collect()
        };
        let now = |name: &MirrorName| {
            // Ranked for another newcomer.
            if *name == but {
                return None;
            }
            let known = shelf::known(self.folder(), *name)?;
            Some(self.judge.worth(name.key, known.facts()))
        };
        let leaver = leavers.next(newcomer, all, now)?;
        Some((now(&leaver)?, leaver))
    }

    /// Removes the mirror called `name`, and gives the bytes it took. Who has blocks of it open reads on.
    fn remove(&self, name: MirrorName) -> u64 {
        let freed = shelf::remove(self.folder(), name);
        self.counter.release(freed);
        let copy = self.lock_open().get(name);
        if let Some(copy) = copy {
            copy.forget();
        }
        freed
    }
}

impl Drop for DiskShared {
    fn drop(&mut self) {
        if self.shared_folder.is_of_this_process() {
            self.counter.leave();
        }
        if self.options.keep {
            self.shared_folder.leave();
        } else {
            self.shared_folder.remove_if_last(folder::remove_files);
        }
    }
}

#[cfg(test)]
mod tests;
