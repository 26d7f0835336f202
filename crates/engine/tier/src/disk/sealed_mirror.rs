//! Sealed mirrors: complete, compared, synced, and read as one file.
//!
//! Before it is, each block was compared with its checksum and all bytes are on the disk. A seal in the map says so to
//! the other processes of this machine, until it is started anew.

use std::{
    fs::File,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use forebay_process::ErrorKind;
use forebay_scratch::{ByteLock, FileFacts, boot_id};
use forebay_source::{Locator, Origin, Source};

use super::{
    lease,
    map::{self, MapLayout},
    mirror::SealedFile,
    mirror_copies::{MOST_TIMES_WRONG, MirrorCopies},
    mirror_descriptors::OpenMirror,
};
use crate::tier::WholeCopy;

/// How often a reader looks whether another process has sealed the mirror meanwhile.
const LOOK_AGAIN_MS: u64 = 1000;

impl MirrorCopies {
    /// The whole mirror, if it was sealed by this process, or by another when that was last looked at.
    pub(super) fn sealed_file(&self) -> Option<Arc<SealedFile>> {
        if let Some(sealed) = &*self.mirror.lock_sealed() {
            return Some(Arc::clone(sealed));
        }
        let (now, looked) = (self.shared.now_ms(), self.mirror.looked_ms.load(Relaxed));
        if looked != 0 && now.saturating_sub(looked) < LOOK_AGAIN_MS {
            return None;
        }
        self.mirror.looked_ms.store(now, Relaxed);
        match self.mirror.files.load_full() {
            Some(_) => {
                let opened = self.opened()?;
                self.find_seal(&opened.files.layout, &opened.descriptors.map)
            }
            // The map alone says whether it is sealed: the bytes need not be opened for writing.
            None => {
                let map = self.shared.folder().open_existing(self.mirror.name.map()).ok()?;
                let header = map::read_header(&map).ok()?;
                let is_same = (&header.id, header.blocks) == (&self.mirror.id, self.mirror.blocks);
                if is_same { self.find_seal(&header.layout, &map) } else { None }
            }
        }
    }

    /// The whole mirror, if its seal says so. It names the very file (inode and ctime) that was sealed.
    fn find_seal(&self, layout: &MapLayout, map: &File) -> Option<Arc<SealedFile>> {
        let sealed = layout.read_seal(map);
        if sealed == [0; 32] {
            return None;
        }
        let (source, facts) = self.as_file(layout.nonce)?;
        if sealed != map::seal(&boot_id(), &source.id().version.full_tag()) {
            return None;
        }
        Some(self.become_whole(layout.nonce, source, facts))
    }

    fn become_whole(&self, nonce: u64, source: Arc<dyn Source>, facts: FileFacts) -> Arc<SealedFile> {
        let sealed = Arc::new(SealedFile { source, nonce, facts, is_gone: AtomicBool::new(false) });
        *self.mirror.lock_sealed() = Some(Arc::clone(&sealed));
        if let Some(files) = self.mirror.files.load_full() {
            files.close();
        }
        sealed
    }

    /// The bytes of the mirror by their name; nothing when they were removed.
    fn as_file(&self, nonce: u64) -> Option<(Arc<dyn Source>, FileFacts)> {
        let (folder, name) = (self.shared.folder(), self.mirror.name.bytes(nonce));
        let source = self.shared.files.open(&Locator::from_path(folder.path().join(&name))).ok()?;
        let facts = folder.facts(&name).ok()?;
        (source.id().len == self.mirror.blocks.len()).then_some((source, facts))
    }

    /// Settles the mirror in the background, if all blocks are there by now.
    pub(super) fn settle_if_complete(&self, opened: &OpenMirror) {
        let (files, count) = (&opened.files, self.mirror.blocks.count());
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
        if self.mirror.blocks.is_empty() || self.mirror.is_sealed() {
            return;
        }
        if !self.mirror.is_settling.swap(true, Relaxed) {
            self.later(|copies| {
                copies.mirror.is_settling.store(false, Relaxed);
                copies.settle_now();
            });
        }
    }

    /// Compares the blocks that were not yet, syncs, and seals the mirror; or finds the seal of another process.
    fn settle_now(&self) {
        if self.mirror.is_sealed() || self.mirror.wrong_times.load(Relaxed) >= MOST_TIMES_WRONG {
            return;
        }
        let Some(opened) = self.opened() else { return };
        let (map, count) = (&opened.descriptors.map, self.mirror.blocks.count());
        let layout = &opened.files.layout;
        if self.find_seal(layout, map).is_some() || layout.first_absent(map, 0, count) < count {
            return;
        }
        // An OFD lock past the last block: one process seals for all, and the others find its seal.
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
        let Some((source, facts)) = self.as_file(layout.nonce) else { return };
        if opened.files.is_at(&facts) {
            layout.write_seal(map, map::seal(&boot_id(), &source.id().version.full_tag()));
            self.become_whole(layout.nonce, source, facts);
        }
    }

    /// The sealed file could not be read: it was removed, something is short for a moment, or it is not what it was.
    fn distrust_sealed(&self, sealed: &Arc<SealedFile>) {
        let mut held = self.mirror.lock_sealed();
        // Another thread may have been quicker, and what is held by now another file.
        let sealed = held.take_if(|held| Arc::ptr_eq(held, sealed));
        drop(held);
        let Some(sealed) = sealed else { return };
        match self.shared.folder().facts(self.mirror.name.bytes(sealed.nonce)) {
            // Another process removed it, to make room: that is no fault of the disk.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                sealed.is_gone.store(true, Relaxed);
                self.mirror.forget();
            }
            Ok(facts) if facts != sealed.facts => {
                self.shared.fault();
                self.mirror.wrong_times.fetch_add(1, Relaxed);
                if let Some(files) = self.mirror.files.load_full() {
                    files.forget_all();
                }
                if let Some(opened) = self.opened() {
                    opened.files.layout.write_seal(&opened.descriptors.map, [0; 32]);
                }
            }
            // Unchanged: its seal holds, and is looked at again a little later.
            _ => {
                self.shared.fault();
                self.mirror.looked_ms.store(self.shared.now_ms(), Relaxed);
            }
        }
    }
}

/// A sealed mirror, as the contract of a whole copy has it.
#[derive(Debug)]
pub(super) struct SealedMirror {
    pub(super) copies: MirrorCopies,
    pub(super) file: Arc<SealedFile>,
}

impl WholeCopy for SealedMirror {
    fn source(&self) -> &Arc<dyn Source> {
        &self.file.source
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        let name = self.copies.mirror.name.bytes(self.file.nonce);
        let file = self.copies.shared.folder().open_to_read(name).ok()?;
        if !lease::take(&file) {
            return None;
        }
        // Under the lease: an eviction that came first has removed the name, which changes the facts.
        if FileFacts::of(&file).is_ok_and(|facts| facts == self.file.facts) {
            return Some(file.into());
        }
        lease::end(&file);
        None
    }

    fn is_gone(&self) -> bool {
        self.file.is_gone.load(Relaxed)
    }

    fn distrust(&self) {
        self.copies.distrust_sealed(&self.file);
    }

    fn touch(&self) {
        self.copies.count_use();
    }
}
