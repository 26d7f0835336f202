//! How a new file takes its place: put together beside the old one, dressed like it, renamed.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use forebay_scratch::nonce;
use forebay_source::{Error, ErrorKind, Result};
use rustix::{
    fs::{Access, AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags},
    io::Errno,
};

use crate::journal::TEMPORARY_MARK;

/// Names of files have at most 255 bytes; the mark and the number take some.
const MOST_NAME_BYTES: usize = 200;
/// The most bytes that Linux allows for one extended attribute.
const MOST_XATTR_BYTES: usize = 64 << 10;

/// Where a write to `path` ends: links followed, the folder made absolute.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let at = |error: std::io::Error| Error::from_io(error).at(path.display());
    match fs::canonicalize(path) {
        Ok(resolved) => return Ok(resolved),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(error)),
        Err(_) => {}
    }
    // A link that leads nowhere yet: opening it would make what it names.
    let path = fs::read_link(path).map_or_else(
        |_| path.to_owned(),
        |link| match path.parent() {
            Some(folder) => folder.join(link),
            None => link,
        },
    );
    let name = path.file_name().ok_or_else(|| Error::invalid("names no file").at(path.display()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::canonicalize(folder).map_err(at)?.join(name))
}

/// Refuses at once what a publication would be refused later: no folder, no permission, something that is not a file.
pub(crate) fn check(destination: &Path) -> Result<()> {
    let at = |errno: Errno| Error::from_io(errno.into()).at(destination.display());
    match rustix::fs::stat(destination) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            let error = Error::invalid("is not a regular file").hint("write to it without staging");
            return Err(error.at(destination.display()));
        }
        Ok(_) => rustix::fs::accessat(CWD, destination, Access::WRITE_OK, AtFlags::EACCESS).map_err(at)?,
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(at(errno)),
    }
    let folder = destination.parent().unwrap_or(Path::new("/"));
    let access = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::accessat(CWD, folder, access, AtFlags::EACCESS).map_err(at)
}

/// A name beside `destination` that nothing has.
pub(crate) fn temporary_name(destination: &Path) -> OsString {
    let name = destination.file_name().unwrap_or(OsStr::new("file")).as_bytes();
    let mut temporary = OsString::from(".");
    temporary.push(OsStr::from_bytes(&name[..name.len().min(MOST_NAME_BYTES)]));
    temporary.push(format!("{TEMPORARY_MARK}{:016x}", nonce()));
    temporary
}

/// A new file at `path`, for this user alone.
pub(crate) fn create_temporary(path: &Path) -> Result<File> {
    let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| Error::from_io(error).at(path.display()))
}

/// The temporary file that a killed process left at `path`; nothing where there is none.
pub(crate) fn reopen_temporary(path: &Path) -> Result<Option<File>> {
    let flags = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
    match File::options().read(true).write(true).custom_flags(flags).open(path) {
        Ok(file) if crate::stamp::is_regular(&file) => Ok(Some(file)),
        Ok(_) => Err(Error::new(ErrorKind::Denied, "is not a file of ours").at(path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::from_io(error).at(path.display())),
    }
}

/// Gives `file` the mode, owner, access list and extended attributes of the file at `destination`, or `mode` where there is
/// none.
pub(crate) fn dress(file: &File, destination: &Path, mode: u32) -> Result<()> {
    let at = |errno: Errno| Error::from_io(errno.into()).at(destination.display());
    let old = match rustix::fs::stat(destination) {
        Ok(old) => old,
        Err(Errno::NOENT) => return rustix::fs::fchmod(file, Mode::from_bits_truncate(mode)).map_err(at),
        Err(errno) => return Err(at(errno)),
    };
    give_to(file, (old.st_uid, old.st_gid)).map_err(at)?;
    // After the owner, as a new owner clears some bits.
    rustix::fs::fchmod(file, Mode::from_bits_truncate(old.st_mode)).map_err(at)?;
    copy_attributes(destination, file);
    Ok(())
}

/// Gives `file` the mode, the times and the extended attributes of the file `image` that a program has written, and the owner and the group
/// that the program gave it: those of `begun_as` it had from the first. They are not those of `file`, which has them from the folder it is in (setgid), or from the
/// file that it takes the place of.
pub(crate) fn dress_as(file: &File, image: &File, begun_as: Option<(u32, u32)>, mode: u32) -> Result<()> {
    let done = || -> rustix::io::Result<()> {
        let facts = rustix::fs::fstat(image)?;
        let owner = (facts.st_uid, facts.st_gid);
        if begun_as != Some(owner) {
            give_to(file, owner)?;
        }
        copy_attributes_of(image, file);
        let time = |seconds, nanos: i64| Timespec { tv_sec: seconds, tv_nsec: nanos };
        let nanos = |nanos: u64| i64::try_from(nanos).unwrap_or(0);
        let times = Timestamps {
            last_access: time(facts.st_atime, nanos(facts.st_atime_nsec)),
            last_modification: time(facts.st_mtime, nanos(facts.st_mtime_nsec)),
        };
        let set = rustix::fs::fchmod(file, Mode::from_bits_truncate(mode));
        match set.and_then(|()| rustix::fs::futimens(file, &times)) {
            // A file of another owner, which this user may write: its mode and times are its owner's to set.
            Err(Errno::PERM) if rustix::fs::fstat(file)?.st_uid != rustix::process::geteuid().as_raw() => {
                Ok(())
            }
            set => set,
        }
    };
    done().map_err(|errno| Error::from_io(errno.into()))
}

/// Gives `file` to an owner and a group, as far as that is allowed: only root gives files away, and the group can be kept by its members.
fn give_to(file: &File, (owner, group): (u32, u32)) -> rustix::io::Result<()> {
    let own = rustix::fs::fstat(file)?;
    if (own.st_uid, own.st_gid) != (owner, group) {
        let (owner, group) = (Uid::from_raw(owner), Gid::from_raw(group));
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(group));
        }
    }
    Ok(())
}

fn copy_attributes_of(from: impl AsFd, to: impl AsFd) {
    let mut names = vec![0_u8; MOST_XATTR_BYTES];
    let Ok(len) = rustix::fs::flistxattr(&from, names.as_mut_slice()) else { return };
    if len == 0 {
        return;
    }
    let mut value = vec![0_u8; MOST_XATTR_BYTES];
    for name in names[..len.min(names.len())].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        if let Ok(len) = rustix::fs::fgetxattr(&from, name, value.as_mut_slice()) {
            let _ = rustix::fs::fsetxattr(&to, name, &value[..len.min(value.len())], XattrFlags::empty());
        }
    }
}

/// Copies extended attributes, the access list among them; what this user or the file system does not allow is left out.
fn copy_attributes(from: &Path, to: impl AsFd) {
    let mut names = vec![0_u8; MOST_XATTR_BYTES];
    let Ok(len) = rustix::fs::listxattr(from, names.as_mut_slice()) else { return };
    let mut value = vec![0_u8; MOST_XATTR_BYTES];
    for name in names[..len.min(names.len())].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        if let Ok(len) = rustix::fs::getxattr(from, name, value.as_mut_slice()) {
            let _ = rustix::fs::fsetxattr(&to, name, &value[..len.min(value.len())], XattrFlags::empty());
        }
    }
}

/// Gives the file `temporary` the name `destination`.
pub(crate) fn rename(temporary: &Path, destination: &Path) -> Result<()> {
    fs::rename(temporary, destination).map_err(|error| Error::from_io(error).at(destination.display()))
}

/// Syncs the names in the folder of `path`.
pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    match synced {
        // Some file systems sync no folders.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
        synced => synced.map_err(|error| Error::from_io(error).at(folder.display())),
    }
}

/// Refuses a pointer that is something else than a link, or would be no neighbour.
pub(crate) fn check_pointer(pointer: &Path) -> Result<PathBuf> {
    let folder = pointer.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = pointer.file_name().ok_or_else(|| Error::invalid("names no link").at(pointer.display()))?;
    let folder = fs::canonicalize(folder).map_err(|error| Error::from_io(error).at(pointer.display()))?;
    let pointer = folder.join(name);
    match fs::symlink_metadata(&pointer) {
        Ok(there) if !there.is_symlink() => {
            Err(Error::invalid("is not a symbolic link").hint("name another pointer").at(pointer.display()))
        }
        _ => Ok(pointer),
    }
}

/// Has the link `pointer` lead to `destination` from now on, and syncs that; not where it leads to a file that was begun later.
///
/// The link's time of modification is when the file that it leads to was begun, `created_ns`.
pub(crate) fn point(pointer: &Path, destination: &Path, created_ns: u64) -> Result<()> {
    let at = |error: std::io::Error| Error::from_io(error).at(pointer.display());
    let target = match (pointer.parent(), destination.parent(), destination.file_name()) {
        (Some(one), Some(other), Some(name)) if one == other => PathBuf::from(name),
        _ => destination.to_owned(),
    };
    check_pointer(pointer)?;
    // Always the same name for the same file: what a killed process left of it is found again.
    let name = pointer.file_name().unwrap_or(OsStr::new("latest")).as_bytes();
    let sum = crc32c::crc32c(destination.as_os_str().as_bytes());
    let mut temporary = OsString::from(".");
    temporary.push(OsStr::from_bytes(&name[..name.len().min(MOST_NAME_BYTES)]));
    temporary.push(format!("{TEMPORARY_MARK}{sum:08x}"));
    let temporary = pointer.with_file_name(temporary);
    if fs::symlink_metadata(&temporary).is_ok_and(|there| there.is_symlink()) {
        fs::remove_file(&temporary).map_err(at)?;
    }
    if begun_ns(pointer).is_some_and(|there| there > created_ns) {
        return Ok(());
    }
    if fs::read_link(pointer).is_ok_and(|there| there == target) {
        set_begun(pointer, created_ns);
        return Ok(());
    }
    std::os::unix::fs::symlink(&target, &temporary).map_err(at)?;
    set_begun(&temporary, created_ns);
    if let Err(error) = fs::rename(&temporary, pointer) {
        let _ = fs::remove_file(&temporary);
        return Err(at(error));
    }
    sync_folder_of(pointer)
}

/// When the file that the link `pointer` leads to was begun.
fn begun_ns(pointer: &Path) -> Option<u64> {
    let there = fs::symlink_metadata(pointer).ok()?;
    let since = there.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn set_begun(link: &Path, created_ns: u64) {
    let seconds = i64::try_from(created_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let nanos = i64::try_from(created_ns % 1_000_000_000).unwrap_or(0);
    let begun = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: begun, last_modification: begun };
    // Where a file system refuses it, the link has the time it was moved at: a file begun before that does not get the pointer.
    let _ = rustix::fs::utimensat(CWD, link, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// What the umask leaves of `0666`.
pub(crate) fn default_mode() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = umask.and_then(|umask| u32::from_str_radix(umask.trim(), 8).ok()).unwrap_or(0o022);
    0o666 & !umask
}
