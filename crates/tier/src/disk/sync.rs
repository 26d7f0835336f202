//! Copies on their way from memory to the disk.

use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use super::{DiskShared, files::Opened};

/// So many mirrors that wait for a sync are synced together.
const MANY_TO_SYNC: usize = 16;

/// The most mirrors that are closed once they are synced: each holds two descriptors until then.
const MOST_CLOSING: usize = 8;

impl DiskShared {
    /// Brings to the disk what is right in `closed`, in the background, before its descriptors go: a later descriptor
    /// would not be told what of it was lost.
    pub(super) fn sync_later(self: &Arc<Self>, closed: Opened) {
        // Each holds two descriptors: what is dropped instead is compared when it is next read.
        if self.worker.backlog() >= MOST_CLOSING {
            return;
        }
        let shared = Arc::downgrade(self);
        self.worker.push(Box::new(move || {
            if let Some(shared) = shared.upgrade()
                && shared.sync(&closed).is_err()
            {
                shared.lose(&closed);
            }
        }));
    }

    /// Waits until what is right in `opened` is on the disk; an error where some of it did not reach it. Where many wait
    /// for that they are synced together: a sync of one small file takes 5 ms here, of 3000 together 60 ms.
    pub(super) fn sync(&self, opened: &Opened) -> io::Result<()> {
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
    pub(super) fn lose(&self, opened: &Opened) {
        self.fault();
        let copy = self.lock_open().get(opened.files.name);
        if let Some(copy) = &copy {
            copy.wrong_times.fetch_add(1, Relaxed);
        }
        if opened.descriptors.is_named() {
            self.remove(opened.files.name);
        } else if let Some(copy) = copy {
            copy.forget();
        }
    }
}
