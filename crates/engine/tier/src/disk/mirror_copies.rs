//! The copies of one source on a disk: blocks of a sparse mirror, read and compared.

use std::{
    io,
    os::unix::fs::FileExt,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::SystemTime,
};

use bytes::Bytes;

use super::{mirror::Mirror, mirror_descriptors::OpenMirror, mirror_files, shared::DiskShared};
use crate::policy::{BlockFacts, Score};

/// The copies of one source: its mirror, and the tier that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct MirrorCopies {
    pub(super) shared: Arc<DiskShared>,
    pub(super) mirror: Arc<Mirror>,
}

/// A mirror that was wrong this often lies on a bad disk.
pub(super) const MOST_TIMES_WRONG: u32 = 3;

/// One read in this many counts as a use, by which mirrors are ranked.
const READS_PER_TOUCH: u64 = 256;

impl MirrorCopies {
    /// The bytes of `block`, compared with their checksum.
    pub(super) fn load(&self, opened: &OpenMirror, block: u64) -> Option<Bytes> {
        let crc = opened.files.layout.get(&opened.descriptors.map, block)?;
        let range = self.mirror.blocks.range(block);
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
    pub(super) fn know(&self, opened: &OpenMirror, block: u64) {
        if opened.know(block, self.shared.now_ms()) == self.mirror.blocks.count() {
            self.settle_later();
        }
    }

    /// `block` could not be read. One that the disk lost is given up; what else is wrong may be over next time.
    pub(super) fn fail_block(&self, opened: &OpenMirror, block: u64, error: &io::Error) {
        let is_lost = error.kind() == io::ErrorKind::UnexpectedEof
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if is_lost {
            self.drop_block(opened, block);
        } else {
            self.shared.fault();
        }
    }

    /// `block` cannot be read, or is not what was put.
    fn drop_block(&self, opened: &OpenMirror, block: u64) {
        let _alone = self.mirror.finding.lock().unwrap_or_else(PoisonError::into_inner);
        opened.forget(block);
        // Of several threads that find it damaged, one gives its room back.
        if opened.files.layout.get(&opened.descriptors.map, block).is_none() {
            return;
        }
        self.shared.fault();
        opened.files.layout.unset(&opened.descriptors.map, block);
        opened.files.present_below.fetch_min(block, Relaxed);
        if opened.descriptors.is_named() {
            self.shared.counter.release(self.mirror.blocks.range(block).len());
        }
    }

    /// Whether a mirror may be evicted for this one. Where newcomers compete, only for a source of one block: a whole mirror
    /// that is evicted for a part of another is soon read again.
    pub(super) fn may_replace(&self) -> bool {
        !self.shared.ranking.policy.newcomers_compete() || self.mirror.blocks.count() == 1
    }

    pub(super) fn newcomer(&self) -> Score {
        let now = mirror_files::clock(SystemTime::now());
        let facts = BlockFacts {
            source: Some(&self.mirror.id),
            block: None,
            len: self.mirror.blocks.len(),
            placed: now,
            used: now,
            uses: 1,
            next_use: None,
        };
        self.shared.ranking.score(self.mirror.name.key, facts)
    }

    /// Counts `count` reads of blocks as uses of the mirror, one in [`READS_PER_TOUCH`].
    pub(super) fn count_reads(&self, count: u64) {
        if count == 0 {
            return;
        }
        let first = self.mirror.reads.fetch_add(count, Relaxed);
        let last = first.saturating_add(count - 1);
        if first.is_multiple_of(READS_PER_TOUCH) || first / READS_PER_TOUCH != last / READS_PER_TOUCH {
            self.count_use();
        }
    }

    /// Counts a use of the mirror, at most one a second.
    pub(super) fn count_use(&self) {
        let now_s = mirror_files::clock(SystemTime::now()) / 1_000_000_000;
        if self.mirror.touched_s.swap(now_s, Relaxed) != now_s {
            mirror_files::touch(self.shared.folder(), self.mirror.name);
        }
    }

    /// Does `work` in the background, unless the tier was dropped before. The job holds the mirror: with it would go which
    /// blocks were found right, and a source that is closed early would never be sealed.
    pub(super) fn later(&self, work: impl FnOnce(&Self) + Send + 'static) {
        let (shared, mirror) = (Arc::downgrade(&self.shared), Arc::clone(&self.mirror));
        self.shared.worker.push(Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                work(&Self { shared, mirror });
            }
        }));
    }
}
