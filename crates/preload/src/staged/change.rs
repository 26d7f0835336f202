//! `rename`, `unlink` and `rmdir` of names that staged files have.

use std::{
    ffi::CStr,
    os::fd::{AsRawFd, RawFd},
    path::{Path, PathBuf},
};

use forebay_stage::{FolderKey, NameState, ProgramImage};
use libc::c_int;
use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};

use super::{
    name_turn::{NotYet, in_turn, lock_all_names, lock_names},
    names::may_be_staged,
    place::{LastLink, StagedPlace},
    run_staging::{RunStaging, staging},
    settle::settle,
};
use crate::{inside, kernel, prefix};

/// What becomes of a rename.
enum RenamePlan {
    /// The staged file has its new name; these images of older versions have to be at the old one before what is there is removed.
    Moved { older: Vec<PathBuf>, from: StagedPlace },
    /// The file has that name.
    Nothing,
    /// It is refused.
    Refused(i32),
    /// The plain call, once these are at their destinations; then what is said here.
    Plain { before: Vec<PathBuf>, after: AfterRename },
}

/// What is done after a plain rename.
#[derive(Default)]
struct AfterRename {
    /// An image whose name is another file's by then.
    replaced: Option<(StagedPlace, PathBuf)>,
    /// A folder that has another path by then: the old one and the new one.
    moved_folder: Option<(PathBuf, PathBuf)>,
}

/// Removes the file at `path` by `call`, and gives up a staged one.
pub(crate) fn removed(folder: RawFd, path: &CStr, call: impl FnOnce() -> c_int) -> c_int {
    if !may_be_staged(folder, path) {
        return call();
    }
    let given_up = in_turn(|| give_up(folder, path));
    let (is_given_up, older) = given_up.unwrap_or((false, None));
    settle(older.into_iter().collect());
    let answer = call();
    if answer == -1 && is_given_up && inside::errno() == libc::ENOENT { 0 } else { answer }
}

/// Whether a staged file was given up, and an older version that is on its way.
fn give_up(folder: RawFd, path: &CStr) -> Option<Result<(bool, Option<PathBuf>), NotYet>> {
    let staging = staging()?;
    let place = StagedPlace::of(folder, path, LastLink::Kept)?;
    let Ok(_lock) = lock_names(staging, &[&place])? else { return Some(Err(NotYet)) };
    let image = staging.names.image(NameState::Open, place.key, &place.name);
    if let Some(image) = &image {
        drop_image(staging, &place, image);
    }
    Some(Ok((image.is_some(), staging.names.image(NameState::Sealed, place.key, &place.name))))
}

fn drop_image(staging: &RunStaging, place: &StagedPlace, image: &Path) {
    staging.names.remove_name(NameState::Open, place.key, &place.name, image);
    if let Some(image) = ProgramImage::at(image) {
        image.discard();
    }
}

/// Removes the folder at `path` by `call`; one that holds staged files is not empty.
pub(crate) fn removed_folder(folder: RawFd, path: &CStr, call: impl FnOnce() -> c_int) -> c_int {
    if !may_be_staged(folder, path) {
        return call();
    }
    let found = || {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match folder {
            libc::AT_FDCWD => rustix::fs::open(path, flags, Mode::empty()),
            _ => rustix::fs::openat(kernel::borrowed(folder)?, path, flags, Mode::empty()),
        };
        Some(staging()?.names.in_folder(FolderKey::of(opened.ok()?).ok()?))
    };
    let images = inside::run(found).unwrap_or_default();
    if images.is_empty() {
        return call();
    }
    settle(images.into_iter().map(|(_, named)| named.image).collect());
    let is_open = |named: &(std::ffi::OsString, forebay_stage::NamedImage)| named.1.state == NameState::Open;
    if inside::run(found).unwrap_or_default().iter().any(is_open) {
        inside::set_errno(libc::ENOTEMPTY);
        return -1;
    }
    call()
}

/// Renames by `call`, or within the staging area; a rename that is not plain is left to `call`.
pub(crate) fn renamed(
    from: (RawFd, &CStr),
    to: (RawFd, &CStr),
    is_plain: bool,
    call: impl FnOnce() -> c_int,
) -> c_int {
    if !may_be_staged(from.0, from.1) && !may_be_staged(to.0, to.1) {
        return call();
    }
    match in_turn(|| plan(from, to, is_plain)) {
        None => call(),
        Some(RenamePlan::Nothing) => 0,
        Some(RenamePlan::Refused(errno)) => {
            inside::set_errno(errno);
            -1
        }
        Some(RenamePlan::Moved { older, from }) => {
            settle(older);
            // What had the old name before the staged file has it no more.
            let _removed =
                inside::run(|| rustix::fs::unlinkat(&from.folder, &from.name, AtFlags::empty()).ok());
            0
        }
        Some(RenamePlan::Plain { before, after }) => {
            settle(before);
            let answer = call();
            if answer == 0 {
                let _done = in_turn(|| after.finish());
            }
            answer
        }
    }
}

fn plan(from: (RawFd, &CStr), to: (RawFd, &CStr), is_plain: bool) -> Option<Result<RenamePlan, NotYet>> {
    let staging = staging()?;
    let old = StagedPlace::of(from.0, from.1, LastLink::Kept)?;
    let new = StagedPlace::of(to.0, to.1, LastLink::Kept)?;
    let Ok(_lock) = lock_names(staging, &[&old, &new])? else { return Some(Err(NotYet)) };
    let image = |state, place: &StagedPlace| staging.names.image(state, place.key, &place.name);
    let staged = image(NameState::Open, &old);
    if staged.is_some() && (old.key, &old.name) == (new.key, &new.name) {
        return Some(Ok(RenamePlan::Nothing));
    }
    let older = image(NameState::Sealed, &old);
    if let Some(staged) = &staged
        && is_plain
        && old.key.is_on_same_device(&new.key)
        && let Some(moved) = move_image(staging, staged, &old, &new)
    {
        return Some(Ok(match moved {
            Ok(()) => RenamePlan::Moved { older: older.into_iter().collect(), from: old },
            Err(errno) => RenamePlan::Refused(errno),
        }));
    }
    let mut before: Vec<PathBuf> = staged.into_iter().chain(older).collect();
    before.extend(image(NameState::Sealed, &new));
    let mut after = AfterRename::default();
    if is_folder(&old) {
        let moved = (old.path()?, new.path()?);
        before.extend(images_below(staging, &moved.0, NameState::Sealed).into_iter().map(|(path, _)| path));
        after.moved_folder = Some(moved);
    }
    after.replaced = image(NameState::Open, &new).map(|image| (new, image));
    Some(Ok(RenamePlan::Plain { before, after }))
}

/// Gives the staged file at `old` the name `new`; nothing where only the plain call can, an error where it would be refused.
fn move_image(
    staging: &RunStaging,
    image: &Path,
    old: &StagedPlace,
    new: &StagedPlace,
) -> Option<Result<(), i32>> {
    let destination = new.path().filter(|path| prefix::covers(path))?;
    if is_folder(new) {
        return Some(Err(libc::EISDIR));
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    if rustix::fs::accessat(&new.folder, ".", access, AtFlags::EACCESS).is_err() {
        return Some(Err(libc::EACCES));
    }
    let moved = ProgramImage::at(image)?.for_destination(&destination).ok()?;
    if let Some(replaced) = staging.names.image(NameState::Open, new.key, &new.name) {
        drop_image(staging, new, &replaced);
    }
    staging.names.set(new.key, &new.name, &moved.path()).ok()?;
    staging.names.remove_name(NameState::Open, old.key, &old.name, image);
    Some(Ok(()))
}

fn is_folder(place: &StagedPlace) -> bool {
    let facts = rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW);
    facts.is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Directory)
}

/// The images for destinations below `folder`, with those.
fn images_below(staging: &RunStaging, folder: &Path, state: NameState) -> Vec<(PathBuf, PathBuf)> {
    let all = staging.names.all().into_iter().filter(|(_, named)| named.state == state);
    let with_destination = all.filter_map(|(_, named)| {
        let (destination, _) = ProgramImage::at(&named.image)?.status()?;
        destination.starts_with(folder).then_some((named.image, destination))
    });
    with_destination.collect()
}

impl AfterRename {
    fn finish(&self) -> Option<Result<(), NotYet>> {
        if self.replaced.is_none() && self.moved_folder.is_none() {
            return Some(Ok(()));
        }
        let staging = staging()?;
        let Ok(_lock) = lock_all_names(staging)? else { return Some(Err(NotYet)) };
        let replaced = self.replaced.as_ref();
        let below = self.moved_folder.as_ref().map(|(old, _)| images_below(staging, old, NameState::Open));
        let below = below.unwrap_or_default();
        let mut images =
            replaced.map(|(_, image)| image).into_iter().chain(below.iter().map(|(image, _)| image));
        if images.any(|image| staging.is_moving(image)) {
            return Some(Err(NotYet));
        }
        if let Some((place, image)) = replaced {
            drop_image(staging, place, image);
        }
        let Some((old, new)) = &self.moved_folder else { return Some(Ok(())) };
        for (image, destination) in below {
            let destination = new.join(destination.strip_prefix(old).ok()?);
            let moved = ProgramImage::at(&image)?.for_destination(&destination).ok()?;
            let key = FolderKey::at(destination.parent()?).ok()?;
            staging.names.set(key, destination.file_name()?, &moved.path()).ok()?;
        }
        Some(Ok(()))
    }
}

/// After a sync of `fd`: where it is open on a staged file, journal and names are synced as well.
pub(crate) fn synced(fd: RawFd) {
    let _synced = inside::run(|| {
        let staging = staging()?;
        let path = kernel::path_of(kernel::borrowed(fd)?.as_raw_fd())?;
        if path.parent() != Some(&staging.folder) {
            return None;
        }
        ProgramImage::at(&path)?.sync().ok()
    });
}
