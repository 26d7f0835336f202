//! The copies of one source: a sparse mirror of it, and the map of what is there.

use std::{
    io,
    os::unix::fs::FileExt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use forebay_scratch::ByteLock;
use forebay_source::SourceId;

use super::{
    DiskShared,
    files::{Files, Opened},
    name::MirrorName,
    shelf,
    whole::Whole,
    writeback::Writeback,
};
use crate::{Admission, Blocks, Claim, Claimed, Copies, Evicted, Facts, Room, SourceKey, Worth};

/// The copies of one source.
#[derive(Debug)]
pub(super) struct Copy {
    /// For work in the background, which must not keep the copies in use.
    own: Weak<Self>,
    pub(super) shared: Arc<DiskShared>,
    pub(super) id: SourceId,
    pub(super) name: MirrorName,
    pub(super) blocks: Blocks,
    pub(super) files: ArcSwapOption<Files>,
    /// Held by the thread that finds or makes the mirror, or gives a block up.
    pub(super) finding: Mutex<()>,
    pub(super) whole: Mutex<Whole>,
    /// When the seal was last looked at, in milliseconds; 0 when it never was.
    pub(super) looked_ms: AtomicU64,
    /// How often the mirror was not what it seemed.
    pub(super) wrong_times: AtomicU32,
    touched_s: AtomicU64,
    /// The mirror was removed after it was read as a whole.
    pub(super) has_left: AtomicBool,
    pub(super) is_settling: AtomicBool,
}

/// A mirror that was wrong so often lies on a bad disk.
pub(super) const MOST_TIMES_WRONG: u32 = 3;

/// A mirror of which so many reads were of blocks that may not have reached the disk is worth a sync.
const READS_PER_SYNC: u32 = 64;

impl Copy {
    pub(super) fn new(shared: Arc<DiskShared>, id: SourceId, blocks: Blocks) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            own: Weak::clone(own),
            name: MirrorName { key: SourceKey::of(&id), block_len: blocks.block_len() },
            shared,
            id,
            blocks,
            files: ArcSwapOption::empty(),
            finding: Mutex::default(),
            whole: Mutex::new(Whole::Not),
            looked_ms: AtomicU64::new(0),
            wrong_times: AtomicU32::new(0),
            touched_s: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
            is_settling: AtomicBool::new(false),
        })
    }

    /// Forgets all that was known: the mirror was removed.
    pub(super) fn forget(&self) {
        self.has_left.store(true, Relaxed);
        self.files.store(None);
        *self.lock_whole() = Whole::Not;
        self.looked_ms.store(0, Relaxed);
    }

    pub(super) fn lock_whole(&self) -> MutexGuard<'_, Whole> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of `block`, compared with their checksum.
    pub(super) fn load(&self, opened: &Opened, block: u64) -> Option<Bytes> {
        let crc = opened.files.layout.get(&opened.descriptors.map, block)?;
        let range = self.blocks.range(block);
        let mut bytes = vec![0; usize::try_from(range.len()).ok()?];
        if let Err(error) = opened.descriptors.bytes.read_exact_at(&mut bytes, range.start) {
            self.fail_block(opened, block, &error);
            return None;
        }
        if crc32c::crc32c(&bytes) != crc {
            self.drop_block(opened, block);
            return None;
        }
        self.know(opened, block);
        Some(bytes.into())
    }

    /// Notes that `block` is right; settles the mirror when it was the last.
    fn know(&self, opened: &Opened, block: u64) {
        if opened.know(block, self.shared.now_ms()) == self.blocks.count() {
            self.settle_later();
        }
    }

    /// `block` could not be read. One that the disk lost is given up; what else is wrong may be over next time.
    fn fail_block(&self, opened: &Opened, block: u64, error: &io::Error) {
        let is_lost = error.kind() == io::ErrorKind::UnexpectedEof
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if is_lost {
            self.drop_block(opened, block);
        } else {
            self.shared.fault();
        }
    }

    /// `block` cannot be read, or is not what was put.
    fn drop_block(&self, opened: &Opened, block: u64) {
        let _alone = self.finding.lock().unwrap_or_else(PoisonError::into_inner);
        opened.forget(block);
        // Of several threads that see the same, one gives its room back.
        if opened.files.layout.get(&opened.descriptors.map, block).is_none() {
            return;
        }
        self.shared.fault();
        opened.files.layout.unset(&opened.descriptors.map, block);
        opened.files.present_below.fetch_min(block, Relaxed);
        if opened.descriptors.is_named() {
            self.shared.counter.release(self.blocks.range(block).len());
        }
    }

    /// Whether a mirror may leave for this one. Where newcomers compete, only for a source of one block: a whole mirror
    /// that leaves for a part of another is soon read again.
    fn may_replace(&self) -> bool {
        !self.shared.judge.policy.newcomers_compete() || self.blocks.count() == 1
    }

    fn newcomer(&self) -> Worth {
        let now = shelf::clock(SystemTime::now());
        let facts = Facts {
            source: Some(&self.id),
            block: None,
            len: self.blocks.len(),
            placed: now,
            used: now,
            uses: 1,
            next_use: None,
        };
        self.shared.judge.worth(self.name.key, facts)
    }

    /// Reads bytes of `block` that were right when they were written or last compared, and may not be on the disk yet.
    fn read_unsynced(&self, opened: &Opened, block: u64, from: u64, into: &mut [u8]) -> bool {
        let reads = opened.files.unsynced_reads.fetch_add(1, Relaxed);
        if reads.is_multiple_of(READS_PER_SYNC) && reads > 0 {
            opened.files.sync_later();
        }
        if opened.is_right(block) && self.read_at(opened, block, from, into) {
            // Asked after the read: pages that were lost by then were found out before they could be read.
            match opened.descriptors.ask() {
                Writeback::Sound => return true,
                Writeback::Failed => {
                    self.shared.lose(opened);
                    return false;
                }
                Writeback::Unknown => {}
            }
        }
        let Some(bytes) = self.load(opened, block) else { return false };
        let part = usize::try_from(from).ok().and_then(|from| bytes.get(from..from.checked_add(into.len())?));
        part.map(|part| into.copy_from_slice(part)).is_some()
    }

    fn read_at(&self, opened: &Opened, block: u64, from: u64, into: &mut [u8]) -> bool {
        let at = self.blocks.range(block).start + from;
        match opened.descriptors.bytes.read_exact_at(into, at) {
            Ok(()) => true,
            Err(error) => {
                self.fail_block(opened, block, &error);
                false
            }
        }
    }

    /// Does `work` in the background, if the copies are still in use then.
    pub(super) fn later(&self, work: impl FnOnce(&Self) + Send + 'static) {
        let copy = Weak::clone(&self.own);
        self.shared.worker.push(Box::new(move || {
            if let Some(copy) = copy.upgrade() {
                work(&copy);
            }
        }));
    }
}

/// Room for one block, and the lock that keeps other processes from fetching it.
#[derive(Debug)]
struct Reserved {
    copy: Arc<Copy>,
    opened: Opened,
    _lock: ByteLock,
    block: u64,
    /// What is given back: nothing once the block is there.
    len: u64,
}

impl Claimed for Reserved {
    fn put(mut self: Box<Self>, bytes: &Bytes) -> Admission {
        let (opened, range) = (self.opened.clone(), self.copy.blocks.range(self.block));
        let (files, descriptors) = (&*opened.files, &*opened.descriptors);
        // A mirror that was removed meanwhile takes no room any more, and must not be counted.
        if range.len() != bytes.len() as u64 || !descriptors.is_named() {
            return Admission::Refused;
        }
        // The mark after the bytes: whoever sees it sees them.
        let written = descriptors
            .bytes
            .write_all_at(bytes, range.start)
            .and_then(|()| files.layout.set(&descriptors.map, self.block, crc32c::crc32c(bytes)));
        if written.is_err() {
            self.copy.shared.fault();
            return Admission::Refused;
        }
        self.copy.shared.counter.placed(self.len);
        self.len = 0;
        if !descriptors.is_named() {
            // Removed while it was written: whether it was counted is not known, so that the next who is alone counts.
            self.copy.shared.counter.mark_inexact();
        }
        self.copy.know(&opened, self.block);
        self.copy.settle_if_complete(&opened);
        Admission::Kept
    }

    fn take_evicted(&mut self) -> Vec<Evicted> {
        Vec::new()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.len > 0 {
            self.copy.shared.counter.cancel(self.len);
        }
    }
}

impl Copies for Copy {
    fn read(&self, block: u64, from: u64, into: &mut [u8]) -> bool {
        let Some(opened) = self.opened() else { return false };
        let len = self.blocks.range(block).len();
        if from.checked_add(into.len() as u64).is_none_or(|end| end > len) {
            return false;
        }
        if opened.files.is_durable(block) {
            return self.read_at(&opened, block, from, into);
        }
        self.read_unsynced(&opened, block, from, into)
    }

    fn get(&self, block: u64) -> Option<Bytes> {
        self.load(&self.opened()?, block)
    }

    fn has(&self, block: u64) -> bool {
        let Some(opened) = self.opened() else { return false };
        opened.knows(block) || opened.files.layout.get(&opened.descriptors.map, block).is_some()
    }

    fn held(&self) -> u64 {
        let present =
            |opened: Opened| opened.files.layout.present_bytes(&opened.descriptors.map, self.blocks);
        let own = self.opened().map_or(0, present);
        own.saturating_add(self.shared.superseded_bytes(&self.id, self.name))
    }

    fn room(&self, _: u64, len: u64) -> Room {
        if self.shared.is_free(len) || self.shared.has_unwanted(self.name, len) {
            return Room::Free;
        }
        if self.may_replace() && self.shared.would_evict_for(self.name, len, || self.newcomer()) {
            return Room::ByLeaving;
        }
        Room::Full
    }

    fn claim(self: Arc<Self>, block: u64, len: u64, may_replace: bool) -> Claim {
        if self.wrong_times.load(Relaxed) >= MOST_TIMES_WRONG {
            return Claim::Full;
        }
        let Some(opened) = self.growing() else { return Claim::Full };
        if opened.knows(block) {
            return Claim::Here;
        }
        let map = &opened.descriptors.map;
        let Some(lock) = ByteLock::take(Arc::clone(map), block) else { return Claim::Busy };
        if opened.files.layout.get(map, block).is_some() {
            return Claim::Here;
        }
        let may_replace = may_replace && self.may_replace();
        let is_reserved = self.shared.take(len)
            || self.shared.take_from_unwanted(self.name, len)
            || may_replace && self.shared.reserve_by_evicting(self.name, len, || self.newcomer());
        if !is_reserved {
            return Claim::Full;
        }
        Claim::Held(Box::new(Reserved { copy: self, opened, _lock: lock, block, len }))
    }

    fn whole(&self) -> Option<Arc<dyn forebay_source::Source>> {
        self.whole_now_and_then()
    }

    fn settle(&self) {
        self.settle_later();
    }

    fn distrust(&self) {
        self.distrust_whole();
    }

    fn has_left(&self) -> bool {
        self.has_left.load(Relaxed)
    }

    fn touch(&self) {
        let now_s = shelf::clock(SystemTime::now()) / 1_000_000_000;
        if self.touched_s.swap(now_s, Relaxed) != now_s {
            shelf::touch(self.shared.folder(), self.name);
        }
    }
}
