//! A destination: a name in a directory that is held open.
//!
//! A new file is put together under another name in the same directory and renamed. All of that goes through the open directory:
//! whoever renames it, or lays another one in its place, between the opening of a file and its publication changes nothing.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use forebay_process::{Error, ErrorKind, Result, descriptors::retry_when_exhausted};
use forebay_scratch::{disk, nonce};
use rustix::{
    fs::{Access, CWD, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::on_disk::stamp::FileStamp;

/// Names of files have at most 255 bytes; the mark and the number take some.
const MOST_NAME_BYTES: usize = 200;

/// Links in a row that the kernel follows.
const MOST_LINKS: usize = 40;

/// What the name of each temporary file at a destination contains.
pub(crate) const TEMPORARY_MARK: &str = ".forebay-";

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct Destination {
    directory: Mutex<Arc<OwnedFd>>,
    name: OsString,
    path: PathBuf,
}

/// The open directories of destinations: files that wait for their drains share one descriptor for each directory.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    open: Mutex<HashMap<(u64, u64), Weak<OwnedFd>>>,
}

impl Directories {
    /// Returns the descriptor that is open for the same directory, if there is one, or else `opened`.
    fn share(&self, opened: Arc<OwnedFd>) -> Result<Arc<OwnedFd>> {
        let stat = disk::stat(&opened).map_err(Error::from_io)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, directory| directory.strong_count() > 0);
        let key = (stat.st_dev, stat.st_ino);
        if let Some(there) = open.get(&key).and_then(Weak::upgrade) {
            return Ok(there);
        }
        open.insert(key, Arc::downgrade(&opened));
        Ok(opened)
    }
}

/// Returns where a write to `path` ends: links followed, the directory made absolute.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let at = |error: io::Error| Error::from_io(error).at(path.display());
    match disk::canonicalize(path) {
        Ok(resolved) => return Ok(resolved),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(error)),
        Err(_) => {}
    }
    // Links that lead nowhere yet: opening the first would create what the last one names.
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match disk::read_link_at(CWD, &path) {
            Ok(link) => path = directory_of(&path).join(link),
            Err(error) if is_no_link(&error) => break,
            Err(error) => return Err(at(error)),
        }
    }
    let name = path.file_name().ok_or_else(|| Error::invalid("names no file").at(path.display()))?;
    Ok(disk::canonicalize(directory_of(&path)).map_err(at)?.join(name))
}

/// True where `readlink` says that there is nothing, or something that is not a link.
pub(crate) fn is_no_link(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}

/// Returns the directory that `path` is in.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn open_directory(path: &Path) -> Result<Arc<OwnedFd>> {
    let directory = directory_of(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let opened = retry_when_exhausted(|| disk::open(directory, flags, Mode::empty()));
    opened.map(Arc::new).map_err(|error| Error::from_io(error).at(directory.display()))
}

/// Refuses at once what a publication would be refused later: no directory, no permission, something that is not a file.
pub(crate) fn check(destination: &Path) -> Result<()> {
    let at = |error: io::Error| Error::from_io(error).at(destination.display());
    match disk::stat_path(destination) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
            let error = Error::invalid("is not a regular file").hint("write to it without staging");
            return Err(error.at(destination.display()));
        }
        Ok(stat) => {
            disk::check_access(destination, Access::WRITE_OK).map_err(at)?;
            check_sticky(destination, &stat)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(error)),
    }
    disk::check_access(directory_of(destination), Access::WRITE_OK | Access::EXEC_OK).map_err(at)
}

/// Refuses a file of another user in a directory where each user replaces only files of their own.
fn check_sticky(destination: &Path, stat: &Stat) -> Result<()> {
    let directory = disk::stat_path(directory_of(destination))
        .map_err(|error| Error::from_io(error).at(destination.display()))?;
    let user = rustix::process::geteuid();
    let is_sticky = Mode::from_bits_truncate(directory.st_mode).contains(Mode::SVTX);
    let is_own = [stat.st_uid, directory.st_uid].contains(&user.as_raw());
    if !is_sticky || is_own || user.is_root() {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::Denied,
        "belongs to another user, whose files cannot be replaced in this directory",
    );
    Err(error.hint("write to it without staging").at(destination.display()))
}

/// Returns a name beside `destination` that nothing has.
pub(crate) fn temporary_name(destination: &Path) -> OsString {
    marked_name(destination, nonce())
}

/// Returns the hidden name for `path` that has our mark and `number`.
pub(crate) fn marked_name(path: &Path, number: u64) -> OsString {
    let name = path.file_name().unwrap_or(OsStr::new("file")).as_bytes();
    let mut marked = OsString::from(".");
    marked.push(OsStr::from_bytes(&name[..name.len().min(MOST_NAME_BYTES)]));
    marked.push(format!("{TEMPORARY_MARK}{number:016x}"));
    marked
}

impl Destination {
    /// Opens the directory of `path`, which is absolute and resolved.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| Error::invalid("names no file").at(path.display()))?;
        let directory = Mutex::new(open_directory(path)?);
        Ok(Self { directory, name: name.to_owned(), path: path.to_owned() })
    }

    /// Opens the directory of `path`, or takes the descriptor that `directories` has of it.
    pub(crate) fn open_shared(path: &Path, directories: &Directories) -> Result<Self> {
        let opened = Self::open(path)?;
        let shared = directories.share(opened.directory()).map_err(|error| error.at(path.display()))?;
        Ok(Self { directory: Mutex::new(shared), ..opened })
    }

    /// The name of `path` in the same directory, where it is beside this one.
    pub(crate) fn beside(&self, path: &Path) -> Option<Self> {
        let name = path.file_name().filter(|_| path.parent() == self.path.parent())?;
        let directory = Mutex::new(self.directory());
        Some(Self { directory, name: name.to_owned(), path: path.to_owned() })
    }

    /// Returns whether the directory that was opened is removed, by this node or by another one.
    pub(crate) fn is_removed(&self) -> Result<bool> {
        match disk::stat(self.directory()) {
            Ok(stat) => Ok(stat.st_nlink == 0),
            Err(error) if error.raw_os_error() == Some(Errno::STALE.raw_os_error()) => Ok(true),
            Err(error) => Err(Error::from_io(error)),
        }
    }

    /// Returns whether the directory still has its path.
    pub(crate) fn has_its_path(&self) -> Result<bool> {
        let there = FileStamp::at(directory_of(&self.path))?;
        let own = self.directory_stamp()?;
        Ok(there.is_some_and(|there| there.may_be_same_directory(&own)))
    }

    /// Opens the directory again by its path where the one that was opened is removed; true if that was so.
    pub(crate) fn renew(&self) -> Result<bool> {
        let is_removed = self.is_removed()?;
        if is_removed {
            *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = open_directory(&self.path)?;
        }
        Ok(is_removed)
    }

    /// The path as it was when the directory was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory.
    pub(crate) fn directory(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.directory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The name in the directory.
    pub(crate) fn name(&self) -> &Path {
        Path::new(&self.name)
    }

    /// Returns the stamp of what has the name, or nothing where there is nothing; a link is not followed.
    pub(crate) fn stamp(&self) -> Result<Option<FileStamp>> {
        FileStamp::in_directory(self.directory(), &self.name).map_err(|error| error.at(self.path.display()))
    }

    /// Returns the identity of the directory, by which `recover` tells it from another one that has its path.
    pub(crate) fn directory_stamp(&self) -> Result<FileStamp> {
        let stamp = FileStamp::of(self.directory()).map_err(|error| self.at_directory(error))?;
        Ok(FileStamp { len: 0, modified_ns: 0, ..stamp })
    }

    /// Creates the file itself, empty, where there is none: `EEXIST` where there is one. It is created as `temporary`, with the mode
    /// masked as `open(2)` masks it, and told to `note` before it takes the name.
    pub(crate) fn claim(&self, temporary: &OsStr, mode: u32, note: impl FnOnce(FileStamp)) -> Result<()> {
        let file = self.create(temporary, mode)?;
        let claimed = FileStamp::of(&file)
            .map(note)
            .map_err(|error| error.at(self.path.display()))
            .and_then(|()| self.publish(temporary, true));
        if claimed.is_err() {
            let _ = self.remove(temporary);
        }
        claimed
    }

    /// Removes the empty file `claim` by which an item took the name, while it has the name and is empty.
    pub(crate) fn give_claim_back(&self, claim: &FileStamp) -> Result<()> {
        let is_ours = self.stamp()?.is_some_and(|now| now == *claim);
        if is_ours { self.remove(&self.name) } else { Ok(()) }
    }

    /// Creates the file `name` beside the destination, with the mode that `open(2)` gives it there.
    pub(crate) fn create(&self, name: &OsStr, mode: u32) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let made = disk::open_at(self.directory(), Path::new(name), flags, Mode::from_bits_truncate(mode));
        made.map(File::from).map_err(|error| self.at(name, error))
    }

    /// Opens the file `name` that a killed process left beside the destination; nothing where there is none. A file of another user than
    /// this one and the owner of the destination was put there by somebody who could read and change it; with `is_trusted` it may be.
    pub(crate) fn reopen(&self, name: &OsStr, is_trusted: bool) -> Result<Option<File>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let opened = disk::open_at(self.directory(), Path::new(name), flags, Mode::empty()).map(File::from);
        match opened {
            Ok(file)
                if crate::on_disk::stamp::is_regular(&file)
                    && (is_trusted || self.is_ours(name, &file)?) =>
            {
                Ok(Some(file))
            }
            Ok(_) => {
                let error = Error::new(ErrorKind::Denied, "expected a file of this user");
                Err(error.at(self.path.with_file_name(name).display()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.at(name, error)),
        }
    }

    /// Returns whether a file belongs to this user, or to the one whose file it was about to replace.
    fn is_ours(&self, name: &OsStr, file: &File) -> Result<bool> {
        let owner = disk::stat(file).map_err(|error| self.at(name, error))?.st_uid;
        if owner == rustix::process::geteuid().as_raw() {
            return Ok(true);
        }
        match disk::stat_at(self.directory(), self.name()) {
            Ok(replaced) => Ok(owner == replaced.st_uid),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::from_io(error).at(self.path.display())),
        }
    }

    /// Removes the file `name` beside the destination, if it is there.
    pub(crate) fn remove(&self, name: &OsStr) -> Result<()> {
        match disk::remove_at(self.directory(), Path::new(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.at(name, error)),
            _ => Ok(()),
        }
    }

    /// Gives the file `temporary` the destination's name. With `is_new` nothing may have it: the error is then `EEXIST`.
    pub(crate) fn publish(&self, temporary: &OsStr, is_new: bool) -> Result<()> {
        let temporary = Path::new(temporary);
        let renamed = if is_new {
            disk::rename_new_at(self.directory(), temporary, self.name())
        } else {
            disk::rename_at(self.directory(), temporary, self.directory(), self.name())
        };
        renamed.map_err(|error| Error::from_io(error).at(self.path.display()))
    }

    /// Waits until the names in the directory are on the disk.
    pub(crate) fn sync_directory(&self) -> Result<()> {
        match disk::sync_all(self.directory()) {
            // Some file systems sync no directories.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced.map_err(|error| self.at_directory(Error::from_io(error))),
        }
    }

    fn at(&self, name: &OsStr, error: io::Error) -> Error {
        Error::from_io(error).at(self.path.with_file_name(name).display())
    }

    fn at_directory(&self, error: Error) -> Error {
        error.at(directory_of(&self.path).display())
    }
}
