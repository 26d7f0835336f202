//! Leases on the files of mirrors: a shared `flock` that travels with a descriptor, and keeps eviction off.
//!
//! The kernel ends a lease when the last duplicate of the descriptor is closed, in whichever process that is: nobody has
//! to count them.

use std::fs::File;

use forebay_scratch::{LockMode, OwnFolder, try_lock, unlock};

use super::{map, name::MirrorName};

/// Takes a lease on `file`; false where it is being evicted, or its file system has no locks.
pub(super) fn take(file: &File) -> bool {
    try_lock(file, LockMode::Shared).unwrap_or(false)
}

/// Ends a lease at once: a child that was forked meanwhile would hold it for as long as it lives.
pub(super) fn end(file: &File) {
    unlock(file);
}

/// What keeps a mirror from being leased while it is removed.
#[derive(Debug)]
pub(super) struct Unleased(Option<File>);

impl Drop for Unleased {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            unlock(file);
        }
    }
}

/// Keeps the mirror called `name` from being leased; nothing where it is leased.
pub(super) fn keep_off(folder: &OwnFolder, name: MirrorName) -> Option<Unleased> {
    let bytes = || {
        let map = folder.open_to_read(name.map()).ok()?;
        let nonce = map::read_header(&map).ok()?.layout.nonce;
        folder.open_to_read(name.bytes(nonce)).ok()
    };
    // Without bytes, or without locks, nothing can be leased.
    let Some(bytes) = bytes() else { return Some(Unleased(None)) };
    match try_lock(&bytes, LockMode::Exclusive) {
        Ok(true) => Some(Unleased(Some(bytes))),
        Ok(false) => None,
        Err(_) => Some(Unleased(None)),
    }
}

/// True when the mirror called `name` is leased.
pub(super) fn is_leased(folder: &OwnFolder, name: MirrorName) -> bool {
    keep_off(folder, name).is_none()
}
