//! `rename` of names that staged files have, or of folders that such files are below.

use std::{
    ffi::{CStr, OsString},
    os::fd::RawFd,
    path::{Path, PathBuf},
};

use forebay_source::Error;
use forebay_stage::{FolderKey, NameState, NamedImage, ProgramImage};
use libc::{RENAME_EXCHANGE, RENAME_NOREPLACE, c_int, c_uint};
use rustix::fs::{Access, AtFlags};

use super::{
    name_turn::{NotYet, in_turn, lock_names},
    names::{is_in_area, may_be_staged},
    place::{StagedPlace, ends_with_slash, has_numbers, is_folder, named},
    plain_call::PlainCall,
    remove::drop_image,
    run_staging::{RunStaging, staging},
    settle::settle,
};
use crate::{inside::refused, prefix};

/// What becomes of a rename.
enum Rename {
    /// The staged file has that name.
    Done,
    /// It is refused.
    Refused(i32),
    /// The plain call was made, which says for itself what came of it.
    Called,
    /// These have to be at their destinations before.
    Early(Vec<NamedImage>),
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
            Some(Rename::Refused(errno)) => return refused(errno),
            Some(Rename::Called) | None => return plain.given(),
            Some(Rename::Early(images)) => {
                settle(images.iter().map(|named| named.image.clone()).collect());
                settled.extend(images);
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
    settled: &[NamedImage],
    call: &dyn Fn() -> bool,
) -> Option<Result<Rename, NotYet>> {
    let staging = staging()?;
    if !has_numbers() {
        let is_concerned = named(from.0, from.1).is_some() || named(to.0, to.1).is_some() || is_folder(from);
        return is_concerned.then_some(Ok(Rename::Refused(libc::EMFILE)));
    }
    let known = RENAME_NOREPLACE | RENAME_EXCHANGE;
    // The kernel refuses these, or leaves something in the place of the old name.
    if flags & !known != 0 || flags & known == known {
        return None;
    }
    let (old, new) = (StagedPlace::of_entry(from.0, from.1)?, StagedPlace::of_entry(to.0, to.1)?);
    if ends_with_slash(from.1) && !old.is_folder()
        || ends_with_slash(to.1) && !if flags & RENAME_EXCHANGE != 0 { &new } else { &old }.is_folder()
    {
        // The kernel would not find a staged file.
        return old.image().map(|_| Ok(Rename::Refused(libc::ENOTDIR)));
    }
    let Ok(_lock) = lock_names(staging, &[&old, &new])? else { return Some(Err(NotYet)) };
    let pair = NamePair::of(staging, &old, &new);
    match pair.rename_in_area(flags, settled) {
        Some(done) => Some(Ok(done)),
        None => pair.rename_by(flags, settled, call),
    }
}

/// The two names of a rename, and what they lead to. Looked at with the names locked.
struct NamePair<'a> {
    staging: &'static RunStaging,
    old: &'a StagedPlace,
    new: &'a StagedPlace,
    /// What programs write under each name.
    staged: Option<PathBuf>,
    replaced: Option<PathBuf>,
    /// What is on its way to each.
    older: Option<PathBuf>,
    older_replaced: Option<PathBuf>,
}

impl<'a> NamePair<'a> {
    fn of(staging: &'static RunStaging, old: &'a StagedPlace, new: &'a StagedPlace) -> Self {
        let image = |state, place: &StagedPlace| staging.names.image(state, place.key, &place.name);
        Self {
            staging,
            old,
            new,
            staged: image(NameState::Open, old),
            replaced: image(NameState::Open, new),
            older: image(NameState::Sealed, old),
            older_replaced: image(NameState::Sealed, new),
        }
    }

    /// What the staging area alone decides: a staged file that only gets another name, or a name that is taken.
    fn rename_in_area(&self, flags: c_uint, settled: &[NamedImage]) -> Option<Rename> {
        let (old, new) = (self.old, self.new);
        let has_old = self.staged.is_some() || old.facts().is_ok();
        let is_taken = || {
            let is_on_its_way = self.older_replaced.as_deref().is_some_and(is_in_area);
            self.replaced.is_some() || is_on_its_way || self.staged.is_some() && new.facts().is_ok()
        };
        if flags & RENAME_NOREPLACE != 0 && has_old && is_taken() {
            return Some(Rename::Refused(libc::EEXIST));
        }
        let staged = self.staged.as_ref()?;
        if (old.key, &old.name) == (new.key, &new.name) {
            return Some(Rename::Done);
        }
        if flags & RENAME_EXCHANGE != 0 || !old.key.is_on_same_device(&new.key) {
            return None;
        }
        // What had the old name before the staged file is removed with it.
        let older = self.older.iter().map(|older| sealed(older)).find(|older| !settled.contains(older));
        if let Some(older) = older {
            return Some(Rename::Early(vec![older]));
        }
        Some(self.move_image(staged)?.map_or_else(Rename::Refused, |()| Rename::Done))
    }

    /// Gives the staged file `image` the new name; nothing where only the plain call can, an error where it would be refused.
    fn move_image(&self, image: &Path) -> Option<Result<(), i32>> {
        let (names, old, new) = (&self.staging.names, self.old, self.new);
        let destination = new.path().filter(|path| prefix::covers(path))?;
        if new.is_folder() {
            return Some(Err(libc::EISDIR));
        }
        let access = Access::WRITE_OK | Access::EXEC_OK;
        if rustix::fs::accessat(&new.folder, ".", access, AtFlags::EACCESS).is_err() {
            return Some(Err(libc::EACCES));
        }
        if new.facts().is_ok_and(|there| !new.may_rename_over(&there)) {
            return Some(Err(libc::EPERM));
        }
        let image = ProgramImage::at(image)?;
        let moved = match image.also_for(&destination) {
            Ok(moved) => moved,
            Err(error) => return Some(Err(errno_of(&error))),
        };
        // The new name leads to one of the two files at any time.
        if let Err(error) = names.set(new.key, &new.name, &moved.path()) {
            moved.discard();
            return Some(Err(errno_of(&error)));
        }
        if let Some(replaced) = self.replaced.as_deref().and_then(ProgramImage::at) {
            replaced.discard();
        }
        names.remove_name(NameState::Open, old.key, &old.name, &image.path());
        image.discard();
        // What had the old name before the staged file has it no more.
        let _none = rustix::fs::unlinkat(&old.folder, &old.name, AtFlags::empty());
        Some(Ok(()))
    }

    /// Renames by `call` once all that is on its way to one of the names, or below them, has arrived.
    fn rename_by(
        &self,
        flags: c_uint,
        settled: &[NamedImage],
        call: &dyn Fn() -> bool,
    ) -> Option<Result<Rename, NotYet>> {
        let moved_folder =
            if self.old.is_folder() { Some((self.old.path()?, self.new.path()?)) } else { None };
        let new_folder = if self.new.is_folder() { Some(self.new.path()?) } else { None };
        let below = |folder: Option<&PathBuf>, state| {
            folder.map(|folder| self.staging.images_below(folder, state)).unwrap_or_default()
        };
        let old_folder = moved_folder.as_ref().map(|(old, _)| old);
        let (moved, written_below_new) =
            (below(old_folder, NameState::Open), below(new_folder.as_ref(), NameState::Open));
        let mut early: Vec<NamedImage> = self.staged.iter().map(|image| open(image)).collect();
        early.extend([&self.older, &self.older_replaced].into_iter().flatten().map(|image| sealed(image)));
        for folder in [old_folder, new_folder.as_ref()] {
            early.extend(below(folder, NameState::Sealed).iter().map(|(image, _)| sealed(image)));
        }
        // What both names have, and folders hold, is exchanged once it is there.
        let exchanged: Vec<NamedImage> = if flags & RENAME_EXCHANGE != 0 {
            let below = moved.iter().chain(&written_below_new).map(|(image, _)| image);
            self.staged.iter().chain(&self.replaced).chain(below).map(|image| open(image)).collect()
        } else {
            Vec::new()
        };
        early.extend(exchanged.iter().cloned());
        if early.iter().any(|image| !settled.contains(image)) {
            return Some(Ok(Rename::Early(early)));
        }
        // Open for writing: what is at the destination is an older version. A program that moves files copies this one then.
        let refused = match () {
            () if !exchanged.is_empty() => Some(libc::EINVAL),
            () if self.staged.is_some() => Some(libc::EXDEV),
            () if moved_folder.is_some() && self.replaced.is_some() => Some(libc::ENOTDIR),
            () if moved_folder.is_some() && !written_below_new.is_empty() => Some(libc::ENOTEMPTY),
            () => None,
        };
        if let Some(errno) = refused {
            return Some(Ok(Rename::Refused(errno)));
        }
        if moved.iter().any(|(image, _)| self.staging.is_moving(image)) {
            return Some(Err(NotYet));
        }
        Some(Ok(self.call_and_follow(&moved, moved_folder.as_ref(), call)))
    }

    /// Renames by `call`; files that are written below a folder have the journals of their new paths before.
    fn call_and_follow(
        &self,
        moved: &[(PathBuf, PathBuf)],
        paths: Option<&(PathBuf, PathBuf)>,
        call: &dyn Fn() -> bool,
    ) -> Rename {
        let mut followers = Vec::new();
        let mut failed = None;
        for (image, destination) in moved {
            let follower = paths.and_then(|paths| Follower::prepare(self.staging, image, destination, paths));
            match follower.transpose() {
                Ok(follower) => followers.extend(follower),
                Err(error) => failed = failed.or(Some(errno_of(&error))),
            }
        }
        let is_renamed = failed.is_none() && call();
        for follower in followers {
            follower.end(is_renamed);
        }
        if let (true, Some(image)) = (is_renamed, &self.replaced) {
            drop_image(self.staging, self.new, image);
        }
        failed.map_or(Rename::Called, Rename::Refused)
    }
}

/// A staged file below a folder that is being renamed. Its name leads to the image of the new path already: both are one file.
struct Follower<'a> {
    staging: &'a RunStaging,
    folder: FolderKey,
    name: OsString,
    before: ProgramImage,
    after: ProgramImage,
}

impl<'a> Follower<'a> {
    /// That of `image`, for `destination` in `old`, which is `new` by and by; nothing for one whose folder is gone.
    fn prepare(
        staging: &'a RunStaging,
        image: &Path,
        destination: &Path,
        (old, new): &(PathBuf, PathBuf),
    ) -> Option<Result<Self, Error>> {
        let (folder, name) =
            (FolderKey::at(destination.parent()?).ok()?, destination.file_name()?.to_owned());
        let (before, path) = (ProgramImage::at(image)?, new.join(destination.strip_prefix(old).ok()?));
        let after = match before.also_for(&path) {
            Ok(after) => after,
            Err(error) => return Some(Err(error)),
        };
        if let Err(error) = staging.names.set(folder, &name, &after.path()) {
            after.discard();
            return Some(Err(error));
        }
        Some(Ok(Self { staging, folder, name, before, after }))
    }

    /// Gives up the image of the path that the file does not have.
    fn end(self, is_renamed: bool) {
        if is_renamed {
            return self.before.discard();
        }
        // A link that cannot be made leaves the name where it is: the image of the other path has to stay for it.
        if self.staging.names.set(self.folder, &self.name, &self.before.path()).is_ok() {
            self.after.discard();
        }
    }
}

fn open(image: &Path) -> NamedImage {
    NamedImage { image: image.to_owned(), state: NameState::Open }
}

fn sealed(image: &Path) -> NamedImage {
    NamedImage { image: image.to_owned(), state: NameState::Sealed }
}

fn errno_of(error: &Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
