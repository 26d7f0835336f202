//! How a mirror is found under its name, or made.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::{Arc, PoisonError, Weak},
};

use forebay_process::ErrorKind;
use forebay_scratch::nonce;

use super::{
    map,
    mirror_copies::MirrorCopies,
    mirror_descriptors::{MirrorDescriptors, NotOpen, OpenMirror, SyncQueue},
    mirror_files,
};

/// What was found under the name of a mirror.
enum FoundMirror {
    There(OpenMirror),
    Absent,
    /// It cannot be opened now, for want of descriptors or memory.
    Unknown,
}

impl MirrorCopies {
    fn sync_queue(&self) -> Weak<dyn SyncQueue> {
        Weak::clone(&self.shared.own) as _
    }

    /// The mirror, if it is there and can be opened.
    pub(super) fn opened(&self) -> Option<OpenMirror> {
        match self.reopened() {
            Ok(opened) => return Some(opened),
            Err(NotOpen::Failed) => return None,
            Err(NotOpen::Removed) => {}
        }
        self.find_or(|| None)
    }

    /// The mirror as it is known, if it is.
    fn reopened(&self) -> Result<OpenMirror, NotOpen> {
        let files = self.mirror.files.load_full().ok_or(NotOpen::Removed)?;
        let opened = files.open(self.shared.folder(), self.shared.disk);
        if matches!(opened, Err(NotOpen::Removed)) {
            // Removed by another process.
            self.mirror.forget();
        }
        opened
    }

    /// The mirror as it is found under its name, or else what `make` gives.
    fn find_or(&self, make: impl FnOnce() -> Option<OpenMirror>) -> Option<OpenMirror> {
        let _finding = self.mirror.finding.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been quicker.
        if self.mirror.files.load().is_some() {
            return self.reopened().ok();
        }
        let opened = match self.find() {
            FoundMirror::There(opened) => opened,
            FoundMirror::Absent => make()?,
            FoundMirror::Unknown => return None,
        };
        self.mirror.files.store(Some(Arc::clone(&opened.files)));
        Some(opened)
    }

    /// What lies under the name of the mirror. An error that says nothing of the mirror (`EMFILE`, `ENOMEM`) removes nothing.
    fn find(&self) -> FoundMirror {
        let folder = self.shared.folder();
        let map = match folder.open_existing(self.mirror.name.map()) {
            Ok(map) => map,
            Err(error) if error.kind() == ErrorKind::NotFound => return FoundMirror::Absent,
            Err(_) => return FoundMirror::Unknown,
        };
        let header = match map::read_header(&map) {
            Ok(header) => header,
            Err(error) if map::is_no_map(&error) => return self.discard(&map),
            Err(_) => return FoundMirror::Unknown,
        };
        if (&header.id, header.blocks) != (&self.mirror.id, self.mirror.blocks) {
            return self.discard(&map);
        }
        let bytes = match folder.open_existing(self.mirror.name.bytes(header.layout.nonce)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return self.discard(&map),
            Err(_) => return FoundMirror::Unknown,
        };
        match bytes.metadata() {
            Ok(facts) if facts.len() != self.mirror.blocks.len() => return self.discard(&map),
            Ok(_) => {}
            Err(_) => return FoundMirror::Unknown,
        }
        let opened = OpenMirror::new(
            self.sync_queue(),
            self.mirror.name,
            header.layout,
            MirrorDescriptors::new(bytes, map, self.shared.disk),
        );
        opened.map_or(FoundMirror::Unknown, FoundMirror::There)
    }

    /// Removes the mirror with `map`, which is half removed or damaged: nothing can be made of it.
    fn discard(&self, map: &File) -> FoundMirror {
        let folder = self.shared.folder();
        if folder.is_named(self.mirror.name.map(), map) {
            self.shared.fault();
            self.shared.counter.release(mirror_files::remove(folder, self.mirror.name));
            // How much it took is not known any more: the next process that opens the folder alone counts.
            self.shared.counter.mark_inexact();
        }
        FoundMirror::Absent
    }

    /// A new mirror, with nothing in it.
    fn make(&self) -> Option<OpenMirror> {
        let (folder, nonce) = (self.shared.folder(), nonce());
        folder.subfolder(&self.mirror.name.folder_name()).ok()?;
        let (header, layout) = map::header(&self.mirror.id, self.mirror.blocks, nonce)?;
        let (bytes_path, unfinished) = (self.mirror.name.bytes(nonce), self.mirror.name.unfinished(nonce));
        let make = || -> Option<OpenMirror> {
            let bytes = folder.create_new(&bytes_path).ok()?;
            bytes.set_len(self.mirror.blocks.len()).ok()?;
            let map = folder.create_new(&unfinished).ok()?;
            map.write_all_at(&header, 0).ok()?;
            // `link` fails where the name exists: the map appears whole or not at all, and of two processes that make it one wins.
            folder.link(&unfinished, self.mirror.name.map()).ok()?;
            OpenMirror::new(
                self.sync_queue(),
                self.mirror.name,
                layout,
                MirrorDescriptors::new(bytes, map, self.shared.disk),
            )
            .ok()
        };
        let made = make();
        let _ = folder.remove_file(&unfinished);
        if made.is_none() {
            let _ = folder.remove_file(&bytes_path);
        }
        made
    }

    /// The mirror, made if need be, which has a name: a removed mirror must not grow.
    pub(super) fn growing(&self) -> Option<OpenMirror> {
        let make = || {
            self.make().or_else(|| match self.find() {
                // Another process was quicker to make it.
                FoundMirror::There(opened) => Some(opened),
                FoundMirror::Absent | FoundMirror::Unknown => None,
            })
        };
        let find_or_make = || match self.reopened() {
            Ok(opened) => Some(opened),
            Err(NotOpen::Failed) => None,
            Err(NotOpen::Removed) => self.find_or(make),
        };
        let opened = find_or_make()?;
        if opened.descriptors.is_named() {
            return Some(opened);
        }
        self.mirror.forget();
        self.find_or(make)
    }
}
