//! Files, directories and symbolic links held by `O_PATH` descriptors: what is done to one follows no link, whatever becomes of its
//! path meanwhile.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStringExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, Gid, Mode, OFlags, RenameFlags, Timestamps, Uid, chmodat, chownat, linkat,
        mkdirat, openat, readlinkat, renameat_with, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};

/// A name, a link or a directory itself, for its attributes.
pub(crate) const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A new file. Only its owner may open it until it has its permissions.
const NEW_FILE: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OF_OWNER: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file, directory or symbolic link, and its attributes when it was found.
#[derive(Debug)]
pub(crate) struct PinnedEntry {
    file: File,
    pub(crate) found: Metadata,
}

impl PinnedEntry {
    /// Takes a descriptor that was opened with [`NAME`].
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        let file = File::from(descriptor);
        Ok(Self { found: file.metadata()?, file })
    }

    /// The link in `/proc` that leads to the entry itself: many calls refuse an `O_PATH` descriptor.
    fn proc_link(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Opens the entry, which is a regular file or a directory.
    pub(crate) fn reopen(&self, flags: OFlags) -> io::Result<File> {
        Ok(openat(CWD, self.proc_link(), flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn link_target(&self) -> io::Result<PathBuf> {
        let target = readlinkat(&self.file, "", Vec::new())?;
        Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
    }

    /// Changes the owner of the entry, of a link that of the link.
    pub(crate) fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        Ok(chownat(&self.file, "", uid, gid, AtFlags::EMPTY_PATH)?)
    }

    /// Changes the permissions; symbolic links have none.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        if self.found.is_symlink() {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(chmodat(CWD, self.proc_link(), Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())?)
    }

    /// Changes the times, of a link those of the link.
    pub(crate) fn set_times(&self, times: &Timestamps) -> io::Result<()> {
        Ok(utimensat(CWD, self.proc_link(), times, AtFlags::empty())?)
    }

    /// Gives the entry another name, in the directory `folder`.
    pub(crate) fn link_to(&self, folder: &Self, name: &OsStr) -> io::Result<()> {
        Ok(linkat(CWD, self.proc_link(), &folder.file, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// Names in a directory that is held.
impl PinnedEntry {
    /// Finds the entry `name`, of a link the link.
    pub(crate) fn entry(&self, name: &OsStr) -> io::Result<Self> {
        Self::new(openat(&self.file, name, NAME, Mode::empty())?)
    }

    /// Creates a file and opens it for reading and writing, with mode 0600; an error where there is an entry of that name.
    pub(crate) fn create_file(&self, name: &OsStr) -> io::Result<File> {
        Ok(openat(&self.file, name, NEW_FILE, OF_OWNER)?.into())
    }

    /// Creates an empty directory with mode 0700.
    pub(crate) fn create_folder(&self, name: &OsStr) -> io::Result<Self> {
        mkdirat(&self.file, name, Mode::RWXU)?;
        let made = self.entry(name)?;
        // Whoever may rename here may have put another one in its place, which must not be given away.
        let is_new = made.found.is_dir() && made.is_ours() && made.is_empty()?;
        if is_new { Ok(made) } else { Err(Errno::STALE.into()) }
    }

    /// Creates a symbolic link.
    pub(crate) fn create_link(&self, name: &OsStr, target: &Path) -> io::Result<Self> {
        symlinkat(target, &self.file, name)?;
        let made = self.entry(name)?;
        let is_new = made.found.is_symlink() && made.is_ours() && made.link_target()? == target;
        if is_new { Ok(made) } else { Err(Errno::STALE.into()) }
    }

    /// Removes the name of a file, or with `AtFlags::REMOVEDIR` that of an empty directory.
    pub(crate) fn remove(&self, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        Ok(unlinkat(&self.file, name, flags)?)
    }

    /// Renames `name` to `new_name` in the directory `folder`.
    pub(crate) fn rename(
        &self,
        name: &OsStr,
        (folder, new_name): (&Self, &OsStr),
        flags: RenameFlags,
    ) -> io::Result<()> {
        Ok(renameat_with(&self.file, name, &folder.file, new_name, flags)?)
    }

    fn is_ours(&self) -> bool {
        self.found.uid() == rustix::process::geteuid().as_raw()
    }

    fn is_empty(&self) -> io::Result<bool> {
        let mut listed = Dir::new(self.reopen(OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        let others = listed.find(|entry| {
            entry.as_ref().map_or(true, |entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        });
        Ok(others.is_none())
    }
}
