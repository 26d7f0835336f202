//! The two files of a mirror, and what this process knows of the blocks in them.
//!
//! What is known outlives the descriptors, which are few: a mirror that was closed is opened again by the name of its
//! bytes, which no other mirror ever has.

use std::{
    any::Any,
    collections::HashSet,
    fmt,
    fs::File,
    io,
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
};

use arc_swap::ArcSwapOption;
use forebay_process::{
    Error, ErrorKind,
    descriptors::{self, Holder},
};
use forebay_scratch::{FileFacts, FileIdentity, OwnFolder};

use super::{
    map::{self, MapLayout},
    name::MirrorName,
    writeback::{DiskSync, Writeback},
};

/// The files of a mirror, open or not.
#[derive(Debug)]
pub(super) struct MirrorFiles {
    own: Weak<Self>,
    sync_queue: Weak<dyn SyncQueue>,
    pub(super) name: MirrorName,
    pub(super) layout: MapLayout,
    /// Which file has the bytes.
    identity: FileIdentity,
    /// Blocks that are right, and on the disk: what memory forgets of them is read again as it was.
    durable: RwLock<HashSet<u64>>,
    open: ArcSwapOption<MirrorDescriptors>,
    /// Used since the budget of descriptors last asked.
    was_used: AtomicBool,
    /// No block before this one is absent.
    pub(super) present_below: AtomicU64,
    /// Reads of blocks that were not durable, since the last sync.
    pub(super) unsynced_reads: AtomicU32,
    /// A sync of what is open is on its way.
    is_syncing: AtomicBool,
}

/// The files of a mirror, open.
#[derive(Debug)]
pub(super) struct MirrorDescriptors {
    pub(super) bytes: File,
    pub(super) map: Arc<File>,
    /// Blocks that were written, or compared, through these very descriptors: the kernel reports a failed write-back to
    /// each descriptor that was open then (`errseq`), and to no later one.
    right: RwLock<HashSet<u64>>,
    disk: DiskSync,
    can_ask: AtomicBool,
    has_failed: AtomicBool,
    /// Syncs under way, which may have been given an error (`errseq`) that is not recorded yet.
    syncing: AtomicU32,
    /// When a block was last found right, in milliseconds of the tier's clock.
    changed_ms: AtomicU64,
}

/// A mirror that can be read and written now.
#[derive(Clone, Debug)]
pub(super) struct OpenMirror {
    pub(super) files: Arc<MirrorFiles>,
    pub(super) descriptors: Arc<MirrorDescriptors>,
}

/// Brings to the disk in the background what was written to mirrors.
pub(super) trait SyncQueue: Send + Sync + fmt::Debug {
    /// Syncs what `files` has open when its turn comes.
    fn sync_open(&self, files: Weak<MirrorFiles>);

    /// Syncs descriptors that are being given back; drops them at once where too many wait already.
    fn sync_closing(&self, closing: OpenMirror);
}

/// Why a mirror cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotOpen {
    /// It was removed.
    Removed,
    /// Something else is wrong, and may not be later.
    Failed,
}

impl MirrorDescriptors {
    pub(super) fn new(bytes: File, map: File, disk: DiskSync) -> Self {
        let can_ask = AtomicBool::new((disk.can_ask)(&bytes));
        let (map, right, has_failed) = (Arc::new(map), RwLock::default(), AtomicBool::default());
        let (syncing, changed_ms) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { bytes, map, right, disk, can_ask, has_failed, syncing, changed_ms }
    }

    fn read_right(&self) -> RwLockReadGuard<'_, HashSet<u64>> {
        self.right.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_right(&self) -> RwLockWriteGuard<'_, HashSet<u64>> {
        self.right.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// False once the mirror was removed.
    pub(super) fn is_named(&self) -> bool {
        [&self.bytes, &*self.map]
            .iter()
            .all(|file| FileFacts::of(file).is_ok_and(|facts| facts.name_count > 0))
    }

    /// Whether what was read just now, of a block that was right, was not yet lost on its way to the disk.
    pub(super) fn ask(&self) -> Writeback {
        if !self.can_ask.load(Relaxed) {
            return Writeback::Unknown;
        }
        // An error is reported once per open file (`errseq`): under this lock it is recorded before `sync` looks.
        let _noting = self.read_right();
        match (self.disk.ask)(&self.bytes) {
            // A sync may have been given the error a moment ago.
            Writeback::Sound if self.syncing.load(SeqCst) > 0 => Writeback::Unknown,
            Writeback::Sound if self.has_failed.load(SeqCst) => Writeback::Failed,
            Writeback::Failed => {
                self.has_failed.store(true, SeqCst);
                Writeback::Failed
            }
            Writeback::Unknown => {
                self.can_ask.store(false, Relaxed);
                Writeback::Unknown
            }
            Writeback::Sound => Writeback::Sound,
        }
    }

    /// `fdatasync`. The kernel reports a failure once: it is recorded before another thread relies on an answer.
    fn sync(&self) -> io::Result<()> {
        self.syncing.fetch_add(1, SeqCst);
        let synced = (self.disk.sync)(&self.bytes);
        if synced.is_err() {
            self.has_failed.store(true, SeqCst);
        }
        self.syncing.fetch_sub(1, SeqCst);
        synced
    }
}

impl OpenMirror {
    /// The mirror called `name`, which is not known yet; `sync_queue` brings to the disk what is written to it.
    pub(super) fn new(
        sync_queue: Weak<dyn SyncQueue>,
        name: MirrorName,
        layout: MapLayout,
        descriptors: MirrorDescriptors,
    ) -> Result<Self, Error> {
        let identity = FileFacts::of(&descriptors.bytes)?.identity;
        let descriptors = Arc::new(descriptors);
        let files = Arc::new_cyclic(|own| MirrorFiles {
            own: Weak::clone(own),
            sync_queue,
            name,
            layout,
            identity,
            durable: RwLock::default(),
            open: ArcSwapOption::from(Some(Arc::clone(&descriptors))),
            was_used: AtomicBool::new(true),
            present_below: AtomicU64::new(0),
            unsynced_reads: AtomicU32::new(0),
            is_syncing: AtomicBool::new(false),
        });
        files.admit();
        Ok(Self { files, descriptors })
    }

    /// True for a block that these descriptors have found right, and that may not have reached the disk.
    pub(super) fn is_right(&self, block: u64) -> bool {
        self.descriptors.read_right().contains(&block)
    }

    pub(super) fn knows(&self, block: u64) -> bool {
        self.files.is_durable(block) || self.is_right(block)
    }

    /// Notes that `block` is right at `now_ms`, and says how many are.
    pub(super) fn know(&self, block: u64, now_ms: u64) -> u64 {
        let durable = self.files.read_durable();
        let mut right = self.descriptors.write_right();
        self.descriptors.changed_ms.store(now_ms, Relaxed);
        if !durable.contains(&block) {
            right.insert(block);
        }
        (durable.len() + right.len()) as u64
    }

    /// True when some of what is right may not be on the disk.
    pub(super) fn has_unsynced(&self) -> bool {
        !self.descriptors.read_right().is_empty()
    }

    pub(super) fn forget(&self, block: u64) {
        self.files.write_durable().remove(&block);
        self.descriptors.write_right().remove(&block);
    }

    /// True when all that is right was, before `moment_ms`, and the kernel says what of it did not reach the disk.
    pub(super) fn is_settled_at(&self, moment_ms: u64) -> bool {
        self.descriptors.changed_ms.load(Relaxed) < moment_ms && self.descriptors.can_ask.load(Relaxed)
    }

    /// Waits until what is right is on the disk too, where not all was brought there before; an error where some of it
    /// did not reach it.
    pub(super) fn sync(&self, is_synced: bool) -> io::Result<()> {
        self.files.unsynced_reads.store(0, Relaxed);
        let right: Vec<u64> = self.descriptors.read_right().iter().copied().collect();
        if !is_synced || self.descriptors.ask() == Writeback::Unknown {
            self.descriptors.sync()?;
        }
        let mut durable = self.files.write_durable();
        let mut still_right = self.descriptors.write_right();
        if self.descriptors.has_failed.load(SeqCst) {
            return Err(io::Error::other("a write-back failed"));
        }
        // One that was dropped meanwhile is not right any more.
        durable.extend(right.into_iter().filter(|block| still_right.remove(block)));
        Ok(())
    }
}

impl MirrorFiles {
    fn read_durable(&self) -> RwLockReadGuard<'_, HashSet<u64>> {
        self.durable.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_durable(&self) -> RwLockWriteGuard<'_, HashSet<u64>> {
        self.durable.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// True for a block that is right, and on the disk.
    pub(super) fn is_durable(&self, block: u64) -> bool {
        self.read_durable().contains(&block)
    }

    /// Forgets which blocks are right.
    pub(super) fn forget_all(&self) {
        self.write_durable().clear();
        self.open.store(None);
    }

    /// True when `facts` are those of the bytes.
    pub(super) fn is_at(&self, facts: &FileFacts) -> bool {
        self.identity == facts.identity
    }

    /// Gives the descriptors back.
    pub(super) fn close(&self) {
        self.open.store(None);
    }

    /// Brings to the disk what is right, in the background.
    pub(super) fn sync_later(&self) {
        let Some(queue) = self.sync_queue.upgrade() else { return };
        if !self.is_syncing.swap(true, Relaxed) {
            queue.sync_open(Weak::clone(&self.own));
        }
    }

    /// What is open when a queued sync begins.
    pub(super) fn begin_sync(self: Arc<Self>) -> Option<OpenMirror> {
        self.is_syncing.store(false, Relaxed);
        let descriptors = self.open.load_full()?;
        Some(OpenMirror { files: self, descriptors })
    }

    fn admit(&self) {
        let holder: Weak<dyn Holder> = Weak::clone(&self.own) as _;
        descriptors::admit(holder, DESCRIPTORS);
    }

    /// The mirror in `folder` with its descriptors, opened again if they were given back.
    pub(super) fn open(self: &Arc<Self>, folder: &OwnFolder, disk: DiskSync) -> Result<OpenMirror, NotOpen> {
        self.was_used.store(true, Relaxed);
        if let Some(descriptors) = self.open.load_full() {
            return Ok(OpenMirror { files: Arc::clone(self), descriptors });
        }
        let descriptors = Arc::new(self.reopen(folder, disk)?);
        let before =
            self.open.compare_and_swap(&None::<Arc<MirrorDescriptors>>, Some(Arc::clone(&descriptors)));
        // Another thread may have been quicker.
        if let Some(descriptors) = before.as_ref() {
            return Ok(OpenMirror { files: Arc::clone(self), descriptors: Arc::clone(descriptors) });
        }
        self.admit();
        Ok(OpenMirror { files: Arc::clone(self), descriptors })
    }

    fn reopen(&self, folder: &OwnFolder, disk: DiskSync) -> Result<MirrorDescriptors, NotOpen> {
        let open = |path: PathBuf| folder.open_existing(path).map_err(|error| closed(&error));
        let bytes = open(self.name.bytes(self.layout.nonce))?;
        let map = open(self.name.map())?;
        let is_same = FileFacts::of(&bytes).map_err(|_| NotOpen::Failed)?.identity == self.identity
            && match map::read_header(&map) {
                Ok(header) => header.layout == self.layout,
                Err(error) if map::is_no_map(&error) => false,
                Err(_) => return Err(NotOpen::Failed),
            };
        if is_same { Ok(MirrorDescriptors::new(bytes, map, disk)) } else { Err(NotOpen::Removed) }
    }
}

/// A mirror that is not whole has its bytes and its map open; whole ones are read through a pool.
const DESCRIPTORS: usize = 2;

impl Holder for MirrorFiles {
    fn was_used(&self) -> bool {
        // What is not on the disk yet is kept open for another round, and is on it then.
        let is_unsynced = self.open.load().as_ref().is_some_and(|open| !open.read_right().is_empty());
        if is_unsynced {
            self.sync_later();
        }
        self.was_used.swap(false, Relaxed) || is_unsynced
    }

    fn give_up(&self) -> Option<Box<dyn Any>> {
        let opened = || Some(OpenMirror { files: self.own.upgrade()?, descriptors: self.open.swap(None)? });
        Some(Box::new(opened().map(ClosingMirror)))
    }
}

/// MirrorDescriptors that are given back.
#[derive(Debug)]
struct ClosingMirror(OpenMirror);

impl Drop for ClosingMirror {
    fn drop(&mut self) {
        // The kernel reports a failed write-back to descriptors that were open then, and to no later one.
        if self.0.has_unsynced()
            && let Some(queue) = self.0.files.sync_queue.upgrade()
        {
            queue.sync_closing(self.0.clone());
        }
    }
}

fn closed(error: &Error) -> NotOpen {
    if error.kind() == ErrorKind::NotFound { NotOpen::Removed } else { NotOpen::Failed }
}
