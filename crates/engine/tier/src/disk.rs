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
//! | `options` | what a tier is made of |
//! | `folder` | what the folder is called, and what in it is the tier's own |
//! | `made_folders` | folders above it that are removed at the end |
//! | `usage_counter` | one counter of bytes for all processes |
//! | `device` | which device a source lies on |
//! | `name` | what files are called |
//! | `map` | which blocks are there: a file that may lie |
//! | `lease` | descriptors that were handed out keep eviction off |
//! | `writeback` | whether what was written reached the disk (`errseq`) |
//! | `worker` | one thread for work in the background |
//! | `mirror_files` | the files of all mirrors: listed, ranked, removed |
//! | `mirror_listing` | a listing of the folder, kept for a while |
//! | `mirror_descriptors` | the two open files of a mirror, and which of its blocks are known to be right |
//! | `mirror`, `open_mirrors` | what a process knows of a mirror, and of all that it uses |
//! | `shared` | what all mirrors of a tier share |
//! | `sync` | mirrors on their way from the page cache to the disk |
//! | `evict`, `outdated_mirrors` | which mirrors leave a full tier, and which before all others |
//! | `mirror_copies`, `find_mirror`, `read_run`, `sealed_mirror`, `copies` | the copies of one source: blocks, files, vectored reads, the sealed whole, the contract |

mod copies;
mod device;
mod evict;
mod find_mirror;
mod folder;
mod lease;
mod made_folders;
mod map;
mod mirror;
mod mirror_copies;
mod mirror_descriptors;
mod mirror_files;
mod mirror_listing;
mod name;
mod open_mirrors;
mod options;
mod outdated_mirrors;
mod read_run;
mod sealed_mirror;
mod shared;
mod sync;
mod usage_counter;
mod worker;
mod writeback;

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};

use forebay_process::{Error, Result};
use forebay_scratch::Sharing;
use forebay_source::{FileOrigin, SourceId};

use self::{
    device::Devices, mirror::Mirror, mirror_copies::MirrorCopies, mirror_listing::MirrorListing,
    name::MirrorName, shared::DiskShared, usage_counter::UsageCounter, worker::Worker, writeback::DiskSync,
};
use crate::{
    block::{SourceBlocks, SourceKey},
    policy::Ranking,
    tier::{Copies, Tier, Usage},
};

pub use self::{made_folders::MadeFolders, mirror_files::MirrorSummary, options::DiskOptions};

/// A tier on a local disk.
#[derive(Debug)]
pub struct DiskTier {
    shared: Arc<DiskShared>,
}

/// How long a tier that is dropped waits for its thread: a sync that takes longer ends after it.
const CLOSE_PATIENCE: Duration = Duration::from_millis(500);

impl DiskTier {
    /// The tier at `options.path`; `ranking` says which mirrors are evicted when it is full.
    pub fn open(options: DiskOptions, ranking: Ranking) -> Result<Self> {
        Self::open_with(options, ranking, DiskSync::default())
    }

    fn open_with(options: DiskOptions, ranking: Ranking, disk: DiskSync) -> Result<Self> {
        let at = |error: Error| error.at(format!("disk tier '{}'", options.path.display()));
        let device = fs::metadata(&options.path).map_err(|error| at(Error::from_io(error)))?.dev();
        let (shared_folder, sharing) = folder::open(&options.path, options.keep).map_err(at)?;
        let counter = UsageCounter::open(shared_folder.folder()).map_err(at)?;
        let count = if sharing == Sharing::Alone && counter.is_inexact() {
            Some(counter.begin_count())
        } else {
            counter.is_unknown().then(|| counter.before())
        };
        let since = SystemTime::now();
        counter.enter();
        // Before anything is counted: no other process waits for that.
        shared_folder.share().map_err(at)?;
        let shared = Arc::new_cyclic(|own| DiskShared {
            own: Weak::clone(own),
            name: format!("disk {}", options.path.display()),
            options,
            shared_folder,
            counter,
            files: FileOrigin::new(),
            device,
            devices: Devices::default(),
            ranking,
            open: Mutex::default(),
            disk,
            began: Instant::now(),
            all_synced_ms: AtomicU64::new(0),
            queue: Mutex::default(),
            listing: MirrorListing::default(),
            all_stay_until: Mutex::default(),
            evicted: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            worker: Worker::default(),
            is_closed: AtomicBool::new(false),
        });
        shared.clear_up(count, since);
        Ok(Self { shared })
    }

    /// Bytes that the tier at `path` holds, read without opening the tier.
    pub fn used_at(path: &Path, keep: bool) -> u64 {
        folder::find(path, keep).map_or(0, |folder| usage_counter::read_used(&folder))
    }

    /// What the file at `bytes` is a copy of, by the map beside it; nothing where it is no mirror of this user.
    pub fn source_of(bytes: &Path) -> Option<SourceId> {
        mirror_files::source_of(bytes)
    }

    /// What is in it, largest first.
    pub fn mirrors(&self) -> Vec<MirrorSummary> {
        mirror_files::mirrors(self.shared.folder())
    }

    /// Removes the mirrors of the sources that `leaves` names, leased or not, and gives the bytes they took.
    pub fn clear(&self, leaves: impl Fn(&MirrorSummary) -> bool) -> u64 {
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
        let blocks = SourceBlocks::new(source.len, self.shared.options.block_len);
        let name = MirrorName { key: SourceKey::of(source), block_len: blocks.block_len() };
        let mut open = self.shared.lock_open();
        if let Some(mirror) = open.get(name) {
            return Some(Arc::new(MirrorCopies { shared: Arc::clone(&self.shared), mirror }));
        }
        let mirror = Mirror::new(source.clone(), blocks);
        open.insert(&mirror);
        drop(open);
        self.shared.note_opened(source, name);
        Some(Arc::new(MirrorCopies { shared: Arc::clone(&self.shared), mirror }))
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

    fn close(&self, until: Instant) {
        // Its thread ends first: what it is at would otherwise write to a folder that was removed.
        self.shared.worker.close(until.saturating_duration_since(Instant::now()));
        self.shared.close();
    }
}

impl Drop for DiskTier {
    fn drop(&mut self) {
        // The thread ends first, so that what it uses ends here and not some time later.
        self.shared.worker.close(CLOSE_PATIENCE);
    }
}

#[cfg(test)]
mod tests;
