//! Which file is made in the staging area, or opened there.

#![expect(unsafe_code, reason = "opens by the C library's own function, which takes a mode or not")]

use std::{
    ffi::CStr,
    os::{
        fd::{AsRawFd, IntoRawFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use forebay_scratch::RunCounter;
use forebay_source::{hidden_numbers, record_locks};
use forebay_stage::{FolderKey, NameState, ProgramImage};
use libc::{FILE, c_int, mode_t};
use rustix::{
    fs::{Access, AtFlags, FileType, Gid, Mode, Stat, Uid},
    io::{Errno, FdFlags},
};

use super::{
    growth,
    name_turn::{NotYet, in_turn, lock_names},
    names::is_in_area,
    place::{LastLink, StagedPlace, ends_with_slash, has_numbers, named},
    run_staging::{RunStaging, c_path, has_any_inside, staging},
    settle::settle,
};
use crate::{inside, kernel, prefix, real, run_counts};

/// What is no file, or has no name.
const NO_FILE: c_int = libc::O_PATH | libc::O_DIRECTORY;
/// Writes that are to be on the disk when they return.
const AT_ONCE: c_int = libc::O_DIRECT | libc::O_DSYNC;
/// A new file, and only that.
const MADE_NEW: c_int = libc::O_CREAT | libc::O_EXCL;

/// A call of `open`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenCall<'a> {
    pub(crate) folder: RawFd,
    pub(crate) path: &'a CStr,
    pub(crate) flags: c_int,
    pub(crate) mode: mode_t,
}

/// What becomes of such a call.
enum OpenPlan {
    /// It is done: a number, or an error.
    Done(Result<RawFd, i32>),
    /// The plain call, once these are at their destinations.
    After(PathBuf),
}

impl OpenCall<'_> {
    fn has(&self, flags: c_int) -> bool {
        self.flags & flags == flags
    }

    fn writes(&self) -> bool {
        self.flags & libc::O_ACCMODE != libc::O_RDONLY
    }

    /// Whether the file has no bytes of before.
    fn begins_empty(&self) -> bool {
        self.writes() && (self.has(libc::O_TRUNC) || self.has(MADE_NEW))
    }

    /// Opens `image` in place of the file.
    fn open_as(&self, image: &Path, flags: c_int) -> Option<Result<RawFd, i32>> {
        let path = c_path(image.to_owned())?;
        // SAFETY: the path ends with a zero byte.
        let fd = unsafe { real::open(path.as_ptr(), flags, self.mode) };
        if fd < 0 {
            return Some(Err(inside::errno()));
        }
        growth::begin(fd);
        Some(Ok(fd))
    }

    /// Opens an image that is there; nothing where it is at its destination by now.
    fn open_there(&self, image: &Path) -> Option<Result<RawFd, i32>> {
        if self.has(MADE_NEW) {
            return Some(Err(libc::EEXIST));
        }
        self.open_as(image, self.flags & !MADE_NEW).filter(|opened| *opened != Err(libc::ENOENT))
    }

    /// Opens the image that the path leads to; nothing where none is there. One that is gone was replaced by another, or is at its destination.
    fn open_to_read(&self, last: LastLink) -> Option<Result<RawFd, i32>> {
        // No descriptor of ours is open when the file is.
        let find = || {
            let of_place = || StagedPlace::of(self.folder, self.path, last)?.image();
            Some(named(self.folder, self.path).or_else(of_place)?.image)
        };
        let mut image = find()?;
        loop {
            if let Some(opened) = self.open_there(&image) {
                return Some(opened);
            }
            image = find().filter(|now| *now != image)?;
        }
    }
}

/// Opens a file that is staged, or is to be; nothing where the plain call has to.
pub(crate) fn open(call: OpenCall<'_>) -> Option<RawFd> {
    let may_cover = match call.folder {
        libc::AT_FDCWD => prefix::may_cover(call.path),
        _ => prefix::may_cover_below_folder(call.path),
    };
    if !may_cover || call.flags & NO_FILE != 0 {
        return None;
    }
    match in_turn(|| plan(&call)) {
        Some(OpenPlan::Done(Ok(fd))) => Some(lowest(fd)),
        Some(OpenPlan::Done(Err(errno))) => {
            inside::set_errno(errno);
            Some(-1)
        }
        Some(OpenPlan::After(image)) => {
            settle(vec![image]);
            None
        }
        None => None,
    }
}

/// The lowest number that is free, or `fd`, for the open file of `fd`: with few numbers those of ours were the lowest ones when it was opened.
fn lowest(fd: RawFd) -> RawFd {
    if hidden_numbers::hidden_count() > 0 {
        return fd;
    }
    let lowered = inside::run(|| {
        let file = kernel::borrowed(fd)?;
        if record_locks::is_locked(file) {
            return None;
        }
        let is_closed_on_exec = rustix::io::fcntl_getfd(file).ok()?.contains(FdFlags::CLOEXEC);
        let other = rustix::io::fcntl_dupfd_cloexec(file, 0).ok()?;
        if other.as_raw_fd() > fd {
            return None;
        }
        let flags = if is_closed_on_exec { FdFlags::CLOEXEC } else { FdFlags::empty() };
        rustix::io::fcntl_setfd(&other, flags).ok()?;
        growth::forget(fd);
        // SAFETY: the number is ours: the program does not know of it yet.
        unsafe { real::close(fd) };
        growth::begin(other.as_raw_fd());
        Some(other.into_raw_fd())
    });
    lowered.unwrap_or(fd)
}

/// The same for a stream of the C library.
pub(crate) fn open_stream(path: &CStr, mode: &CStr) -> Option<*mut FILE> {
    let flags = stream_flags(mode.to_bytes())?;
    let fd = open(OpenCall { folder: libc::AT_FDCWD, path, flags, mode: 0o666 })?;
    if fd < 0 {
        return Some(std::ptr::null_mut());
    }
    // SAFETY: the number is ours until the stream has it, and the mode is a text of C.
    Some(unsafe { libc::fdopen(fd, mode.as_ptr()) })
}

/// The flags that a stream of this mode is opened with; nothing for what only the C library knows.
fn stream_flags(mode: &[u8]) -> Option<c_int> {
    let (first, more) = mode.split_first()?;
    if more.contains(&b',') {
        return None;
    }
    let access = match (first, more.contains(&b'+')) {
        (_, true) => libc::O_RDWR,
        (b'r', false) => libc::O_RDONLY,
        (_, false) => libc::O_WRONLY,
    };
    let makes = match first {
        b'r' => 0,
        b'w' => libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let only_new = if more.contains(&b'x') { libc::O_EXCL } else { 0 };
    let on_exec = if more.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    Some(access | makes | only_new | on_exec)
}

fn plan(call: &OpenCall<'_>) -> Option<Result<OpenPlan, NotYet>> {
    let staging = staging()?;
    if !call.begins_empty() && !has_any_inside() {
        return None;
    }
    let is_kept = call.has(libc::O_NOFOLLOW) || call.has(MADE_NEW);
    let last = if is_kept { LastLink::Kept } else { LastLink::Followed };
    if !call.writes() {
        if ends_with_slash(call.path) {
            return None;
        }
        return call.open_to_read(last).map(|opened| Ok(OpenPlan::Done(opened)));
    }
    if !has_numbers() {
        return named(call.folder, call.path).map(|_| Ok(OpenPlan::Done(Err(libc::EMFILE))));
    }
    let place = StagedPlace::of(call.folder, call.path, last)?;
    // While names do not change, an image that has one is not taken over by the launcher.
    let Ok(lock) = lock_names(staging, &[&place])? else { return Some(Err(NotYet)) };
    if let Some(image) = staging.names.image(NameState::Open, place.key, &place.name)
        && let Some(opened) = call.open_there(&image)
    {
        return Some(Ok(OpenPlan::Done(opened)));
    }
    let is_staged = call.begins_empty() && staging.takes(call, &place);
    if let Some(image) = staging.names.image(NameState::Sealed, place.key, &place.name) {
        if call.has(MADE_NEW) && is_in_area(&image) {
            return Some(Ok(OpenPlan::Done(Err(libc::EEXIST))));
        }
        if !is_staged {
            return Some(Ok(OpenPlan::After(image)));
        }
    }
    let made = if is_staged { make(staging, call, &place) } else { None };
    drop(lock);
    made.map(|fd| Ok(OpenPlan::Done(Ok(fd))))
}

/// A new image for the file at `place`; nothing where the plain call has to make it, or to refuse it.
fn make(staging: &RunStaging, call: &OpenCall<'_>, place: &StagedPlace) -> Option<RawFd> {
    let destination = place.path().filter(|path| prefix::covers(path))?;
    // A folder that was removed, or that another file system is mounted over, is not where its path leads.
    if FolderKey::at(destination.parent()?).ok()? != place.key {
        return None;
    }
    let old = old_file(call, place)?;
    if staging.names.is_full(&staging.folder) || !ProgramImage::has_drainer(&staging.folder) {
        return None;
    }
    let image = ProgramImage::new(&staging.folder, &destination);
    let flags = call.flags & !libc::O_NOFOLLOW | MADE_NEW;
    let mode = if call.has(libc::O_CREAT) { call.mode } else { 0o600 };
    let fd = OpenCall { mode, ..*call }.open_as(&image.path(), flags)?.ok()?;
    let noted = dressed(fd, old.as_ref()).and_then(|()| {
        image.note_destination(&destination).ok()?;
        staging.names.set(place.key, &place.name, &image.path()).ok()
    });
    if noted.is_none() {
        // SAFETY: the number is ours: nobody knows of it yet.
        unsafe { real::close(fd) };
        image.discard();
        return None;
    }
    // From now on all processes of the run look for names of staged files.
    run_counts::begin(inside::process());
    run_counts::add(RunCounter::StagedOpens, 1);
    Some(fd)
}

/// Gives a new image the owner and the mode of the file that it takes the place of; nothing where the launcher could not read it.
fn dressed(fd: RawFd, old: Option<&Stat>) -> Option<()> {
    let file = kernel::borrowed(fd)?;
    if let Some(old) = old {
        let new = rustix::fs::fstat(file).ok()?;
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid) {
            // Who may not give files away leaves it as it is but for its group, as the launcher will.
            let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
            if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
                let _is_given = rustix::fs::fchown(file, None, Some(group));
            }
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(old.st_mode)).ok()?;
    }
    let mode = Mode::from_raw_mode(rustix::fs::fstat(file).ok()?.st_mode);
    mode.contains(Mode::RUSR).then_some(())
}

/// The file that is at the destination, if any; nothing where the plain call would be refused, or the file could not take its place
/// by a rename.
#[expect(clippy::option_option, reason = "none of either is another answer")]
fn old_file(call: &OpenCall<'_>, place: &StagedPlace) -> Option<Option<Stat>> {
    let folder = &place.folder;
    let may =
        |name: &std::ffi::OsStr, access| rustix::fs::accessat(folder, name, access, AtFlags::EACCESS).is_ok();
    if !may(std::ffi::OsStr::new("."), Access::WRITE_OK | Access::EXEC_OK) {
        return None;
    }
    let old = match rustix::fs::statat(folder, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return call.has(libc::O_CREAT).then_some(None),
        Err(_) => return None,
        Ok(old) => old,
    };
    let is_file = FileType::from_raw_mode(old.st_mode) == FileType::RegularFile;
    let reads = if call.flags & libc::O_ACCMODE == libc::O_RDWR { Access::READ_OK } else { Access::empty() };
    let may_replace = is_file
        && old.st_nlink == 1
        && !call.has(MADE_NEW)
        && may(&place.name, Access::WRITE_OK | reads)
        && place.may_rename_over(&old);
    may_replace.then_some(Some(old))
}

impl RunStaging {
    /// Whether files of this kind are staged.
    fn takes(&self, call: &OpenCall<'_>, place: &StagedPlace) -> bool {
        let name = place.name.as_bytes();
        let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
        // The loader opens libraries by calls that no hook sees, and a file that is made to exclude others has to be seen by them.
        let is_left = name.ends_with(b".so") || has(b".so.") || call.has(MADE_NEW) && has(b"lock");
        let is_update = self.is_write_only && call.flags & libc::O_ACCMODE == libc::O_RDWR;
        !is_left && !is_update && call.flags & AT_ONCE == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_streams_are_flags() {
        assert_eq!(stream_flags(b"wb"), Some(libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC));
        assert_eq!(stream_flags(b"w+x"), Some(libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_EXCL));
        assert_eq!(stream_flags(b"re"), Some(libc::O_CLOEXEC));
        assert_eq!(stream_flags(b"r+"), Some(libc::O_RDWR));
        assert_eq!(stream_flags(b"a"), Some(libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND));
        assert_eq!((stream_flags(b"w,ccs=UTF-8"), stream_flags(b"q"), stream_flags(b"")), (None, None, None));
    }
}
