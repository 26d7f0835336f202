//! The mark of an image whose bytes a program copies to their destination, as there is no room for it in the area.
//!
//! The copy may take minutes, and names stay free for others meanwhile. Whoever is about to change the name of such an image, or to write it, waits
//! until the mark is gone. It is a lock of the kernel's: it goes with the process that has it, however that ends.

use std::{
    fs::{self, File},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use forebay_scratch::{LockMode, try_lock, unlock};
use forebay_source::{Error, ErrorKind, Result, hidden_numbers};

/// Has others leave an image alone, until it is dropped.
#[derive(Debug)]
pub struct MoveMark {
    path: PathBuf,
    file: File,
}

impl MoveMark {
    /// The mark at `path`; an error where another process has it.
    pub(crate) fn set(path: PathBuf) -> Result<Self> {
        let at = |error: Error| error.at(path.display());
        let made = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = made.map_err(|error| at(Error::from_io(error)))?;
        // A program that closes all of its numbers does not close this one.
        let file = hidden_numbers::hidden(&file).map_or(file, File::from);
        if !try_lock(&file, LockMode::Exclusive).map_err(at)? {
            return Err(at(Error::new(ErrorKind::Unavailable, "another process moves it")));
        }
        Ok(Self { path, file })
    }

    /// Whether somebody has the mark at `path`; one that nobody has is removed. Asked while nobody else changes names.
    pub(crate) fn is_set(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        if !try_lock(&file, LockMode::Exclusive).unwrap_or(true) {
            return true;
        }
        let _ = fs::remove_file(path);
        unlock(&file);
        false
    }
}

impl Drop for MoveMark {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // A child that was forked meanwhile has the same open file, and would hold the lock.
        unlock(&self.file);
    }
}
