//! The symbolic link that leads to the newest durable file.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay_process::{Error, Result};
use forebay_scratch::disk;
use rustix::fs::{FileType, Stat, Timespec, Timestamps};

use crate::create::destination::{Destination, directory_of, is_no_link, marked_name};

/// Refuses a pointer that is something else than a link, or would be no neighbour; returns its resolved path.
pub(crate) fn check(pointer: &Path) -> Result<PathBuf> {
    let at = |error: io::Error| Error::from_io(error).at(pointer.display());
    let name = pointer.file_name().ok_or_else(|| Error::invalid("names no link").at(pointer.display()))?;
    let resolved = disk::canonicalize(directory_of(pointer)).map_err(at)?.join(name);
    find(&Destination::open(&resolved)?)?;
    Ok(resolved)
}

/// Returns what the kernel says of the link, or nothing where there is none; an error where something else has its name.
fn find(pointer: &Destination) -> Result<Option<Stat>> {
    match disk::stat_at(pointer.directory(), pointer.name()) {
        Ok(there) if FileType::from_raw_mode(there.st_mode) == FileType::Symlink => Ok(Some(there)),
        Ok(_) => {
            let error = Error::invalid("expected a symbolic link").hint("name another pointer");
            Err(error.at(pointer.path().display()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::from_io(error).at(pointer.path().display())),
    }
}

/// Has the link `pointer` lead to `destination` from now on, and syncs that; not where it leads to a file that was begun later, nor
/// where the directory of `destination` has lost the path that a link from elsewhere would have to name.
///
/// The link's time of modification is when the file that it leads to was begun, `created_ns`.
pub(crate) fn point(pointer: &Destination, destination: &Destination, created_ns: u64) -> Result<()> {
    let at = |error: io::Error| Error::from_io(error).at(pointer.path().display());
    let is_beside = pointer.path().parent() == destination.path().parent();
    if !is_beside && !destination.has_its_path()? {
        return Ok(());
    }
    let target = if is_beside { destination.name() } else { destination.path() };
    let found = find(pointer)?;
    // Always the same name for the same file: what a killed process left of it is found again.
    let number = u64::from(crc32c::crc32c(destination.path().as_os_str().as_bytes()));
    let temporary = marked_name(pointer.path(), number);
    pointer.remove(&temporary)?;
    if found.as_ref().is_some_and(|there| begun_ns(there) > created_ns) {
        return Ok(());
    }
    let leads_to = match disk::read_link_at(pointer.directory(), pointer.name()) {
        Ok(leads_to) => Some(leads_to),
        Err(error) if is_no_link(&error) => None,
        Err(error) => return Err(at(error)),
    };
    if leads_to.as_deref() == Some(target) {
        set_begun(pointer, pointer.name().as_os_str(), created_ns);
        return pointer.sync_directory();
    }
    disk::symlink_at(target, pointer.directory(), Path::new(&temporary)).map_err(at)?;
    set_begun(pointer, &temporary, created_ns);
    if let Err(error) = pointer.publish(&temporary, false) {
        let _ = pointer.remove(&temporary);
        return Err(error);
    }
    pointer.sync_directory()
}

/// Returns when the file that a link leads to was begun.
fn begun_ns(link: &Stat) -> u64 {
    let begun = i128::from(link.st_mtime) * 1_000_000_000 + i128::from(link.st_mtime_nsec);
    u64::try_from(begun).unwrap_or(0)
}

fn set_begun(pointer: &Destination, link: &OsStr, created_ns: u64) {
    let seconds = i64::try_from(created_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(created_ns % 1_000_000_000).unwrap_or(0);
    let begun = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: begun, last_modification: begun };
    // Where a file system refuses it, the link has the time it was moved at: a file begun before that does not get the pointer.
    let _ = disk::set_link_times_at(pointer.directory(), Path::new(link), &times);
}
