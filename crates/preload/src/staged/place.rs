//! Which folder a path leads to, and the name there.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
};

use forebay_stage::{FolderKey, NamedImage};
use rustix::fs::{CWD, Mode, OFlags};

use super::run_staging::{path_bytes, staging};
use crate::kernel;

/// The kernel follows no more links than this.
const MOST_LINKS: usize = 40;

/// What is done with a link that has the last name of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// It is followed.
    Followed,
    /// It is meant itself.
    Kept,
}

/// The place of a file: a folder and the name there.
#[derive(Debug)]
pub(super) struct StagedPlace {
    pub(super) folder: OwnedFd,
    pub(super) key: FolderKey,
    pub(super) name: OsString,
}

impl StagedPlace {
    /// Where `path`, relative to the open folder `folder`, leads; nothing where that is no file's name.
    pub(super) fn of(folder: RawFd, path: &std::ffi::CStr, last: LastLink) -> Option<Self> {
        let path = path_bytes(path)?;
        let mut place = if folder == libc::AT_FDCWD {
            Self::below(CWD, path)?
        } else {
            Self::below(kernel::borrowed(folder)?, path)?
        };
        if last == LastLink::Kept {
            return Some(place);
        }
        for _ in 0..MOST_LINKS {
            if place.image().is_some() {
                return Some(place);
            }
            let Ok(target) = rustix::fs::readlinkat(&place.folder, &place.name, Vec::new()) else {
                return Some(place);
            };
            place = Self::below(place.folder.as_fd(), target.as_bytes())?;
        }
        None
    }

    fn below(folder: BorrowedFd<'_>, path: &[u8]) -> Option<Self> {
        let cut = path.iter().rposition(|byte| *byte == b'/');
        let (above, name) = match cut {
            None => (&b"."[..], path),
            Some(0) => (&b"/"[..], &path[1..]),
            Some(at) => (&path[..at], &path[at + 1..]),
        };
        if name.is_empty() || name == b"." || name == b".." {
            return None;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(folder, OsStr::from_bytes(above), flags, Mode::empty()).ok()?;
        // The program's own file gets the lowest number that is free.
        let folder = kernel::kept_beside(opened.as_raw_fd())?;
        drop(opened);
        let key = FolderKey::of(&folder).ok()?;
        Some(Self { folder, key, name: OsString::from_vec(name.to_vec()) })
    }

    /// The newest image that has this place.
    pub(super) fn image(&self) -> Option<NamedImage> {
        staging()?.names.find(self.key, &self.name)
    }

    /// The path of the file, without links.
    pub(super) fn path(&self) -> Option<PathBuf> {
        Some(kernel::path_of(self.folder.as_raw_fd())?.join(&self.name))
    }
}
