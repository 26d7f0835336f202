//! A mirror of which all is there, read as one file.
//!
//! Before it is, each block was compared with its checksum and all bytes are on the disk. A seal in the map says so to
//! the other processes of this machine, until it is started anew.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use forebay_scratch::{ByteLock, FileFacts, boot_id};
use forebay_source::{ErrorKind, Locator, Origin, Source};

use super::{
    files::{Files, Opened},
    map,
    mirror::{Copy, MOST_TIMES_WRONG},
};

/// The mirror as one file.
#[derive(Debug)]
pub(super) enum Whole {
    /// It is not all there, was not compared, or nobody looked.
    Not,
    /// All is there and compared, and the file is unchanged since it had these facts.
    There(Arc<dyn Source>, FileFacts),
}

/// How often a reader looks whether another process has sealed the mirror meanwhile.
const LOOK_AGAIN_MS: u64 = 1000;

impl Copy {
    /// The whole mirror, if it was sealed by this process, or by another when that was last looked at.
    pub(super) fn whole_now_and_then(&self) -> Option<Arc<dyn Source>> {
        if let Whole::There(source, _) = &*self.lock_whole() {
            return Some(Arc::clone(source));
        }
        let (now, looked) = (self.shared.now_ms(), self.looked_ms.load(Relaxed));
        if looked != 0 && now.saturating_sub(looked) < LOOK_AGAIN_MS {
            return None;
        }
        self.looked_ms.store(now, Relaxed);
        self.find_seal(&self.opened()?)
    }

    /// The whole mirror, if its seal says so.
    fn find_seal(&self, opened: &Opened) -> Option<Arc<dyn Source>> {
        let sealed = opened.files.layout.read_seal(&opened.descriptors.map);
        if sealed == [0; 32] {
            return None;
        }
        let (source, facts) = self.as_file(&opened.files)?;
        if sealed != map::seal(&boot_id(), &source.id().version.full_tag()) {
            return None;
        }
        self.become_whole(&opened.files, Arc::clone(&source), facts);
        Some(source)
    }

    fn become_whole(&self, files: &Files, source: Arc<dyn Source>, facts: FileFacts) {
        let mut whole = self.lock_whole();
        self.has_left.store(false, Relaxed);
        *whole = Whole::There(source, facts);
        drop(whole);
        files.close();
    }

    /// The bytes of the mirror by their name; nothing when they were removed.
    fn as_file(&self, files: &Files) -> Option<(Arc<dyn Source>, FileFacts)> {
        let (folder, name) = (self.shared.folder(), self.name.bytes(files.layout.nonce));
        let source = self.shared.files.open(&Locator::from_path(folder.path().join(&name))).ok()?;
        let facts = folder.facts(&name).ok()?;
        let is_same = files.is_at(&facts) && source.id().len == self.blocks.len();
        is_same.then_some((source, facts))
    }

    /// Settles the mirror in the background, if all blocks are there by now.
    pub(super) fn settle_if_complete(&self, opened: &Opened) {
        let (files, count) = (&opened.files, self.blocks.count());
        // Looked for from where the last one found the first that is absent: each entry is passed once.
        let below = files.present_below.load(Relaxed);
        let absent = files.layout.first_absent(&opened.descriptors.map, below, count);
        files.present_below.store(absent, Relaxed);
        if absent == count {
            self.settle_later();
        }
    }

    /// Settles the mirror in the background.
    pub(super) fn settle_later(&self) {
        if self.blocks.is_empty() || matches!(*self.lock_whole(), Whole::There(..)) {
            return;
        }
        if !self.is_settling.swap(true, Relaxed) {
            self.later(|copy| {
                copy.is_settling.store(false, Relaxed);
                copy.settle_now();
            });
        }
    }

    /// Compares what was not, waits until all is on the disk, and seals the mirror; or finds the seal of another process.
    fn settle_now(&self) {
        if matches!(*self.lock_whole(), Whole::There(..))
            || self.wrong_times.load(Relaxed) >= MOST_TIMES_WRONG
        {
            return;
        }
        let Some(opened) = self.opened() else { return };
        let (map, count) = (&opened.descriptors.map, self.blocks.count());
        if self.find_seal(&opened).is_some() || opened.files.layout.first_absent(map, 0, count) < count {
            return;
        }
        // Past the last block: one process does it for all, and the others will see its seal.
        let Some(_lock) = ByteLock::take(Arc::clone(map), count) else { return };
        for block in 0..count {
            if self.shared.worker.is_stopped() || !opened.knows(block) && self.load(&opened, block).is_none()
            {
                return;
            }
        }
        if self.shared.sync(&opened).is_err() {
            self.shared.lose(&opened);
            return;
        }
        let is_all_durable = (0..count).all(|block| opened.files.is_durable(block));
        if !is_all_durable || !opened.descriptors.is_named() {
            return;
        }
        let Some((source, facts)) = self.as_file(&opened.files) else { return };
        opened.files.layout.write_seal(map, map::seal(&boot_id(), &source.id().version.full_tag()));
        self.become_whole(&opened.files, source, facts);
    }

    /// The whole could not be read: it was removed, something is short for a moment, or it is not what it was.
    pub(super) fn distrust_whole(&self) {
        let mut whole = self.lock_whole();
        let before = std::mem::replace(&mut *whole, Whole::Not);
        drop(whole);
        let (Whole::There(_, known), Some(files)) = (before, self.files.load_full()) else { return };
        match self.shared.folder().facts(self.name.bytes(files.layout.nonce)) {
            // Another process removed it, to make room: that is no fault of the disk.
            Err(error) if error.kind() == ErrorKind::NotFound => self.forget(),
            Ok(facts) if !files.is_at(&facts) || facts != known => {
                self.shared.fault();
                self.wrong_times.fetch_add(1, Relaxed);
                files.forget_all();
                if let Some(opened) = self.opened() {
                    opened.files.layout.write_seal(&opened.descriptors.map, [0; 32]);
                }
            }
            // Unchanged: its seal holds, and is looked at again a little later.
            _ => {
                self.shared.fault();
                self.looked_ms.store(self.shared.now_ms(), Relaxed);
            }
        }
    }
}
