//! What all mirrors of a disk tier share: its folder, its byte counter, its background thread.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant, SystemTime},
};

use forebay_scratch::{OwnFolder, SharedFolder};
use forebay_source::{FileOrigin, SourceId};

use super::{
    device::Devices,
    folder, lease,
    mirror::Mirror,
    mirror_files,
    mirror_listing::MirrorListing,
    name::MirrorName,
    open_mirrors::OpenMirrors,
    options::DiskOptions,
    usage_counter::{CountStart, UsageCounter},
    worker::Worker,
    writeback::DiskSync,
};
use crate::policy::{EvictionQueue, Ranking};

/// What all mirrors of a disk tier share.
#[derive(Debug)]
pub(super) struct DiskShared {
    /// For jobs of the worker, which must not keep the tier open.
    pub(super) own: Weak<Self>,
    pub(super) name: String,
    pub(super) options: DiskOptions,
    pub(super) shared_folder: SharedFolder,
    pub(super) counter: UsageCounter,
    /// Reads sealed mirrors, all by one budget of descriptors.
    pub(super) files: FileOrigin,
    /// The file system's device: what already lies there is not copied.
    pub(super) device: u64,
    pub(super) devices: Devices,
    pub(super) ranking: Ranking,
    pub(super) open: Mutex<OpenMirrors>,
    pub(super) disk: DiskSync,
    pub(super) began: Instant,
    /// When all of the file system was last on the disk, in milliseconds since the tier was opened.
    pub(super) all_synced_ms: AtomicU64,
    pub(super) queue: Mutex<EvictionQueue<MirrorName>>,
    pub(super) listing: MirrorListing,
    /// Until when no mirror is ranked again: none scored less than a newcomer a moment ago.
    pub(super) all_stay_until: Mutex<Option<Instant>>,
    pub(super) evicted: AtomicU64,
    pub(super) faults: AtomicU64,
    pub(super) worker: Worker,
    pub(super) is_closed: AtomicBool,
}

/// How long a tier that is opened waits for what was left behind to be counted; a large one is counted meanwhile.
const COUNT_PATIENCE: Duration = Duration::from_millis(200);

/// Inodes that stay free for others.
const LEAST_INODES: u64 = 1024;

impl DiskShared {
    pub(super) fn folder(&self) -> &OwnFolder {
        self.shared_folder.folder()
    }

    pub(super) fn lock_open(&self) -> MutexGuard<'_, OpenMirrors> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the tier was opened, and one: 0 stands for never.
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Removes what killed processes left before `since`, in the background, and counts what is there if that is to be.
    pub(super) fn clear_up(&self, count: Option<CountStart>, since: SystemTime) {
        let later = |work: Box<dyn FnOnce(&Self) + Send>| {
            let shared = Weak::clone(&self.own);
            self.worker.push(Box::new(move || {
                if let Some(shared) = shared.upgrade() {
                    work(&shared);
                }
            }));
        };
        if let Some(before) = count {
            later(Box::new(move |shared| {
                mirror_files::sweep(shared.folder(), since);
                shared.counter.finish_count(before, mirror_files::used(shared.folder()));
            }));
        }
        later(Box::new(|shared| folder::remove_deserted(shared.shared_folder.parent())));
        self.worker.wait(Instant::now() + COUNT_PATIENCE);
    }

    /// The sources that are open.
    pub(super) fn open_sources(&self) -> Vec<(SourceId, MirrorName)> {
        let open: Vec<Arc<Mirror>> = self.lock_open().mirrors.values().filter_map(Weak::upgrade).collect();
        open.iter().map(|mirror| (mirror.id.clone(), mirror.name)).collect()
    }

    /// Counts a copy that could not be read, or was not what was put.
    pub(super) fn fault(&self) {
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
    pub(super) fn is_free(&self, len: u64) -> bool {
        self.counter.used().saturating_add(len) <= self.options.quota && self.is_roomy(len)
    }

    /// Takes `len` bytes, if they are free.
    pub(super) fn take(&self, len: u64) -> bool {
        !self.is_closed() && self.is_roomy(len) && self.counter.reserve(len, self.options.quota)
    }

    /// Removes the mirror called `name`, and gives the bytes it took. A process that has it open reads on.
    pub(super) fn remove(&self, name: MirrorName) -> u64 {
        let freed = mirror_files::remove(self.folder(), name);
        self.counter.release(freed);
        let mirror = self.lock_open().get(name);
        if let Some(mirror) = mirror {
            mirror.forget();
        }
        freed
    }
}

impl DiskShared {
    /// Removes the mirror called `name` to make room, and gives the bytes it took; nothing where it is leased: its space
    /// would not be free before the lease ends.
    pub(super) fn evict(&self, name: MirrorName) -> Option<u64> {
        let _unleased = lease::keep_off(self.folder(), name)?;
        Some(self.remove(name))
    }
}

impl DiskShared {
    /// Ends the use of the folder by this process; the last process removes the folder of a job.
    pub(super) fn close(&self) {
        if self.is_closed.swap(true, SeqCst) {
            return;
        }
        if self.shared_folder.is_of_this_process() {
            self.counter.leave();
        }
        if self.options.keep {
            self.shared_folder.leave();
        } else {
            self.shared_folder.remove_if_last(folder::remove_files);
        }
    }

    /// True once the folder may be gone: nothing is written to it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(SeqCst)
    }
}

impl Drop for DiskShared {
    fn drop(&mut self) {
        self.close();
    }
}
