//! How a mirror is found under its name, or made.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::{Arc, PoisonError},
};

use forebay_scratch::nonce;
use forebay_source::ErrorKind;

use super::{
    files::{Closed, Descriptors, Opened},
    map,
    mirror::Copy,
    shelf,
};

/// What was found under the name of a mirror.
enum Found {
    There(Opened),
    Absent,
    /// It cannot be told now.
    Trouble,
}

impl Copy {
    /// The mirror, if it is there and can be opened.
    pub(super) fn opened(&self) -> Option<Opened> {
        match self.reopened() {
            Ok(opened) => return Some(opened),
            Err(Closed::Trouble) => return None,
            Err(Closed::Left) => {}
        }
        self.find_or(|| None)
    }

    /// The mirror as it is known, if it is.
    fn reopened(&self) -> Result<Opened, Closed> {
        let files = self.files.load_full().ok_or(Closed::Left)?;
        let opened = files.open(self.shared.folder(), self.shared.disk);
        if matches!(opened, Err(Closed::Left)) {
            // Removed by another process.
            self.forget();
        }
        opened
    }

    /// The mirror as it is found under its name, or else what `make` gives.
    fn find_or(&self, make: impl FnOnce() -> Option<Opened>) -> Option<Opened> {
        let _finding = self.finding.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been quicker.
        if self.files.load().is_some() {
            return self.reopened().ok();
        }
        let opened = match self.find() {
            Found::There(opened) => opened,
            Found::Absent => make()?,
            Found::Trouble => return None,
        };
        self.files.store(Some(Arc::clone(&opened.files)));
        Some(opened)
    }

    /// What lies under the name of the mirror. What cannot be told, for want of descriptors or memory, removes nothing.
    fn find(&self) -> Found {
        let folder = self.shared.folder();
        let map = match folder.open_existing(self.name.map()) {
            Ok(map) => map,
            Err(error) if error.kind() == ErrorKind::NotFound => return Found::Absent,
            Err(_) => return Found::Trouble,
        };
        let header = match map::read_header(&map) {
            Ok(header) => header,
            Err(error) if map::is_no_map(&error) => return self.discard(&map),
            Err(_) => return Found::Trouble,
        };
        if (&header.id, header.blocks) != (&self.id, self.blocks) {
            return self.discard(&map);
        }
        let bytes = match folder.open_existing(self.name.bytes(header.layout.nonce)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return self.discard(&map),
            Err(_) => return Found::Trouble,
        };
        match bytes.metadata() {
            Ok(facts) if facts.len() != self.blocks.len() => return self.discard(&map),
            Ok(_) => {}
            Err(_) => return Found::Trouble,
        }
        let opened = Opened::new(
            &self.shared,
            self.name,
            header.layout,
            Descriptors::new(bytes, map, self.shared.disk),
        );
        opened.map_or(Found::Trouble, Found::There)
    }

    /// Removes the mirror with `map`, which is half removed or damaged: nothing can be made of it.
    fn discard(&self, map: &File) -> Found {
        let folder = self.shared.folder();
        if folder.is_named(self.name.map(), map) {
            self.shared.fault();
            self.shared.counter.release(shelf::remove(folder, self.name));
            // How much it took is not known any more: the next who opens the folder alone counts.
            self.shared.counter.mark_inexact();
        }
        Found::Absent
    }

    /// A new mirror, with nothing in it.
    fn make(&self) -> Option<Opened> {
        let (folder, nonce) = (self.shared.folder(), nonce());
        folder.subfolder(&self.name.folder_name()).ok()?;
        let (header, layout) = map::header(&self.id, self.blocks, nonce)?;
        let (bytes_path, unfinished) = (self.name.bytes(nonce), self.name.unfinished(nonce));
        let make = || -> Option<Opened> {
            let bytes = folder.create_new(&bytes_path).ok()?;
            bytes.set_len(self.blocks.len()).ok()?;
            let map = folder.create_new(&unfinished).ok()?;
            map.write_all_at(&header, 0).ok()?;
            // The map appears whole, or not at all; of two who make it, one wins.
            folder.link(&unfinished, self.name.map()).ok()?;
            Opened::new(&self.shared, self.name, layout, Descriptors::new(bytes, map, self.shared.disk)).ok()
        };
        let made = make();
        let _ = folder.remove_file(&unfinished);
        if made.is_none() {
            let _ = folder.remove_file(&bytes_path);
        }
        made
    }

    /// The mirror, made if need be, which has a name: a removed mirror must not grow.
    pub(super) fn growing(&self) -> Option<Opened> {
        let make = || {
            self.make().or_else(|| match self.find() {
                // Another process was quicker to make it.
                Found::There(opened) => Some(opened),
                Found::Absent | Found::Trouble => None,
            })
        };
        let find_or_make = || match self.reopened() {
            Ok(opened) => Some(opened),
            Err(Closed::Trouble) => None,
            Err(Closed::Left) => self.find_or(make),
        };
        let opened = find_or_make()?;
        if opened.descriptors.is_named() {
            return Some(opened);
        }
        self.forget();
        self.find_or(make)
    }
}
