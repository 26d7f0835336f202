//! File-system calls of staging areas.
//!
//! Every call that reads or changes a file of an area or of a destination is made here, so that a test can record the calls of its
//! thread, let one of them fail, and build what a crash would have left on the disk (`watch`, with the feature `record`). Without the
//! feature each function is the bare system call, repeated after `EINTR`.

mod call;
#[cfg(feature = "record")]
mod record;

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    io::{IoSlice, Read, Seek},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, CWD, Dir, Gid, Mode, OFlags, RenameFlags, Stat, Timestamps, Uid, XattrFlags},
    io::Errno,
};

pub use call::Call;
#[cfg(feature = "record")]
pub use record::{Watch, boot, identity_of, watch};

/// Makes a call, again while signals interrupt it.
fn call<T>(what: &Call<'_>, mut real: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        let made = before(what).and_then(|()| real());
        match made {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(made) => {
                after(what, None);
                return Ok(made);
            }
        }
    }
}

#[cfg(feature = "record")]
use record::{after, before};

#[cfg(not(feature = "record"))]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "a watcher may refuse the call")]
fn before(_: &Call<'_>) -> rustix::io::Result<()> {
    Ok(())
}

#[cfg(not(feature = "record"))]
#[inline]
fn after(_: &Call<'_>, _: Option<std::os::fd::BorrowedFd<'_>>) {}

/// Opens `name` in `directory` (`openat`), closed when another program is executed.
pub fn open_at(directory: impl AsFd, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let (directory, flags) = (directory.as_fd(), flags | OFlags::CLOEXEC);
    let what = Call::Open { directory, name, flags, mode };
    loop {
        match before(&what).and_then(|()| rustix::fs::openat(directory, name, flags, mode)) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(made) => {
                after(&what, Some(made.as_fd()));
                return Ok(made);
            }
        }
    }
}

/// Opens the file at `path`.
pub fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    open_at(CWD, path, flags, mode)
}

/// Writes `bytes` at `offset`.
pub fn write_all_at(file: impl AsFd, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_parts_at(file, &[bytes], offset)
}

/// Writes `parts` one after the other, at `offset`.
pub fn write_parts_at(file: impl AsFd, parts: &[&[u8]], offset: u64) -> io::Result<()> {
    let file = file.as_fd();
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut slices = slices.as_mut_slice();
    let mut at = offset;
    let what = Call::Write { file, offset, parts };
    while slices.iter().any(|slice| !slice.is_empty()) {
        match before(&what).and_then(|()| rustix::io::pwritev(file, slices, at)) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += written as u64;
                IoSlice::advance_slices(&mut slices, written);
            }
        }
    }
    after(&what, None);
    Ok(())
}

/// Fills `into` from `offset` on.
pub fn read_exact_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
    look_at(file)?;
    file.read_exact_at(into, offset)
}

/// Fills `into` from `offset` on as far as the file goes, and returns how many bytes there were.
pub fn read_at(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    look_at(file)?;
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Reads a file from its beginning to its end.
pub fn read_to_end(mut file: &File) -> io::Result<Vec<u8>> {
    look_at(file)?;
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn look_at(file: &File) -> io::Result<()> {
    call(&Call::Read { file: file.as_fd() }, || Ok(()))
}

/// Cuts or extends a file to `len` bytes.
pub fn set_len(file: impl AsFd, len: u64) -> io::Result<()> {
    let file = file.as_fd();
    call(&Call::SetLen { file, len }, || rustix::fs::ftruncate(file, len))
}

/// Waits until the bytes of a file, and what is needed to read them, are on the disk.
pub fn sync_data(file: impl AsFd) -> io::Result<()> {
    let file = file.as_fd();
    call(&Call::Sync { file }, || rustix::fs::fdatasync(file))
}

/// Waits until a file with all that is known of it, or the names in a directory, are on the disk.
pub fn sync_all(file: impl AsFd) -> io::Result<()> {
    let file = file.as_fd();
    call(&Call::Sync { file }, || rustix::fs::fsync(file))
}

/// Gives what is `from` in one directory the name `to` in another, in place of a file that has it.
pub fn rename_at(
    from_directory: impl AsFd,
    from: &Path,
    to_directory: impl AsFd,
    to: &Path,
) -> io::Result<()> {
    let (from_directory, to_directory) = (from_directory.as_fd(), to_directory.as_fd());
    let what = Call::Rename { from_directory, from, to_directory, to };
    call(&what, || rustix::fs::renameat(from_directory, from, to_directory, to))
}

/// Gives the file `from` of `directory` the name `to`; the error `EEXIST` where something has it.
///
/// A file system without `RENAME_NOREPLACE` gets a hard link and the removal of the old name; one without hard links, a plain rename
/// after a check.
pub fn rename_new_at(directory: impl AsFd, from: &Path, to: &Path) -> io::Result<()> {
    let directory = directory.as_fd();
    let what = Call::Rename { from_directory: directory, from, to_directory: directory, to };
    let renamed =
        call(&what, || rustix::fs::renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE));
    match renamed {
        Err(error) if is_unsupported(&error) => {}
        renamed => return renamed,
    }
    match link_at(directory, from, to) {
        Ok(()) => remove_at(directory, from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A network file system may have lost the answer to a call that it had made.
            let (own, found) = (stat_at(directory, from)?, stat_at(directory, to)?);
            if own.st_ino == found.st_ino && own.st_dev == found.st_dev {
                remove_at(directory, from)
            } else {
                Err(error)
            }
        }
        Err(error) if is_unsupported(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
            match stat_at(directory, to) {
                Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    rename_at(directory, from, directory, to)
                }
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// True where a file system does not know a call.
fn is_unsupported(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Gives the file `from` of `directory` a second name `to`; an error where something has it.
pub fn link_at(directory: impl AsFd, from: &Path, to: &Path) -> io::Result<()> {
    let directory = directory.as_fd();
    call(&Call::Link { directory, from, to }, || {
        rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())
    })
}

/// Removes the file `name` of `directory`.
pub fn remove_at(directory: impl AsFd, name: &Path) -> io::Result<()> {
    let directory = directory.as_fd();
    let what = Call::Remove { directory, name, is_directory: false };
    call(&what, || rustix::fs::unlinkat(directory, name, AtFlags::empty()))
}

/// Removes the directory `name` of `directory`, which must be empty.
pub fn remove_directory_at(directory: impl AsFd, name: &Path) -> io::Result<()> {
    let directory = directory.as_fd();
    let what = Call::Remove { directory, name, is_directory: true };
    call(&what, || rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR))
}

/// Makes the directory `name` in `directory`.
pub fn make_directory_at(directory: impl AsFd, name: &Path, mode: Mode) -> io::Result<()> {
    let directory = directory.as_fd();
    call(&Call::MakeDirectory { directory, name }, || rustix::fs::mkdirat(directory, name, mode))
}

/// Makes the directory at `path` and those above it that are missing, for this user alone, and syncs their names.
pub fn make_directories(path: &Path) -> io::Result<()> {
    match make_directory_at(CWD, path, Mode::RWXU) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) if path.is_dir() => return Ok(()),
        made => return made.and_then(|()| sync_name_of(path)),
    }
    if let Some(above) = path.parent() {
        make_directories(above)?;
    }
    match make_directory_at(CWD, path, Mode::RWXU) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.and_then(|()| sync_name_of(path)),
    }
}

/// Waits until the name of the directory at `path` is on the disk, where the file system syncs directories. Where this user may not read
/// the directory above it, the whole file system is synced.
pub fn sync_name_of(path: &Path) -> io::Result<()> {
    let open_directory = |path| open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match open_directory(above).and_then(sync_all) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_directory(path).and_then(sync_file_system)
        }
        synced => synced,
    }
}

/// Waits until all that was written to the file system of an open file is on the disk.
fn sync_file_system(file: impl AsFd) -> io::Result<()> {
    let file = file.as_fd();
    call(&Call::SyncFileSystem { file }, || rustix::fs::syncfs(file))
}

/// Makes the symbolic link `name` in `directory`, which leads to `target`.
pub fn symlink_at(target: &Path, directory: impl AsFd, name: &Path) -> io::Result<()> {
    let directory = directory.as_fd();
    call(&Call::Symlink { target, directory, name }, || rustix::fs::symlinkat(target, directory, name))
}

/// Sets the mode of an open file.
pub fn set_mode(file: impl AsFd, mode: Mode) -> io::Result<()> {
    let file = file.as_fd();
    call(&Call::SetMode { file, mode }, || rustix::fs::fchmod(file, mode))
}

/// Gives an open file to an owner and a group, each where it is named.
pub fn set_owner(file: impl AsFd, owner: Option<Uid>, group: Option<Gid>) -> io::Result<()> {
    let file = file.as_fd();
    call(&Call::SetOwner { file }, || rustix::fs::fchown(file, owner, group))
}

/// Sets the extended attribute `name` of an open file.
pub fn set_xattr(file: impl AsFd, name: &OsStr, value: &[u8]) -> io::Result<()> {
    let file = file.as_fd();
    let what = Call::SetXattr { file, name, value };
    call(&what, || rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()))
}

/// Removes the extended attribute `name` of an open file.
pub fn remove_xattr(file: impl AsFd, name: &OsStr) -> io::Result<()> {
    let file = file.as_fd();
    call(&Call::RemoveXattr { file, name }, || rustix::fs::fremovexattr(file, name))
}

/// The value of the extended attribute `name` of an open file, of at most `most` bytes; `None` if it has none.
pub fn xattr(file: impl AsFd, name: &OsStr, most: usize) -> io::Result<Option<Vec<u8>>> {
    let file = file.as_fd();
    xattr_value("fgetxattr", most, |value| rustix::fs::fgetxattr(file, name, value))
}

/// The value of the extended attribute `name` of the file at `path`, of at most `most` bytes; `None` if it has none.
pub fn path_xattr(path: &Path, name: &OsStr, most: usize) -> io::Result<Option<Vec<u8>>> {
    xattr_value("getxattr", most, |value| rustix::fs::getxattr(path, name, value))
}

fn xattr_value(
    what: &'static str,
    most: usize,
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0_u8; most];
    let len = call(&Call::Look { what }, || match read(&mut value) {
        Ok(len) => Ok(Some(len)),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    })?;
    Ok(len.map(|len| {
        value.truncate(len);
        value
    }))
}

/// The names of the extended attributes of the file at `path`, in at most `most` bytes; none where the file system has none.
pub fn path_xattr_names(path: &Path, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = vec![0_u8; most];
    let len = call(&Call::Look { what: "listxattr" }, || {
        match rustix::fs::listxattr(path, names.as_mut_slice()) {
            Err(Errno::OPNOTSUPP) => Ok(0),
            listed => listed,
        }
    })?;
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
}

/// Sets the times of `name` in `directory`, of the link itself where it is one.
pub fn set_link_times_at(directory: impl AsFd, name: &Path, times: &Timestamps) -> io::Result<()> {
    let directory = directory.as_fd();
    let what = Call::SetTimes { file: directory };
    call(&what, || rustix::fs::utimensat(directory, name, times, AtFlags::SYMLINK_NOFOLLOW))
}

/// Status of an open file (`fstat`).
pub fn stat(file: impl AsFd) -> io::Result<Stat> {
    let file = file.as_fd();
    call(&Call::Look { what: "fstat" }, || rustix::fs::fstat(file))
}

/// Status of `name` in `directory` (`fstatat`); a link is not followed.
pub fn stat_at(directory: impl AsFd, name: &Path) -> io::Result<Stat> {
    let directory = directory.as_fd();
    call(&Call::Look { what: "fstatat" }, || rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW))
}

/// Status of the file at `path` (`stat`), links followed.
pub fn stat_path(path: &Path) -> io::Result<Stat> {
    call(&Call::Look { what: "stat" }, || rustix::fs::stat(path))
}

/// Status of `name` in `directory` with the time of its birth (`statx`), or of the open file `directory` with `EMPTY_PATH`.
#[cfg(target_os = "linux")]
pub fn statx(
    directory: impl AsFd,
    name: &Path,
    flags: AtFlags,
    wanted: rustix::fs::StatxFlags,
) -> io::Result<rustix::fs::Statx> {
    let directory = directory.as_fd();
    call(&Call::Look { what: "statx" }, || rustix::fs::statx(directory, name, flags, wanted))
}

/// The names in the directory `name` of `directory`; a link is not followed.
pub fn names_in(directory: impl AsFd, name: &Path) -> io::Result<Vec<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut listed = Dir::new(open_at(directory, name, flags, Mode::empty())?)?;
    let mut names = Vec::new();
    call(&Call::Look { what: "getdents" }, || Ok(()))?;
    while let Some(entry) = listed.read() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Checks that the effective user has `access` to the file at `path`.
pub fn check_access(path: &Path, access: Access) -> io::Result<()> {
    call(&Call::Look { what: "faccessat" }, || rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS))
}

/// The absolute path of `path` without links.
pub fn canonicalize(path: &Path) -> io::Result<PathBuf> {
    call(&Call::Look { what: "realpath" }, || Ok(()))?;
    std::fs::canonicalize(path)
}

/// Target of the symbolic link `name` in `directory`.
pub fn read_link_at(directory: impl AsFd, name: &Path) -> io::Result<PathBuf> {
    let directory = directory.as_fd();
    let target =
        call(&Call::Look { what: "readlinkat" }, || rustix::fs::readlinkat(directory, name, Vec::new()))?;
    Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
}

#[cfg(all(test, feature = "record"))]
mod tests {
    use std::{cell::RefCell, fs, os::fd::BorrowedFd, rc::Rc};

    use super::*;

    /// A file system that knows no rename without replacement, and maybe no hard links.
    struct Poor {
        has_links: bool,
        renames: usize,
    }

    impl Watch for Poor {
        fn before(&mut self, call: &Call<'_>) -> rustix::io::Result<()> {
            match call {
                Call::Rename { .. } if self.renames == 0 => {
                    self.renames += 1;
                    Err(Errno::INVAL)
                }
                Call::Link { .. } if !self.has_links => Err(Errno::PERM),
                _ => Ok(()),
            }
        }

        fn after(&mut self, _: &Call<'_>, _: Option<BorrowedFd<'_>>) {}
    }

    #[test]
    fn a_file_gets_a_name_that_nothing_has_on_any_file_system_and_no_other() {
        for has_links in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let directory = File::open(folder.path()).unwrap();
            let path = |name: &str| folder.path().join(name);
            let publish = || {
                watch(Some(Rc::new(RefCell::new(Poor { has_links, renames: 0 }))));
                let renamed = rename_new_at(&directory, Path::new("from"), Path::new("to"));
                watch(None);
                renamed
            };
            fs::write(path("from"), "new").unwrap();
            publish().unwrap();
            assert_eq!((fs::read(path("to")).unwrap(), path("from").exists()), (b"new".to_vec(), false));
            fs::write(path("from"), "newer").unwrap();
            assert_eq!(publish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(path("to")).unwrap(), b"new");
            // The answer to an earlier link was lost.
            fs::remove_file(path("to")).unwrap();
            fs::hard_link(path("from"), path("to")).unwrap();
            assert_eq!(publish().is_ok(), has_links);
            assert_eq!(fs::read(path("to")).unwrap(), b"newer");
        }
    }
}
