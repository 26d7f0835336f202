//! Calls by name: on the image, where the name is that of a staged file.

use std::{
    ffi::{CStr, CString, OsStr, OsString},
    os::{fd::RawFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use forebay_stage::{FolderKey, NameState, NamedImage, ProgramImage};
use rustix::{
    fs::{AtFlags, FileType},
    io::Errno,
};

use super::{
    name_turn::{NotYet, in_turn, lock_names},
    place::{LastLink, StagedPlace, ends_with_slash, folders_of, has_numbers, named, opened},
    run_staging::{c_path, has_any, staging, work},
    settle::settle,
};
use crate::{inside, kernel, prefix};

/// True where `path` may be the name of a staged file.
pub(super) fn may_be_staged(folder: RawFd, path: &CStr) -> bool {
    let may_cover = match folder {
        libc::AT_FDCWD => prefix::may_cover(path),
        _ => prefix::may_cover_below_folder(path),
    };
    may_cover && has_any()
}

fn find(folder: RawFd, path: &CStr, last: LastLink) -> Option<NamedImage> {
    if !may_be_staged(folder, path) || ends_with_slash(path) {
        return None;
    }
    work(|| StagedPlace::of(folder, path, last).map_or_else(|| named(folder, path), |place| place.image()))
}

/// The path of the image, where `path` is the name of a staged file that is only asked for. The file may get to its destination before the
/// image is looked at, which is then not there.
pub(crate) fn asked(folder: RawFd, path: &CStr, last: LastLink) -> Option<CString> {
    c_path(find(folder, path, last)?.image)
}

/// What `call` gives for the image of a staged file, which it changes: neither the launcher nor other programs take or move it meanwhile. Nothing where
/// the plain call has to do: one that is on its way is waited for. An error where the program lacks numbers for it.
pub(crate) fn changed<R>(
    folder: RawFd,
    path: &CStr,
    last: LastLink,
    call: impl Fn(&CStr) -> R,
) -> Option<Result<R, i32>> {
    if !may_be_staged(folder, path) {
        return None;
    }
    let found = in_turn(|| {
        if !has_numbers() {
            return named(folder, path).map(|_| Ok(Err(None)));
        }
        let (staging, place) = (staging()?, StagedPlace::of(folder, path, last)?);
        let Ok(_lock) = lock_names(staging, &[&place])? else { return Some(Err(NotYet)) };
        let NamedImage { image, state } = place.image()?;
        Some(Ok(match state {
            NameState::Open => {
                let answer = call(&c_path(image)?);
                Ok((answer, inside::errno()))
            }
            NameState::Sealed => Err(Some(image)),
        }))
    });
    match found? {
        Ok((answer, errno)) => {
            inside::set_errno(errno);
            Some(Ok(answer))
        }
        Err(Some(image)) => {
            settle(vec![image]);
            None
        }
        Err(None) => Some(Err(libc::EMFILE)),
    }
}

/// Has the file at `path` be at its destination before a call that knows nothing of staged files; true where it cannot be, as it is open
/// for writing.
pub(crate) fn whole(folder: RawFd, path: &CStr) -> bool {
    let Some(found) = find(folder, path, LastLink::Followed) else { return false };
    settle(vec![found.image]);
    find(folder, path, LastLink::Followed).is_some_and(|found| found.state == NameState::Open)
}

/// The path without links of a staged file.
pub(crate) fn real_path(path: &CStr) -> Option<CString> {
    if !may_be_staged(libc::AT_FDCWD, path) {
        return None;
    }
    work(|| {
        let place = StagedPlace::of(libc::AT_FDCWD, path, LastLink::Followed)?;
        place.image()?;
        c_path(place.path()?)
    })
}

/// True where a staged file has the name that a call is to give to something else: not one that is at its destination by now, where the call
/// itself finds it, or has been removed since.
pub(crate) fn made_name(folder: RawFd, path: &CStr) -> bool {
    let found = || is_in_area(&named(folder, path)?.image).then_some(());
    may_be_staged(folder, path) && work(found).is_some()
}

/// Whether `path`, at which the kernel found nothing, has a staged file in the place of a folder: at the destination the kernel would have said so.
pub(crate) fn has_file_for_folder(folder: RawFd, path: &CStr) -> bool {
    let is_file = || {
        for above in folders_of(path.to_bytes()) {
            let above = CString::new(above).ok()?;
            match rustix::fs::statat(opened(folder)?, &above, AtFlags::empty()) {
                // It may have come to its destination since.
                Ok(facts) => {
                    return (FileType::from_raw_mode(facts.st_mode) != FileType::Directory).then_some(());
                }
                Err(Errno::NOENT) => {}
                Err(_) => return None,
            }
            let by_link = || StagedPlace::of(folder, &above, LastLink::Followed)?.image();
            if named(folder, &above).or_else(by_link).is_some_and(|found| is_in_area(&found.image)) {
                return Some(());
            }
        }
        None
    };
    may_be_staged(folder, path) && work(is_file).is_some()
}

/// Whether the image is in the area still. Names of those that are not are removed at the launcher's next look.
pub(super) fn is_in_area(image: &Path) -> bool {
    image.symlink_metadata().is_ok()
}

/// Has all files of the folder that `fd` is open on be there before it is listed.
pub(crate) fn whole_folder(fd: RawFd) {
    if !has_any() {
        return;
    }
    let images = work(|| {
        let key = FolderKey::of(kernel::borrowed(fd)?).ok()?;
        Some(images_of(staging()?.names.in_folder(key)))
    });
    settle(images.unwrap_or_default());
}

/// The same for the folder at `path`, before its times are set: files that come later would change them.
pub(crate) fn whole_folder_at(folder: RawFd, path: &CStr) {
    if !has_any() || !may_be_staged(folder, path) {
        return;
    }
    settle(images_of(work(|| in_folder_at(folder, path)).unwrap_or_default()));
}

/// The names of staged files in the folder at `path`.
fn in_folder_at(folder: RawFd, path: &CStr) -> Option<Vec<(OsString, NamedImage)>> {
    Some(staging()?.names.in_folder(folder_key_at(folder, path)?))
}

/// The key of the folder at `path`.
pub(super) fn folder_key_at(folder: RawFd, path: &CStr) -> Option<FolderKey> {
    FolderKey::below(opened(folder)?, OsStr::from_bytes(path.to_bytes())).ok()
}

/// Has all files of the run be at their destinations.
pub(crate) fn whole_everywhere() {
    if !has_any() {
        return;
    }
    let images = work(|| Some(images_of(staging()?.names.all())));
    settle(images.unwrap_or_default());
}

fn images_of(names: Vec<(OsString, NamedImage)>) -> Vec<PathBuf> {
    names.into_iter().map(|(_, named)| named.image).collect()
}

/// After a sync of `fd`: where it is open on a staged file, journal and names are synced as well.
pub(crate) fn synced(fd: RawFd) {
    let _synced = work(|| {
        let staging = staging()?;
        let path = kernel::path_of(fd)?;
        if path.parent() != Some(&staging.folder) {
            return None;
        }
        ProgramImage::at(&path)?.sync().ok()
    });
}
