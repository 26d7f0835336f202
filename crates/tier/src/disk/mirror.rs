//! The copies of one source: a sparse mirror of it, and the map of what is there.

use std::{
    any::Any,
    collections::HashSet,
    fs::{self, File},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard, TryLockError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use bytes::Bytes;
use forebay_source::{
    Locator, Origin, Source, SourceId,
    descriptors::{self, Holder},
    private,
};

use super::{Place, lock::BlockLock, map};
use crate::{Admission, Blocks, Claim, Claimed, Copies, Evicted, Facts, Room, SourceKey, Worth};

/// The copies of one source.
#[derive(Debug)]
pub(super) struct Copy {
    itself: Weak<Self>,
    place: Arc<Place>,
    id: SourceId,
    key: SourceKey,
    blocks: Blocks,
    /// Those of a mirror that is not whole; a whole one is read through a pool.
    files: Mutex<Option<Arc<Files>>>,
    /// The files were used since the budget of descriptors last asked.
    used: AtomicBool,
    whole: Mutex<Whole>,
    /// How often the whole was not what it seemed.
    wrong_times: AtomicU32,
    touched_s: AtomicU64,
    /// The mirror was removed after it was read as a whole.
    has_left: AtomicBool,
}

/// A mirror and its map, open.
#[derive(Debug)]
struct Files {
    bytes: File,
    map: Arc<File>,
    layout: map::Layout,
    /// Blocks of this very file that this process wrote, or whose checksum it has compared: a mirror that was removed
    /// and made anew is another file, of which nothing is known.
    known: RwLock<HashSet<u64>>,
}

impl Files {
    fn knows(&self, block: u64) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&block)
    }

    /// False once the mirror was removed.
    fn is_named(&self) -> bool {
        self.map.metadata().is_ok_and(|facts| facts.nlink() > 0)
    }

    fn lock_known(&self) -> RwLockWriteGuard<'_, HashSet<u64>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mirror as one file.
#[derive(Debug)]
enum Whole {
    /// Nobody looked yet.
    Unknown,
    /// It is not all there, or was not compared.
    Not,
    /// All is there and compared, and the file is unchanged since.
    There(Arc<dyn Source>),
}

/// A mirror that is not whole has its bytes and its map open.
const DESCRIPTORS: usize = 2;

/// A mirror that was wrong so often lies on a bad disk.
const MOST_TIMES_WRONG: u32 = 3;

impl Copy {
    pub(super) fn new(place: Arc<Place>, id: SourceId, blocks: Blocks) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            itself: itself.clone(),
            key: SourceKey::of(&id),
            place,
            id,
            blocks,
            files: Mutex::default(),
            used: AtomicBool::new(false),
            whole: Mutex::new(Whole::Unknown),
            wrong_times: AtomicU32::new(0),
            touched_s: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
        })
    }

    pub(super) fn id(&self) -> &SourceId {
        &self.id
    }

    /// Forgets all that was known: the mirror was removed.
    pub(super) fn forget(&self) {
        self.has_left.store(true, Relaxed);
        self.close();
        *self.lock_whole() = Whole::Unknown;
    }

    fn close(&self) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn lock_whole(&self) -> MutexGuard<'_, Whole> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, extension: &str) -> PathBuf {
        super::shelf::path(self.place.folder.path(), self.key, extension)
    }

    /// The mirror and its map, opened if need be by `open`.
    fn files(&self, open: impl FnOnce(&Self) -> Option<Files>) -> Option<Arc<Files>> {
        let mut held = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        self.used.store(true, Relaxed);
        if let Some(files) = &*held {
            return Some(Arc::clone(files));
        }
        let files = Arc::new(open(self)?);
        *held = Some(Arc::clone(&files));
        drop(held);
        descriptors::admit(self.itself.clone(), DESCRIPTORS);
        Some(files)
    }

    /// The mirror and its map, if they are there.
    fn existing(&self) -> Option<Files> {
        let map_path = self.path("map");
        fs::symlink_metadata(&map_path).ok()?;
        let map = private::own_file(&map_path).ok()?;
        let of_this =
            map::read_header(&map).filter(|(id, blocks, _)| (id, blocks) == (&self.id, &self.blocks));
        let bytes_path = self.path("bytes");
        let bytes = fs::symlink_metadata(&bytes_path).ok().and_then(|_| private::own_file(&bytes_path).ok());
        let (Some((.., layout)), Some(bytes)) = (of_this, bytes) else {
            // Half removed, or damaged: nothing can be made of it.
            self.place.fault();
            self.place.counter.release(super::shelf::remove(self.place.folder.path(), self.key));
            // How much it took is not known any more: the next who opens the folder alone counts.
            self.place.counter.enter();
            return None;
        };
        Some(Files { bytes, map: Arc::new(map), layout, known: RwLock::default() })
    }

    /// The mirror and its map, made if they are not there.
    fn made(&self) -> Option<Files> {
        if let Some(files) = self.existing() {
            return Some(files);
        }
        let folder = self.place.folder.path();
        private::own_folder(folder, &super::shelf::folder_name(self.key)).ok()?;
        let (header, _) = map::header(&self.id, self.blocks)?;
        let bytes = private::own_file(&self.path("bytes")).ok()?;
        bytes.set_len(self.blocks.len()).ok()?;
        // The map appears whole, or not at all; of two who make it, one wins.
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
        let temporary = self.path(&format!("{}-{nanos}.new", std::process::id()));
        let link = || -> Option<()> {
            private::own_file(&temporary).ok()?.write_all_at(&header, 0).ok()?;
            match fs::hard_link(&temporary, self.path("map")) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => None,
                _ => Some(()),
            }
        };
        let linked = link();
        let _ = fs::remove_file(&temporary);
        linked?;
        self.existing()
    }

    /// Counts `block` as compared; seals the mirror when it was the last.
    fn know(&self, files: &Files, block: u64) {
        let mut known = files.lock_known();
        known.insert(block);
        let is_all = known.len() as u64 == self.blocks.count();
        drop(known);
        if is_all {
            self.seal(files);
        }
    }

    /// All is there and compared: from now on the mirror is read as one file, while its stamp stays the same.
    fn seal(&self, files: &Files) {
        let mut whole = self.lock_whole();
        if matches!(*whole, Whole::There(_)) || self.wrong_times.load(Relaxed) >= MOST_TIMES_WRONG {
            return;
        }
        let Some(source) = self.as_file(files) else { return };
        files.layout.write_seal(&files.map, map::seal(&private::boot_id(), &source.id().version.full_tag()));
        *whole = Whole::There(source);
        self.has_left.store(false, Relaxed);
        drop(whole);
        self.close();
    }

    /// The mirror of `files` by its name; nothing when another has that name by now.
    fn as_file(&self, files: &Files) -> Option<Arc<dyn Source>> {
        let path = self.path("bytes");
        let source = self.place.files.open(&Locator::new(path.to_str()?)).ok()?;
        // A name that a file lost never comes back: who has it now had it when the source was opened.
        let (named, own) = (fs::symlink_metadata(&path).ok()?, files.bytes.metadata().ok()?);
        let is_same = (named.dev(), named.ino()) == (own.dev(), own.ino());
        (is_same && source.id().len == self.blocks.len()).then_some(source)
    }

    /// The bytes of `block`, compared with their checksum.
    fn load(&self, files: &Files, block: u64) -> Option<Bytes> {
        let crc = files.layout.get(&files.map, block)?;
        let range = self.blocks.range(block);
        let mut bytes = vec![0; usize::try_from(range.len()).ok()?];
        let is_right =
            files.bytes.read_exact_at(&mut bytes, range.start).is_ok() && crc32c::crc32c(&bytes) == crc;
        if !is_right {
            self.drop_block(files, block);
            return None;
        }
        self.know(files, block);
        Some(bytes.into())
    }

    /// `block` cannot be read, or is not what was put.
    fn drop_block(&self, files: &Files, block: u64) {
        let mut known = files.lock_known();
        known.remove(&block);
        // Of several threads that see the same, one gives its room back.
        if files.layout.get(&files.map, block).is_none() {
            return;
        }
        self.place.fault();
        files.layout.unset(&files.map, block);
        self.place.counter.release(self.blocks.range(block).len());
    }

    /// Whether a mirror may leave for this one. Where newcomers compete, only for a source of one block: a whole mirror
    /// that leaves for a part of another is soon read again.
    fn may_replace(&self) -> bool {
        !self.place.judge.policy.newcomers_compete() || self.blocks.count() == 1
    }

    fn newcomer(&self) -> Worth {
        let now = super::shelf::clock(SystemTime::now());
        let facts = Facts {
            source: Some(&self.id),
            block: None,
            len: self.blocks.len(),
            placed: now,
            used: now,
            uses: 1,
            next_use: None,
        };
        self.place.judge.worth(self.key, facts)
    }

    /// The mirror and its map, made if need be, which have a name: a removed mirror must not grow.
    fn growing(&self) -> Option<Arc<Files>> {
        let files = self.files(Self::made)?;
        if files.is_named() {
            return Some(files);
        }
        self.forget();
        self.files(Self::made)
    }
}

/// Room for one block, and the lock that keeps other processes from fetching it.
#[derive(Debug)]
struct Reserved {
    copy: Arc<Copy>,
    files: Arc<Files>,
    _lock: BlockLock,
    block: u64,
    /// What is given back: nothing once the block is there.
    len: u64,
}

impl Claimed for Reserved {
    fn put(mut self: Box<Self>, bytes: &Bytes) -> Admission {
        let (files, range) = (Arc::clone(&self.files), self.copy.blocks.range(self.block));
        // A mirror that was removed meanwhile takes no room any more, and must not be counted.
        if range.len() != bytes.len() as u64 || !files.is_named() {
            return Admission::Refused;
        }
        // The mark after the bytes: whoever sees it sees them.
        let written = files
            .bytes
            .write_all_at(bytes, range.start)
            .and_then(|()| files.layout.set(&files.map, self.block, crc32c::crc32c(bytes)));
        if written.is_err() {
            self.copy.place.fault();
            return Admission::Refused;
        }
        self.len = 0;
        if !files.is_named() {
            // Removed while it was written: whether it was counted is not known, so that the next who is alone counts.
            self.copy.place.counter.enter();
        }
        self.copy.know(&files, self.block);
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<Evicted> {
        Vec::new()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.len > 0 {
            self.copy.place.counter.release(self.len);
        }
    }
}

impl Copies for Copy {
    fn read(&self, block: u64, from: u64, into: &mut [u8]) -> bool {
        let Some(files) = self.files(Self::existing) else { return false };
        if !files.knows(block) {
            let Some(bytes) = self.load(&files, block) else { return false };
            let part =
                usize::try_from(from).ok().and_then(|from| bytes.get(from..from.checked_add(into.len())?));
            return part.map(|part| into.copy_from_slice(part)).is_some();
        }
        let range = self.blocks.range(block);
        let is_inside = from.checked_add(into.len() as u64).is_some_and(|end| end <= range.len());
        if !is_inside {
            return false;
        }
        if files.bytes.read_exact_at(into, range.start + from).is_err() {
            self.drop_block(&files, block);
            return false;
        }
        true
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        let files = self.files(Self::existing)?;
        self.load(&files, block)
    }

    fn has(&self, block: u64) -> bool {
        let Some(files) = self.files(Self::existing) else { return false };
        files.knows(block) || files.layout.get(&files.map, block).is_some()
    }

    fn held(&self) -> u64 {
        let present = |files: Arc<Files>| files.layout.present_bytes(&files.map, self.blocks);
        let own = self.files(Self::existing).map_or(0, present);
        own.saturating_add(self.place.superseded_bytes(&self.id, self.key))
    }

    fn room(&self, _: u64, len: u64) -> Room {
        if self.place.is_free(len) || self.place.has_unwanted(self.key, len) {
            return Room::Free;
        }
        if self.may_replace() && self.place.would_evict_for(self.key, len, || self.newcomer()) {
            return Room::ByLeaving;
        }
        Room::Full
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, may_replace: bool) -> Claim {
        let Some(files) = self.growing() else { return Claim::Full };
        if files.knows(block) {
            return Claim::Here;
        }
        let Some(lock) = BlockLock::take(Arc::clone(&files.map), block) else { return Claim::Busy };
        if files.layout.get(&files.map, block).is_some() {
            return Claim::Here;
        }
        let may_replace = may_replace && self.may_replace();
        let is_reserved = self.place.take(len)
            || self.place.take_from_unwanted(self.key, len)
            || may_replace && self.place.reserve_by_evicting(self.key, len, || self.newcomer());
        if !is_reserved {
            return Claim::Full;
        }
        Claim::Held(Box::new(Reserved { copy: self, files, _lock: lock, block, len }))
    }

    fn whole(&self) -> Option<Arc<dyn Source>> {
        let mut whole = self.lock_whole();
        match &*whole {
            Whole::There(source) => return Some(Arc::clone(source)),
            Whole::Not => return None,
            Whole::Unknown => {}
        }
        *whole = Whole::Not;
        let files = self.files(Self::existing)?;
        let source = self.as_file(&files)?;
        let sealed = map::seal(&private::boot_id(), &source.id().version.full_tag());
        if files.layout.read_seal(&files.map) != sealed {
            return None;
        }
        *whole = Whole::There(Arc::clone(&source));
        self.has_left.store(false, Relaxed);
        drop(whole);
        self.close();
        Some(source)
    }

    fn settle(&self) {
        if self.blocks.is_empty() || matches!(*self.lock_whole(), Whole::There(_)) {
            return;
        }
        let Some(files) = self.files(Self::existing) else { return };
        if files.layout.first_absent(&files.map, 0, self.blocks.count()) < self.blocks.count() {
            return;
        }
        for block in 0..self.blocks.count() {
            if !files.knows(block) && self.load(&files, block).is_none() {
                return;
            }
        }
    }

    fn distrust(&self) {
        self.place.fault();
        self.wrong_times.fetch_add(1, Relaxed);
        *self.lock_whole() = Whole::Not;
        if let Some(files) = self.files(Self::existing) {
            files.lock_known().clear();
            files.layout.write_seal(&files.map, [0; 32]);
        }
    }

    fn has_left(&self) -> bool {
        self.has_left.load(Relaxed)
    }

    fn touch(&self) {
        let now_s = super::shelf::clock(SystemTime::now()) / 1_000_000_000;
        if self.touched_s.swap(now_s, Relaxed) != now_s {
            super::shelf::touch(&self.path("map"));
        }
    }
}

impl Holder for Copy {
    fn was_used(&self) -> bool {
        self.used.swap(false, Relaxed)
    }

    fn give_up(&self) -> Option<Box<dyn Any>> {
        // Who has the lock may be opening files, and wait for the budget.
        let mut files = match self.files.try_lock() {
            Ok(files) => files,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Box::new(files.take()))
    }
}

/// True for names that only this file gives, while a map is being made.
pub(super) fn is_temporary(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "new")
}
