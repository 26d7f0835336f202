//! How many bytes a mount may hold.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, statat},
    io::Errno,
};

use crate::fuse::origin_folder::OriginFolder;

/// A limit to the lengths of all files together, as a file system has that is full some time.
#[derive(Debug)]
pub(crate) struct MountCapacity {
    limit: Option<u64>,
    used: Mutex<u64>,
}

impl MountCapacity {
    /// Counts what lies in `folder`, unless there is no limit.
    pub(crate) fn new(folder: &OriginFolder, limit: Option<u64>) -> io::Result<Self> {
        let used = if limit.is_some() { total_len(folder, Path::new(""))? } else { 0 };
        Ok(Self { limit, used: Mutex::new(used) })
    }

    fn used(&self) -> MutexGuard<'_, u64> {
        // It is one number, set by one assignment.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit and what is left of it.
    pub(crate) fn left(&self) -> Option<(u64, u64)> {
        self.limit.map(|limit| (limit, limit.saturating_sub(*self.used())))
    }

    /// Does what may change a file's length, unless it would then not fit: `len` gives the length, before and after, and
    /// `wanted` makes of it the length that there would be.
    pub(crate) fn change<T>(
        &self,
        len: impl Fn() -> io::Result<u64>,
        wanted: impl FnOnce(u64) -> u64,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(limit) = self.limit else { return act() };
        // Held meanwhile: two writers must not both take the same bytes, nor both count a file's growth.
        let mut used = self.used();
        let before = len()?;
        let growth = wanted(before).saturating_sub(before);
        if growth > 0 && used.saturating_add(growth) > limit {
            return Err(Errno::NOSPC.into());
        }
        let done = act();
        let after = len()?;
        *used = used.saturating_sub(before).saturating_add(after);
        done
    }

    /// A file of `len` bytes is gone.
    pub(crate) fn give_back(&self, len: u64) {
        if self.limit.is_some() {
            let mut used = self.used();
            *used = used.saturating_sub(len);
        }
    }
}

/// Adds up the lengths of all files below `path`. What is removed meanwhile does not count.
fn total_len(folder: &OriginFolder, path: &Path) -> io::Result<u64> {
    let opened = match folder.folder(path) {
        Err(error) if !path.as_os_str().is_empty() && is_gone(&error) => return Ok(0),
        opened => opened?,
    };
    let mut total = 0u64;
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let found = match statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            found => found?,
        };
        let len = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => total_len(folder, &path.join(OsStr::from_bytes(name.to_bytes())))?,
            FileType::RegularFile => u64::try_from(found.st_size).unwrap_or(0),
            _ => 0,
        };
        total = total.saturating_add(len);
    }
    Ok(total)
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::STALE].map(|errno| Some(errno.raw_os_error()));
    gone.contains(&error.raw_os_error())
}
