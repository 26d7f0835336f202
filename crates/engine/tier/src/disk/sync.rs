//! Mirrors on their way from the page cache to the disk (`fdatasync`, `syncfs`).

use std::{
    io,
    sync::{Weak, atomic::Ordering::Relaxed},
};

use super::{
    mirror_descriptors::{MirrorFiles, OpenMirror, SyncQueue},
    shared::DiskShared,
};

/// With this many mirrors in the queue one `syncfs` serves them all.
const MANY_TO_SYNC: usize = 16;

/// The most mirrors that are closed once they are synced: each holds two descriptors until then.
const MOST_CLOSING: usize = 8;

impl SyncQueue for DiskShared {
    fn sync_open(&self, files: Weak<MirrorFiles>) {
        self.sync_later(move || files.upgrade().and_then(MirrorFiles::begin_sync));
    }

    fn sync_closing(&self, closing: OpenMirror) {
        // Each holds two descriptors: what is dropped instead is compared when it is next read.
        if self.worker.backlog() < MOST_CLOSING {
            self.sync_later(move || Some(closing));
        }
    }
}

impl DiskShared {
    /// Syncs in the background what `open` gives then, or removes what did not reach the disk.
    fn sync_later(&self, open: impl FnOnce() -> Option<OpenMirror> + Send + 'static) {
        let shared = Weak::clone(&self.own);
        self.worker.push(Box::new(move || {
            let (Some(opened), Some(shared)) = (open(), shared.upgrade()) else { return };
            if shared.sync(&opened).is_err() {
                shared.lose(&opened);
            }
        }));
    }

    /// Waits until what is right in `opened` is on the disk; an error where some of it did not reach it. Where many wait
    /// for that they are synced together: a sync of one small file takes 5 ms here, of 3000 together 60 ms.
    pub(super) fn sync(&self, opened: &OpenMirror) -> io::Result<()> {
        let is_synced = || opened.is_settled_at(self.all_synced_ms.load(Relaxed));
        let now_ms = self.now_ms();
        if self.worker.backlog() >= MANY_TO_SYNC
            && !is_synced()
            && opened.is_settled_at(now_ms)
            && (self.disk.sync_all)(self.shared_folder.lock_file()).is_ok()
        {
            self.all_synced_ms.store(now_ms, Relaxed);
        }
        opened.sync(is_synced())
    }

    /// Removes a mirror of which bytes did not reach the disk: they may be anything once memory forgets them.
    pub(super) fn lose(&self, opened: &OpenMirror) {
        self.fault();
        let mirror = self.lock_open().get(opened.files.name);
        if let Some(mirror) = &mirror {
            mirror.wrong_times.fetch_add(1, Relaxed);
        }
        if opened.descriptors.is_named() {
            self.remove(opened.files.name);
        } else if let Some(mirror) = mirror {
            mirror.forget();
        }
    }
}
