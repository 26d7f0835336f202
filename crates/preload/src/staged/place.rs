//! Which folder a path leads to, and the name there.
//!
//! Descriptors are needed for that, and for what is done with it. Where the program has no numbers left for them, ours give way; where that is not enough either
//! ([`has_numbers`]), a name that a staged file has is still known ([`named`]): such a call is refused (`EMFILE`) instead of being made on what is at the
//! destination.

use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
};

use forebay_stage::{FolderKey, NamedImage};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};

use super::run_staging::{path_bytes, staging};
use crate::{give_way::with_way_given, kernel};

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
        let mut place = Self::below(opened(folder)?, path_bytes(path)?)?;
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

    /// The same for a file or a folder that is renamed: a folder's name may end with slashes.
    pub(super) fn of_entry(folder: RawFd, path: &std::ffi::CStr) -> Option<Self> {
        Self::below(opened(folder)?, without_slashes(path_bytes(path)?))
    }

    fn below(folder: BorrowedFd<'_>, path: &[u8]) -> Option<Self> {
        let (above, name) = split(path)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = with_way_given(|| rustix::fs::openat(folder, above, flags, Mode::empty()))?;
        // The program's own file gets the lowest number that is free, unless there are too few.
        let folder = kernel::kept_beside(opened.as_raw_fd()).unwrap_or(opened);
        let key = FolderKey::of(&folder).ok()?;
        Some(Self { folder, key, name: name.to_owned() })
    }

    /// What has this name at the origin, if anything.
    pub(super) fn facts(&self) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Whether a folder has this name.
    pub(super) fn is_folder(&self) -> bool {
        self.facts().is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory)
    }

    /// Whether this user may replace `old`, which has this name, where the folder lets everybody write.
    pub(super) fn may_rename_over(&self, old: &Stat) -> bool {
        let user = rustix::process::geteuid().as_raw();
        let Ok(folder) = rustix::fs::fstat(&self.folder) else { return false };
        let is_sticky = Mode::from_raw_mode(folder.st_mode).contains(Mode::SVTX);
        !is_sticky || user == 0 || old.st_uid == user || folder.st_uid == user
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

/// The newest image that `path` is the name of, links at its end not followed. No descriptor is needed for it.
pub(super) fn named(folder: RawFd, path: &std::ffi::CStr) -> Option<NamedImage> {
    let (above, name) = split(without_slashes(path_bytes(path)?))?;
    staging()?.names.find(FolderKey::below(opened(folder)?, above).ok()?, name)
}

/// Whether `path` is that of a folder, which is no link. No descriptor is needed for it.
pub(super) fn is_folder((folder, path): (RawFd, &std::ffi::CStr)) -> bool {
    let path = OsStr::from_bytes(without_slashes(path.to_bytes()));
    let facts = opened(folder).map(|folder| rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW));
    matches!(facts, Some(Ok(facts)) if FileType::from_raw_mode(facts.st_mode) == FileType::Directory)
}

/// Descriptors that are open at once while the name of a staged file changes: two folders, the lock, a folder that is listed, and two in
/// the area.
const NUMBERS: usize = 6;

/// Whether the program has the numbers left that such work needs.
pub(super) fn has_numbers() -> bool {
    let open = || rustix::fs::openat(CWD, c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let Some(first) = with_way_given(open) else { return false };
    let others: Vec<_> =
        (1..NUMBERS).map_while(|_| with_way_given(|| rustix::io::fcntl_dupfd_cloexec(&first, 0))).collect();
    others.len() == NUMBERS - 1
}

/// The folder that a path is relative to.
pub(super) fn opened<'a>(folder: RawFd) -> Option<BorrowedFd<'a>> {
    if folder == libc::AT_FDCWD { Some(CWD) } else { kernel::borrowed(folder) }
}

/// The path of a folder and a name there; nothing for what is no name.
fn split(path: &[u8]) -> Option<(&OsStr, &OsStr)> {
    let (above, name) = match path.iter().rposition(|byte| *byte == b'/') {
        None => (&b"."[..], path),
        Some(0) => (&b"/"[..], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
    };
    let is_name = !name.is_empty() && name != b"." && name != b"..";
    is_name.then(|| (OsStr::from_bytes(above), OsStr::from_bytes(name)))
}

/// The paths that have to be folders for `path` to lead anywhere, the longest first.
pub(super) fn folders_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(folder_of(path), |path| folder_of(path))
}

fn folder_of(path: &[u8]) -> Option<&[u8]> {
    let last = path.iter().rposition(|byte| *byte == b'/')?;
    Some(without_slashes(&path[..last])).filter(|above| !above.is_empty())
}

/// Whether `path` is one that only a folder may have.
pub(super) fn ends_with_slash(path: &std::ffi::CStr) -> bool {
    path.to_bytes().ends_with(b"/")
}

/// `path` without the slashes at its end, which only the name of a folder has.
fn without_slashes(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_of_a_folder_and_a_name_there() {
        let split = |path: &'static str| {
            split(path.as_bytes()).map(|(above, name)| (above.to_str().unwrap(), name.to_str().unwrap()))
        };
        assert_eq!(split("a/b/c"), Some(("a/b", "c")));
        assert_eq!((split("c"), split("/c")), (Some((".", "c")), Some(("/", "c"))));
        assert_eq!((split("a/"), split("a/."), split("..")), (None, None, None));
        assert_eq!(without_slashes(b"a/b//"), b"a/b");
        assert_eq!((without_slashes(b"//"), without_slashes(b"a")), (&b""[..], &b"a"[..]));
    }

    #[test]
    fn what_stands_before_a_slash_is_to_be_a_folder() {
        let folders = |path: &'static str| folders_of(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(folders("/a/b//c"), [&b"/a/b"[..], b"/a"]);
        assert_eq!(folders("a/b/"), [&b"a/b"[..], b"a"]);
        assert!(folders("a").is_empty() && folders("/a").is_empty() && folders("//").is_empty());
    }
}
