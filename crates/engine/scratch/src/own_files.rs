//! Folders of this user alone, and the files in them.
//!
//! A folder is opened once and checked by its descriptor; whatever is in it is then named relative to that descriptor
//! (`openat` and its like). Nobody who may rename what lies above the folder can lead us to another one, and links are
//! not followed.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::SystemTime,
};

use forebay_process::{
    Error, ErrorKind, Result,
    descriptors::{retry_when_exhausted, with_high_number},
};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{disk, facts::FileFacts};

/// A folder that belongs to this user and that nobody else can look into, held open.
///
/// Names are relative to the folder and lead to what is in it, or in a folder in it.
#[derive(Debug)]
pub struct OwnFolder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl OwnFolder {
    /// The folder `name` in `parent`, made if need be. A parent in which anyone may rename what is in it is refused.
    pub fn create_in(parent: &Path, name: &str) -> Result<Self> {
        let above = disk::stat_path(parent).map_err(|error| at(error, parent))?;
        if FileFacts::new(&above).is_open_to_renames() {
            let error = Error::new(ErrorKind::Denied, "anyone may rename what is in it");
            return Err(error.hint("make it sticky (chmod +t), or name another folder").at(parent.display()));
        }
        let path = parent.join(name);
        make_if_missing(rustix::fs::CWD, &path).map_err(|error| at(error, &path))?;
        Self::open(&path)
    }

    /// The folder at `path`, made if need be with those above it.
    pub fn create_all(path: &Path) -> Result<Self> {
        disk::make_directories(path).map_err(|error| at(error, path))?;
        Self::open(path)
    }

    /// The folder at `path`, which is not made where there is none.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_at(rustix::fs::CWD, path, path.to_owned())
    }

    /// The folder `name` in this one, made if need be.
    pub fn subfolder(&self, name: &str) -> Result<Self> {
        make_if_missing(&self.descriptor, Path::new(name)).map_err(|error| self.at(error, name))?;
        self.open_subfolder(name)
    }

    /// The folder `name` in this one, which is not made where there is none.
    pub fn open_subfolder(&self, name: &str) -> Result<Self> {
        Self::open_at(&self.descriptor, Path::new(name), self.path.join(name))
    }

    fn open_at(from: impl AsFd, name: &Path, path: PathBuf) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let not_ours =
            || Error::new(ErrorKind::Denied, "is not a folder of this user alone").at(path.display());
        let opened = retry_when_exhausted(|| disk::open_at(&from, name, flags, Mode::empty()));
        let descriptor = opened.and_then(with_high_number).map_err(|error| {
            // A link, or no folder at all.
            let is_other = [Errno::LOOP, Errno::NOTDIR].map(|errno| Some(errno.raw_os_error()));
            if is_other.contains(&error.raw_os_error()) {
                return not_ours();
            }
            Error::from_io(error).at(path.display())
        })?;
        let facts = FileFacts::of(&descriptor).map_err(|error| error.at(path.display()))?;
        if !facts.is_folder() || !facts.is_private() {
            return Err(not_ours());
        }
        Ok(Self { path, descriptor })
    }

    /// Where the folder was when it was opened: for messages, and for what opens files by their paths.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The descriptor of the folder.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// The file `name`, to be read; one that others could have made is refused.
    pub fn open_to_read(&self, name: impl AsRef<Path>) -> Result<File> {
        self.open_file(name.as_ref(), OFlags::RDONLY)
    }

    /// The file `name`, to be read and written, which is not made where there is none; one that others could have made is
    /// refused.
    pub fn open_existing(&self, name: impl AsRef<Path>) -> Result<File> {
        self.open_file(name.as_ref(), OFlags::RDWR)
    }

    /// The file `name`, made if need be, to be read and written; one that others could have made is refused.
    pub fn open_or_create(&self, name: impl AsRef<Path>) -> Result<File> {
        self.open_file(name.as_ref(), OFlags::RDWR | OFlags::CREATE)
    }

    /// A new file `name`, to be read and written; an error where there is one.
    pub fn create_new(&self, name: impl AsRef<Path>) -> Result<File> {
        self.open_file(name.as_ref(), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    fn open_file(&self, name: &Path, flags: OFlags) -> Result<File> {
        // A pipe that nobody writes to must not hold us; for a regular file the flag means nothing.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let opened = retry_when_exhausted(|| disk::open_at(&self.descriptor, name, flags, mode));
        let opened = opened.and_then(with_high_number).map_err(|error| self.at(error, name))?;
        let file = File::from(opened);
        let facts = FileFacts::of(&file).map_err(|error| error.at(self.path.join(name).display()))?;
        if !facts.is_file() || !facts.is_private() {
            let error = Error::new(ErrorKind::Denied, "belongs to another user");
            return Err(error.at(self.path.join(name).display()));
        }
        Ok(file)
    }

    /// The bytes of the file `name`; one that others could have made is refused.
    pub fn read(&self, name: impl AsRef<Path>) -> Result<Vec<u8>> {
        let name = name.as_ref();
        let file = self.open_to_read(name)?;
        disk::read_to_end(&file).map_err(|error| self.at(error, name))
    }

    /// What the kernel says of the file `name`; a link is not followed.
    pub fn facts(&self, name: impl AsRef<Path>) -> Result<FileFacts> {
        let name = name.as_ref();
        let stat = disk::stat_at(&self.descriptor, name);
        stat.map(|stat| FileFacts::new(&stat)).map_err(|error| self.at(error, name))
    }

    /// True while `name` leads to `file`, which may be a folder.
    pub fn is_named(&self, name: impl AsRef<Path>, file: impl AsFd) -> bool {
        match (self.facts(name), FileFacts::of(file)) {
            (Ok(named), Ok(own)) => named.identity == own.identity,
            _ => false,
        }
    }

    /// True when the folder itself was removed: nothing can be made in it any more.
    pub fn is_removed(&self) -> bool {
        FileFacts::of(&self.descriptor).is_ok_and(|facts| facts.name_count == 0)
    }

    /// The names of what is in the folder, in no order; those that are not UTF-8 are left out, as none of ours are so.
    pub fn names(&self) -> Result<Vec<String>> {
        self.names_in(Path::new("."))
    }

    /// The names of what is in the folder `name` of this one; a link is not followed.
    pub fn names_in(&self, name: impl AsRef<Path>) -> Result<Vec<String>> {
        let name = name.as_ref();
        let listed = retry_when_exhausted(|| disk::names_in(&self.descriptor, name));
        let names = listed.map_err(|error| self.at(error, name))?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Gives the file or folder `from` the name `to`, in place of a file that has it.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let renamed = disk::rename_at(&self.descriptor, from, &self.descriptor, to);
        renamed.map_err(|error| self.at(error, from))
    }

    /// Gives the file `from` a second name `to`; an error where something has it.
    pub fn link(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        disk::link_at(&self.descriptor, from, to).map_err(|error| self.at(error, to))
    }

    /// Removes the file `name`.
    pub fn remove_file(&self, name: impl AsRef<Path>) -> Result<()> {
        let name = name.as_ref();
        disk::remove_at(&self.descriptor, name).map_err(|error| self.at(error, name))
    }

    /// Removes the folder `name`, which must be empty.
    pub fn remove_folder(&self, name: impl AsRef<Path>) -> Result<()> {
        let name = name.as_ref();
        disk::remove_directory_at(&self.descriptor, name).map_err(|error| self.at(error, name))
    }

    /// Makes `bytes` the content of the file `name`, so that a reader sees all of it, or what was there before.
    ///
    /// Written under `name.PID-NANOSECONDS` and renamed; a writer that is killed leaves that name behind. Nothing is synced:
    /// after a power loss the content may be short.
    pub fn write_atomically(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let temporary = format!("{name}.{}-{}", std::process::id(), since_1970.as_nanos());
        let file = self.create_new(&temporary)?;
        let written = disk::write_all_at(&file, bytes, 0).map_err(|error| self.at(error, &temporary));
        let renamed = written.and_then(|()| self.rename(&temporary, name));
        if renamed.is_err() {
            let _ = self.remove_file(&temporary);
        }
        renamed
    }

    fn at(&self, error: io::Error, name: impl AsRef<Path>) -> Error {
        at(error, &self.path.join(name))
    }
}

fn make_if_missing(folder: impl AsFd, name: &Path) -> io::Result<()> {
    match disk::make_directory_at(folder, name, Mode::RWXU) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn at(error: io::Error, path: &Path) -> Error {
    Error::from_io(error).at(path.display())
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    use super::*;

    fn own() -> (tempfile::TempDir, OwnFolder) {
        let folder = tempfile::tempdir().unwrap();
        let own = OwnFolder::create_in(folder.path(), "own").unwrap();
        (folder, own)
    }

    #[test]
    fn a_folder_that_others_can_look_into_is_refused() {
        let (folder, own) = own();
        assert_eq!(fs::metadata(own.path()).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(own.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let error = OwnFolder::create_in(folder.path(), "own").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert_eq!(OwnFolder::create_all(own.path()).unwrap_err().kind(), ErrorKind::Denied);
    }

    #[test]
    fn a_folder_where_anyone_may_rename_is_refused_unless_it_is_sticky() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, is_taken) in [(0o777, false), (0o703, false), (0o1777, true), (0o775, true), (0o700, true)]
        {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let own = OwnFolder::create_in(folder.path(), "own");
            assert_eq!(own.is_ok(), is_taken, "{mode:o}");
            let Err(error) = own else { continue };
            assert_eq!(error.kind(), ErrorKind::Denied);
            assert!(error.to_string().contains("chmod +t"), "{error}");
        }
    }

    #[test]
    fn a_link_that_somebody_laid_is_not_followed() {
        let (folder, own) = own();
        symlink("/etc/passwd", own.path().join("lock")).unwrap();
        assert!(own.open_or_create("lock").is_err());
        assert!(own.open_or_create("other").is_ok());
        symlink(own.path(), folder.path().join("link")).unwrap();
        for refused in [OwnFolder::create_in(folder.path(), "link"), own.subfolder("lock")] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Denied);
        }
        assert!(own.names_in("lock").is_err());
    }

    #[test]
    fn a_file_that_others_may_read_or_that_is_a_pipe_is_refused() {
        let (_folder, own) = own();
        drop(own.create_new("file").unwrap());
        assert!(own.create_new("file").is_err() && own.open_existing("none").is_err());
        fs::set_permissions(own.path().join("file"), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(own.open_to_read("file").unwrap_err().kind(), ErrorKind::Denied);
        let made = std::process::Command::new("mkfifo").arg(own.path().join("pipe")).status().unwrap();
        assert!(made.success());
        assert!(own.open_to_read("pipe").is_err(), "nobody writes to it, and nobody waits for it");
    }

    #[test]
    fn a_folder_that_was_put_in_its_place_is_not_touched() {
        let (folder, own) = own();
        drop(own.create_new("file").unwrap());
        let victim = folder.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("file"), "precious").unwrap();
        fs::rename(own.path(), folder.path().join("moved")).unwrap();
        symlink(&victim, own.path()).unwrap();
        own.remove_file("file").unwrap();
        own.write_atomically("other", b"x").unwrap();
        assert_eq!(fs::read(victim.join("file")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
        assert_eq!(own.names().unwrap(), ["other"]);
    }

    #[test]
    fn a_file_is_written_whole_or_stays_as_it_was_and_no_leftovers_remain() {
        let (_folder, own) = own();
        for bytes in [&b"first"[..], b"second"] {
            own.write_atomically("entry", bytes).unwrap();
            assert_eq!(fs::read(own.path().join("entry")).unwrap(), bytes);
        }
        assert_eq!(own.facts("entry").unwrap().len, 6);
        fs::create_dir(own.path().join("taken")).unwrap();
        assert!(own.write_atomically("taken", b"x").is_err());
        let mut names = own.names().unwrap();
        names.sort();
        assert_eq!(names, ["entry", "taken"]);
    }

    #[test]
    fn a_name_leads_to_a_file_until_another_has_it() {
        let (_folder, own) = own();
        let file = own.create_new("a").unwrap();
        assert!(own.is_named("a", &file));
        own.link("a", "b").unwrap();
        assert!(own.link("a", "b").is_err(), "the name is taken");
        own.remove_file("a").unwrap();
        assert!(!own.is_named("a", &file) && own.is_named("b", &file));
        drop(own.create_new("a").unwrap());
        assert!(!own.is_named("a", &file));
    }
}
