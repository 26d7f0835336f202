//! The folder that is shown, held open: paths below it are walked by `openat2`, and no link is followed on the way.
//!
//! Links are the kernel's to follow: it asks for the text of one, and goes on from there by itself. A path that is walked here
//! is made of folders that were found one by one; where one of them is a link by now, the answer is `ESTALE`, after which the
//! kernel looks the names up again.

use std::{
    ffi::OsStr,
    fs::{File, Metadata},
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, StatVfs, openat, openat2},
    io::Errno,
};

use crate::fuse::pinned_entry::{NAME, PinnedEntry};

/// A folder on the way.
const STEP: OFlags = NAME.union(OFlags::DIRECTORY);
/// A file that may be a pipe by now, for whose writer nobody waits.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder that is held open, and what lies below it.
#[derive(Debug)]
pub(crate) struct OriginFolder {
    root: OwnedFd,
    /// False once the kernel, or a filter of system calls, does not know `openat2` (before Linux 5.6).
    has_openat2: AtomicBool,
}

impl OriginFolder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: openat(CWD, path, flags, Mode::empty())?, has_openat2: AtomicBool::new(true) })
    }

    /// The attributes of what is at `path`, of a link those of the link.
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(self.pin(path)?.found)
    }

    /// Holds what is at `path`, of a link the link.
    pub(crate) fn pin(&self, path: &Path) -> io::Result<PinnedEntry> {
        PinnedEntry::new(self.walk(path, NAME)?)
    }

    /// Where the link at `path` leads to.
    pub(crate) fn link_target(&self, path: &Path) -> io::Result<PathBuf> {
        self.pin(path)?.link_target()
    }

    /// Opens the file at `path` for reading.
    pub(crate) fn file(&self, path: &Path) -> io::Result<File> {
        self.walk(path, FILE).map(File::from)
    }

    /// Opens the folder at `path` for listing.
    pub(crate) fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        self.walk(path, FOLDER)
    }

    /// How large its file system is.
    pub(crate) fn statvfs(&self) -> io::Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(&self.root)?)
    }

    fn walk(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let opened = match self.at_once(path, flags) {
            Some(opened) => opened,
            None => self.step_by_step(path, flags),
        };
        match opened {
            // A link, or a file, where a folder was found before.
            Err(Errno::LOOP | Errno::NOTDIR) => Err(Errno::STALE.into()),
            opened => Ok(opened?),
        }
    }

    /// By one call of the kernel; nothing where it has none for that.
    fn at_once(&self, path: &Path, flags: OFlags) -> Option<rustix::io::Result<OwnedFd>> {
        if !self.has_openat2.load(Relaxed) {
            return None;
        }
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            return match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::INTR) => continue,
                Err(Errno::NOSYS) => {
                    self.has_openat2.store(false, Relaxed);
                    None
                }
                // A filter of system calls may answer so, and a kernel that saw a rename at the same time.
                Err(Errno::PERM | Errno::AGAIN) => None,
                opened => Some(opened),
            };
        }
    }

    /// By one call for each folder on the way.
    fn step_by_step(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut at: Option<OwnedFd> = None;
        let mut names = path.iter().peekable();
        let mut last = OsStr::new(".");
        while let Some(name) = names.next() {
            last = name;
            if names.peek().is_some() {
                at = Some(openat_whole(at.as_ref().unwrap_or(&self.root), name, STEP)?);
            }
        }
        openat_whole(at.as_ref().unwrap_or(&self.root), last, flags)
    }
}

/// Turns the error of a name that was good when the kernel was told of it into `ESTALE`: the kernel looks the name up again. The
/// file may have another one.
pub(crate) fn stale_if_gone(error: io::Error) -> fuser::Errno {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => fuser::Errno::ESTALE,
        _ => error.into(),
    }
}

/// `openat` that a signal does not end.
fn openat_whole(folder: impl AsFd, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    loop {
        match openat(&folder, name, flags, Mode::empty()) {
            Err(Errno::INTR) => {}
            opened => return opened,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, os::unix::fs::symlink};

    use super::*;

    fn is_stale<T>(found: io::Result<T>) -> bool {
        found.is_err_and(|error| error.raw_os_error() == Some(Errno::STALE.raw_os_error()))
    }

    /// A folder `set`, and a secret beside it.
    fn made() -> (tempfile::TempDir, [OriginFolder; 2]) {
        let around = tempfile::tempdir().unwrap();
        let set = around.path().join("set");
        fs::create_dir_all(set.join("deep/deeper")).unwrap();
        fs::write(set.join("deep/deeper/f"), "inside").unwrap();
        fs::write(around.path().join("secret"), "outside").unwrap();
        symlink(around.path(), set.join("absolute")).unwrap();
        symlink("..", set.join("upwards")).unwrap();
        symlink("deep", set.join("within")).unwrap();
        let folders = [true, false].map(|has_openat2| {
            let folder = OriginFolder::open(&set).unwrap();
            folder.has_openat2.store(has_openat2, Relaxed);
            folder
        });
        (around, folders)
    }

    #[test]
    fn what_lies_below_is_found_and_links_are_shown_as_links() {
        let (around, folders) = made();
        for folder in folders {
            let mut text = String::new();
            folder.file(Path::new("deep/deeper/f")).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside");
            assert!(folder.metadata(Path::new("")).unwrap().is_dir());
            assert!(folder.metadata(Path::new("within")).unwrap().is_symlink());
            assert_eq!(folder.link_target(Path::new("upwards")).unwrap(), Path::new(".."));
            assert_eq!(folder.link_target(Path::new("absolute")).unwrap(), around.path());
            let listed = rustix::fs::Dir::new(folder.folder(Path::new("deep")).unwrap()).unwrap();
            assert_eq!(listed.count(), 3, "with . and ..");
            assert!(folder.statvfs().unwrap().f_blocks > 0);
            let missing = folder.metadata(Path::new("deep/none")).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn no_link_is_followed_wherever_it_leads() {
        let (_around, folders) = made();
        for folder in folders {
            for way in ["absolute/secret", "upwards/secret", "within/deeper/f"] {
                assert!(is_stale(folder.metadata(Path::new(way))), "{way}");
                assert!(is_stale(folder.file(Path::new(way))), "{way}");
            }
            for way in ["absolute", "upwards", "within"] {
                assert!(is_stale(folder.file(Path::new(way))), "{way}");
                assert!(is_stale(folder.folder(Path::new(way))), "{way}");
            }
            assert!(is_stale(folder.file(Path::new("deep/deeper/f/x"))));
        }
    }

    #[test]
    fn a_folder_that_is_moved_is_the_same_folder() {
        let (around, [folder, _]) = made();
        fs::rename(around.path().join("set"), around.path().join("moved")).unwrap();
        assert!(folder.file(Path::new("deep/deeper/f")).is_ok());
    }
}
