//! `unlink`, `rmdir` and `remove` of names that staged files have, or of the folders that they are in.

use std::{
    ffi::CStr,
    os::fd::RawFd,
    path::{Path, PathBuf},
};

use forebay_source::ErrorKind;
use forebay_stage::{NameState, NamedImage, ProgramImage};
use libc::c_int;
use rustix::fs::{AtFlags, CWD, FileType};

use super::{
    name_turn::{NotYet, in_turn, lock_names},
    names::{folder_key_at, is_out_of_reach, may_be_staged},
    place::{LastLink, StagedPlace, has_no_number},
    plain_call::{PlainCall, refused},
    run_staging::{RunStaging, staging, work},
    settle::settle,
};
use crate::inside;

/// Removes the file at `path` by `call`, and gives up a staged one.
pub(crate) fn removed(folder: RawFd, path: &CStr, call: impl FnOnce() -> c_int) -> c_int {
    if !may_be_staged(folder, path) {
        return call();
    }
    let given_up = in_turn(|| give_up(folder, path));
    if given_up.is_none() && is_out_of_reach(folder, path) {
        return refused(libc::EMFILE);
    }
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

/// Gives up the image that `place` leads to.
pub(super) fn drop_image(staging: &RunStaging, place: &StagedPlace, image: &Path) {
    staging.names.remove_name(NameState::Open, place.key, &place.name, image);
    if let Some(image) = ProgramImage::at(image) {
        image.discard();
    }
}

/// What becomes of the removal of a folder.
enum FolderRemoval {
    /// The plain call was made.
    Called,
    /// A file in it is still written.
    NotEmpty,
    /// These have to be at their destinations before.
    Early(Vec<NamedImage>),
}

/// Removes the folder at `path` by `call`; one that holds staged files is not empty.
pub(crate) fn removed_folder(folder: RawFd, path: &CStr, call: impl FnOnce() -> c_int) -> c_int {
    if !may_be_staged(folder, path) {
        return call();
    }
    let plain = PlainCall::new(call);
    let mut settled = Vec::new();
    loop {
        match in_turn(|| remove_folder(folder, path, &settled, &|| plain.make())) {
            Some(FolderRemoval::Called) => return plain.given(),
            Some(FolderRemoval::NotEmpty) => return refused(libc::ENOTEMPTY),
            Some(FolderRemoval::Early(images)) => {
                settle(images.iter().map(|named| named.image.clone()).collect());
                settled.extend(images);
            }
            None => return plain.given_unless(|| work(|| has_no_number().then_some(())).is_some()),
        }
    }
}

/// Removes by `call` while names are locked: no file is begun in the folder meanwhile. Images in `settled` are not waited for again.
fn remove_folder(
    folder: RawFd,
    path: &CStr,
    settled: &[NamedImage],
    call: &dyn Fn() -> bool,
) -> Option<Result<FolderRemoval, NotYet>> {
    let (staging, key) = (staging()?, folder_key_at(folder, path)?);
    let images = || staging.names.in_folder(key).into_iter().map(|(_, named)| named).collect::<Vec<_>>();
    let _lock = match staging.names.lock() {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::Unavailable && !images().is_empty() => {
            return Some(Err(NotYet));
        }
        Err(_) => return None,
    };
    let images = images();
    if images.iter().any(|named| !settled.contains(named)) {
        return Some(Ok(FolderRemoval::Early(images)));
    }
    if images.iter().any(|named| named.state == NameState::Open) {
        return Some(Ok(FolderRemoval::NotEmpty));
    }
    call();
    Some(Ok(FolderRemoval::Called))
}

/// Whether `remove` of `path` is that of a folder.
pub(crate) fn is_folder(path: &CStr) -> bool {
    let facts = || rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok();
    let is_folder = |facts: rustix::fs::Stat| FileType::from_raw_mode(facts.st_mode) == FileType::Directory;
    may_be_staged(libc::AT_FDCWD, path) && work(facts).is_some_and(is_folder)
}
