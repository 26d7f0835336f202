//! Leases on the files of mirrors: a shared `flock` that travels with a descriptor, and keeps eviction off.
//!
//! The kernel ends a lease when the last duplicate of the descriptor is closed, in whichever process that is: nobody has
//! to count them.

use std::fs::File;

use forebay_process::{Error, ErrorKind};
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

/// Keeps the mirror called `name` from being leased; nothing where it is leased, or where that cannot be known.
pub(super) fn keep_off(folder: &OwnFolder, name: MirrorName) -> Option<Unleased> {
    let is_absent = |error: &Error| error.kind() == ErrorKind::NotFound;
    let map = match folder.open_to_read(name.map()) {
        Ok(map) => map,
        // Without a mirror there is no lease. Any other error, such as one of too many open files, says nothing of leases.
        Err(error) => return is_absent(&error).then_some(Unleased(None)),
    };
    // A mirror whose header cannot be read hands out no descriptors.
    let Ok(header) = map::read_header(&map) else { return Some(Unleased(None)) };
    let bytes = match folder.open_to_read(name.bytes(header.layout.nonce)) {
        Ok(bytes) => bytes,
        Err(error) => return is_absent(&error).then_some(Unleased(None)),
    };
    match try_lock(&bytes, LockMode::Exclusive) {
        Ok(true) => Some(Unleased(Some(bytes))),
        Ok(false) => None,
        // Where there are no locks, nothing could be leased.
        Err(_) => Some(Unleased(None)),
    }
}

/// True when the mirror called `name` is leased.
pub(super) fn is_leased(folder: &OwnFolder, name: MirrorName) -> bool {
    keep_off(folder, name).is_none()
}
