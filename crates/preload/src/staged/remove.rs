//! `unlink`, `rmdir` and `remove` of names that staged files have, or of the folders that they are in.

use std::{
    ffi::CStr,
    os::fd::RawFd,
    path::{Path, PathBuf},
};

use forebay_source::ErrorKind;
use forebay_stage::{NameState, NamedImage, ProgramImage};
use libc::c_int;

use super::{
    name_turn::{NotYet, in_turn, lock_names},
    names::{folder_key_at, is_in_area, may_be_staged},
    place::{self, LastLink, StagedPlace, has_numbers, named},
    plain_call::PlainCall,
    run_staging::{RunStaging, staging, work},
    settle::settle,
};
use crate::inside::{self, refused};

/// Removes the file at `path` by `call`, and gives up a staged one.
pub(crate) fn removed(folder: RawFd, path: &CStr, call: impl FnOnce() -> c_int) -> c_int {
    if !may_be_staged(folder, path) {
        return call();
    }
    let (is_given_up, older) = match in_turn(|| give_up(folder, path)) {
        Some(FileRemoval::Refused(errno)) => return refused(errno),
        Some(FileRemoval::GivenUp { is_given_up, older }) => (is_given_up, older),
        None => (false, None),
    };
    settle(older.into_iter().collect());
    let answer = call();
    if answer == -1 && is_given_up && inside::errno() == libc::ENOENT { 0 } else { answer }
}

/// What becomes of the removal of a file.
enum FileRemoval {
    /// Whether a staged file was given up, and an older version that is on its way.
    GivenUp { is_given_up: bool, older: Option<PathBuf> },
    /// It is refused.
    Refused(c_int),
}

fn give_up(folder: RawFd, path: &CStr) -> Option<Result<FileRemoval, NotYet>> {
    let staging = staging()?;
    if !has_numbers() {
        return named(folder, path).map(|_| Ok(FileRemoval::Refused(libc::EMFILE)));
    }
    let place = StagedPlace::of(folder, path, LastLink::Kept)?;
    let Ok(_lock) = lock_names(staging, &[&place])? else { return Some(Err(NotYet)) };
    let image = staging.names.image(NameState::Open, place.key, &place.name);
    if let Some(image) = &image {
        drop_image(staging, &place, image);
    }
    let older = staging.names.image(NameState::Sealed, place.key, &place.name);
    Some(Ok(FileRemoval::GivenUp { is_given_up: image.is_some(), older }))
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
    /// It is refused.
    Refused(c_int),
    /// These have to be at their destinations before.
    Early(Vec<NamedImage>),
}

/// Removes the folder at `path` by `call`; one that holds staged files is not empty.
pub(crate) fn removed_folder(folder: RawFd, path: &CStr, call: impl FnOnce() -> c_int) -> c_int {
    if !may_be_staged(folder, path) {
        return call();
    }
    let plain = PlainCall::new(call);
    let mut has_settled = false;
    loop {
        match in_turn(|| remove_folder(folder, path, has_settled, &|| plain.make())) {
            Some(FolderRemoval::Called) | None => return plain.given(),
            Some(FolderRemoval::Refused(errno)) => return refused(errno),
            Some(FolderRemoval::Early(images)) => {
                settle(images.into_iter().map(|named| named.image).collect());
                has_settled = true;
            }
        }
    }
}

/// Removes by `call` while names are locked: no file is begun in the folder meanwhile. Images are waited for once: one that is
/// there after that is a file in the folder.
fn remove_folder(
    folder: RawFd,
    path: &CStr,
    has_settled: bool,
    call: &dyn Fn() -> bool,
) -> Option<Result<FolderRemoval, NotYet>> {
    let (staging, key) = (staging()?, folder_key_at(folder, path)?);
    if staging.names.may_have_any_in(key) && !has_numbers() {
        return Some(Ok(FolderRemoval::Refused(libc::EMFILE)));
    }
    let images = || staging.names.in_folder(key).into_iter().map(|(_, named)| named).collect::<Vec<_>>();
    let _lock = match staging.names.lock() {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::Unavailable && !images().is_empty() => {
            return Some(Err(NotYet));
        }
        Err(_) => return None,
    };
    let images = images();
    if !has_settled && !images.is_empty() {
        return Some(Ok(FolderRemoval::Early(images)));
    }
    if images.iter().any(|named| is_in_area(&named.image)) {
        return Some(Ok(FolderRemoval::Refused(libc::ENOTEMPTY)));
    }
    call();
    Some(Ok(FolderRemoval::Called))
}

/// Whether `remove` of `path` is that of a folder.
pub(crate) fn is_folder(path: &CStr) -> bool {
    let is_folder = || place::is_folder((libc::AT_FDCWD, path)).then_some(());
    may_be_staged(libc::AT_FDCWD, path) && work(is_folder).is_some()
}
