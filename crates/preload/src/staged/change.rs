//! `rename`, `unlink` and `rmdir` of names that staged files have.

use std::{
    cell::Cell,
    ffi::CStr,
    os::fd::{AsRawFd, RawFd},
    path::{Path, PathBuf},
};

use forebay_stage::{FolderKey, NameState, ProgramImage};
use libc::{c_int, c_uint};
use rustix::fs::{Access, AtFlags, FileType};

use super::{
    name_turn::{NotYet, in_turn, lock_names},
    names::{in_folder_at, may_be_staged},
    place::{LastLink, StagedPlace},
    run_staging::{RunStaging, staging},
    settle::settle,
};
use crate::{inside, kernel, prefix};

/// What becomes of a rename.
enum Rename {
    /// The staged file has that name.
    Done,
    /// It is refused.
    Refused(i32),
    /// The plain call was made, which says for itself what came of it.
    Called,
    /// These have to be at their destinations before.
    Early(Vec<PathBuf>),
}

/// The plain call of a rename, which is made once.
struct PlainCall<F> {
    call: Cell<Option<F>>,
    /// What it gave, and the error with it.
    answer: Cell<(c_int, i32)>,
}

impl<F: FnOnce() -> c_int> PlainCall<F> {
    fn new(call: F) -> Self {
        Self { call: Cell::new(Some(call)), answer: Cell::new((-1, libc::EIO)) }
    }

    /// Makes the call, unless it was made; true where it has renamed.
    fn make(&self) -> bool {
        if let Some(call) = self.call.take() {
            let answer = call();
            self.answer.set((answer, inside::errno()));
        }
        self.answer.get().0 == 0
    }

    /// What it gave to the program.
    fn given(&self) -> c_int {
        let (answer, errno) = self.answer.get();
        if answer != 0 {
            inside::set_errno(errno);
        }
        answer
    }
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
    let found = || in_folder_at(folder, path);
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

/// Renames by `call`, which is told `flags`, or within the staging area.
pub(crate) fn renamed(
    from: (RawFd, &CStr),
    to: (RawFd, &CStr),
    flags: c_uint,
    call: impl FnOnce() -> c_int,
) -> c_int {
    if !may_be_staged(from.0, from.1) && !may_be_staged(to.0, to.1) {
        return call();
    }
    let plain = PlainCall::new(call);
    let mut settled = Vec::new();
    loop {
        match in_turn(|| rename(from, to, flags, &settled, &|| plain.make())) {
            Some(Rename::Done) => return 0,
            Some(Rename::Refused(errno)) => {
                inside::set_errno(errno);
                return -1;
            }
            Some(Rename::Early(images)) => {
                settle(images.clone());
                settled.extend(images);
            }
            Some(Rename::Called) => return plain.given(),
            None => {
                plain.make();
                return plain.given();
            }
        }
    }
}

/// Renames, by `call` where only the plain call can. That is made while names are locked: what is written to the new name, or below a folder,
/// is not on its way to a place that is another file's by then. Images in `settled` are not waited for again.
fn rename(
    from: (RawFd, &CStr),
    to: (RawFd, &CStr),
    flags: c_uint,
    settled: &[PathBuf],
    call: &dyn Fn() -> bool,
) -> Option<Result<Rename, NotYet>> {
    let staging = staging()?;
    let old = StagedPlace::of(from.0, from.1, LastLink::Kept)?;
    let new = StagedPlace::of(to.0, to.1, LastLink::Kept)?;
    let Ok(_lock) = lock_names(staging, &[&old, &new])? else { return Some(Err(NotYet)) };
    let image = |state, place: &StagedPlace| staging.names.image(state, place.key, &place.name);
    let (staged, replaced) = (image(NameState::Open, &old), image(NameState::Open, &new));
    let (older, older_replaced) = (image(NameState::Sealed, &old), image(NameState::Sealed, &new));
    let exists = |place: &StagedPlace| {
        rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    };
    if staged.is_some() && (old.key, &old.name) == (new.key, &new.name) {
        return Some(Ok(Rename::Done));
    }
    let replaces = flags & libc::RENAME_NOREPLACE == 0;
    let is_there = replaced.is_some() || older_replaced.is_some();
    if !replaces && (is_there || staged.is_some() && exists(&new)) && (staged.is_some() || exists(&old)) {
        return Some(Ok(Rename::Refused(libc::EEXIST)));
    }
    let wait_for = |images: &[&PathBuf]| images.iter().any(|image| !settled.contains(image));
    if let Some(staged) = &staged
        && flags & !libc::RENAME_NOREPLACE == 0
        && old.key.is_on_same_device(&new.key)
    {
        if let Some(older) = older.as_ref().filter(|older| wait_for(&[older])) {
            // What had the old name before the staged file is removed with it.
            return Some(Ok(Rename::Early(vec![older.clone()])));
        }
        if let Some(moved) = move_image(staging, staged, &old, &new) {
            return Some(Ok(moved.map_or_else(Rename::Refused, |()| Rename::Done)));
        }
    }
    let is_exchange = flags & libc::RENAME_EXCHANGE != 0;
    let mut early: Vec<PathBuf> = [&staged, &older, &older_replaced].into_iter().flatten().cloned().collect();
    let moved_folder = if is_folder(&old) { Some((old.path()?, new.path()?)) } else { None };
    let below = |state| moved_folder.iter().flat_map(move |(old, _)| images_below(staging, old, state));
    let new_folder = if is_folder(&new) { Some(new.path()?) } else { None };
    let below_new = |state| new_folder.iter().flat_map(move |new| images_below(staging, new, state));
    early.extend(below(NameState::Sealed).chain(below_new(NameState::Sealed)).map(|(image, _)| image));
    // What both names have, and folders hold, is exchanged once it is there.
    let exchanged: Vec<PathBuf> = if is_exchange {
        let below = below(NameState::Open).chain(below_new(NameState::Open)).map(|(image, _)| image);
        staged.iter().chain(&replaced).cloned().chain(below).collect()
    } else {
        Vec::new()
    };
    early.extend(exchanged.iter().cloned());
    if wait_for(&early.iter().collect::<Vec<_>>()) {
        return Some(Ok(Rename::Early(early)));
    }
    // Open for writing: what is at the destination is an older version.
    if !exchanged.is_empty() {
        return Some(Ok(Rename::Refused(libc::EINVAL)));
    }
    if staged.is_some() {
        // A program that moves files copies this one then.
        return Some(Ok(Rename::Refused(libc::EXDEV)));
    }
    if moved_folder.is_some() && below_new(NameState::Open).next().is_some() {
        return Some(Ok(Rename::Refused(libc::ENOTEMPTY)));
    }
    let moved: Vec<(PathBuf, PathBuf)> = below(NameState::Open).collect();
    if moved.iter().any(|(image, _)| staging.is_moving(image)) {
        return Some(Err(NotYet));
    }
    if call() {
        if let Some(image) = &replaced {
            drop_image(staging, &new, image);
        }
        if let Some(paths) = &moved_folder {
            for (image, destination) in &moved {
                let _is_left = follow(staging, image, destination, paths);
            }
        }
    }
    Some(Ok(Rename::Called))
}

/// Has `image`, for `destination` in a folder that has another path by now, go there.
fn follow(
    staging: &RunStaging,
    image: &Path,
    destination: &Path,
    (old, new): &(PathBuf, PathBuf),
) -> Option<()> {
    let destination = new.join(destination.strip_prefix(old).ok()?);
    let moved = ProgramImage::at(image)?.for_destination(&destination).ok()?;
    let key = FolderKey::at(destination.parent()?).ok()?;
    staging.names.set(key, destination.file_name()?, &moved.path()).ok()
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
    // What had the old name before the staged file has it no more.
    let _none = rustix::fs::unlinkat(&old.folder, &old.name, AtFlags::empty());
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
