//! The names by which processes of a run find files that are still in the area.
//!
//! ```text
//! RUN/staged/                     in the folder of the run, which is private to the user
//!     lock                        held while a name is made, moved or removed
//!     full-PROCESS                there while the area of a launcher takes no more files
//!     room-PROCESS                how much more programs may write to the files of a launcher ([`ProgramRoom`])
//!     open/DEVICE-INODE/NAME      a link to the image that programs write; the folder it is for, and its name there
//!     sealed/DEVICE-INODE/NAME    a link to the image that is on its way
//!     wanted/ID                   an image that somebody waits for
//!     moving/ID                   an image whose program copies it to its destination ([`MoveMark`])
//! ```
//!
//! Names are found without the lock: links are renamed into their places, and one that leads nowhere any more means that the file is
//! at its destination.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt, symlink},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use forebay_scratch::{LockMode, lock_within, nonce, unlock};
use forebay_source::{Error, Result};
use rustix::fs::AtFlags;

use crate::{program_move::MoveMark, program_room::ProgramRoom};

const FOLDER: &str = "staged";
const LOCK: &str = "lock";
const FULL: &str = "full-";
const WANTED: &str = "wanted";
const MOVING: &str = "moving";
/// A holder does a few system calls; where it is stopped, others that need no name of a staged file do without.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// Descriptors of ours in a program have numbers from here on.
const HIGH_NUMBERS: i32 = 128;

/// Which folder a name is in, whatever paths lead to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FolderKey {
    device: u64,
    inode: u64,
}

impl FolderKey {
    /// The key of an open folder.
    pub fn of(folder: impl AsFd) -> Result<Self> {
        let facts = rustix::fs::fstat(folder).map_err(|errno| Error::from_io(errno.into()))?;
        Ok(Self { device: facts.st_dev, inode: facts.st_ino })
    }

    /// The key of the folder at `path`.
    pub fn at(path: &Path) -> Result<Self> {
        let facts =
            rustix::fs::stat(path).map_err(|errno| Error::from_io(errno.into()).at(path.display()))?;
        Ok(Self { device: facts.st_dev, inode: facts.st_ino })
    }

    /// The key of the folder at `path`, relative to the open folder `folder`. No descriptor is needed for it.
    pub fn below(folder: impl AsFd, path: &OsStr) -> Result<Self> {
        let facts = rustix::fs::statat(folder, path, AtFlags::empty());
        let facts = facts.map_err(|errno| Error::from_io(errno.into()).at(Path::new(path).display()))?;
        Ok(Self { device: facts.st_dev, inode: facts.st_ino })
    }

    /// Whether files can be renamed from one folder to the other.
    pub fn is_on_same_device(&self, other: &Self) -> bool {
        self.device == other.device
    }

    fn name(&self) -> String {
        format!("{:x}-{:x}", self.device, self.inode)
    }
}

/// How far the image is that a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameState {
    /// Programs write it, or could open it to do so.
    Open,
    /// It is on its way to its destination and does not change any more.
    Sealed,
}

impl NameState {
    fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sealed => "sealed",
        }
    }
}

/// An image that a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedImage {
    /// The path of the image in the area.
    pub image: PathBuf,
    /// How far it is.
    pub state: NameState,
}

/// The names of staged files of one run.
#[derive(Clone, Debug)]
pub struct ProgramNames {
    folder: PathBuf,
}

/// Keeps other processes from changing names, until it is dropped.
#[derive(Debug)]
pub struct NamesLock {
    file: File,
}

impl Drop for NamesLock {
    fn drop(&mut self) {
        // A child that was forked meanwhile has the same open file, and would hold the lock.
        unlock(&self.file);
    }
}

impl ProgramNames {
    /// Those of the run whose folder is `run`.
    pub fn of_run(run: &Path) -> Self {
        Self { folder: run.join(FOLDER) }
    }

    /// Makes what they are kept in.
    pub fn create(&self) -> Result<()> {
        for name in [NameState::Open.word(), NameState::Sealed.word(), WANTED, MOVING] {
            make_folder(&self.folder.join(name))?;
        }
        let path = self.folder.join(LOCK);
        let made = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        made.map(drop).map_err(|error| Error::from_io(error).at(path.display()))
    }

    /// Removes them, with the run: all at once for programs that go on, which would find the lock and not that no more files are taken. What
    /// one that was killed meanwhile has left goes too.
    pub fn remove(run: &Path) {
        let _ = fs::rename(run.join(FOLDER), run.join(format!("{FOLDER}-{:016x}", nonce())));
        for entry in fs::read_dir(run).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(FOLDER.as_bytes()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    /// Keeps other processes from changing names.
    pub fn lock(&self) -> Result<NamesLock> {
        let path = self.folder.join(LOCK);
        let at = |error: Error| error.at(path.display());
        let file = File::options().write(true).open(&path).map_err(|error| at(Error::from_io(error)))?;
        // The file that a program is about to open gets the lowest number that is free.
        let file = rustix::io::fcntl_dupfd_cloexec(&file, HIGH_NUMBERS).map_or(file, File::from);
        lock_within(&file, LockMode::Exclusive, LOCK_LIMIT).map_err(at)?;
        Ok(NamesLock { file })
    }

    fn folder_of(&self, state: NameState, key: FolderKey) -> PathBuf {
        self.folder.join(state.word()).join(key.name())
    }

    /// The image that `name` in `folder` leads to, in this state.
    pub fn image(&self, state: NameState, folder: FolderKey, name: &OsStr) -> Option<PathBuf> {
        fs::read_link(self.folder_of(state, folder).join(name)).ok()
    }

    /// The newest image that `name` in `folder` leads to.
    pub fn find(&self, folder: FolderKey, name: &OsStr) -> Option<NamedImage> {
        let found = |state| Some(NamedImage { image: self.image(state, folder, name)?, state });
        found(NameState::Open).or_else(|| found(NameState::Sealed))
    }

    /// Has `name` in `folder` lead to `image`, which programs write.
    pub fn set(&self, folder: FolderKey, name: &OsStr, image: &Path) -> Result<()> {
        self.link(NameState::Open, folder, name, image)
    }

    fn link(&self, state: NameState, folder: FolderKey, name: &OsStr, image: &Path) -> Result<()> {
        let place = self.folder_of(state, folder);
        let temporary = self.folder.join(format!("link-{:016x}", nonce()));
        let linked = || -> std::io::Result<()> {
            symlink(image, &temporary)?;
            if fs::rename(&temporary, place.join(name)).is_ok() {
                return Ok(());
            }
            // Not what it is in: where that is gone, the run is over.
            let made = fs::DirBuilder::new().mode(0o700).create(&place);
            made.or_else(|error| if place.is_dir() { Ok(()) } else { Err(error) })?;
            fs::rename(&temporary, place.join(name))
        };
        linked().map_err(|error| {
            let _ = fs::remove_file(&temporary);
            Error::from_io(error).at(place.display())
        })
    }

    /// Says that `image` is on its way, if `name` in `folder` leads to it; gives the older version that the name led to as one that is.
    pub(crate) fn seal(&self, folder: FolderKey, name: &OsStr, image: &Path) -> Result<Option<PathBuf>> {
        if self.image(NameState::Open, folder, name).as_deref() != Some(image) {
            return Ok(None);
        }
        let older = self.image(NameState::Sealed, folder, name);
        // First the new one: whoever looks for the name in between finds one of the two.
        self.link(NameState::Sealed, folder, name, image)?;
        self.remove_name(NameState::Open, folder, name, image);
        Ok(older)
    }

    /// Says that `image` could not be sent on its way, if `name` in `folder` leads to it as one that is; `older` is what [`seal`](Self::seal)
    /// gave.
    pub(crate) fn unseal(&self, folder: FolderKey, name: &OsStr, image: &Path, older: Option<&Path>) {
        let is_sealed = self.image(NameState::Sealed, folder, name).as_deref() == Some(image);
        if !is_sealed || self.link(NameState::Open, folder, name, image).is_err() {
            return;
        }
        // The older version is still on its way: who removes the name has to wait for it.
        let is_back = older.is_some_and(|older| self.link(NameState::Sealed, folder, name, older).is_ok());
        if !is_back {
            self.remove_name(NameState::Sealed, folder, name, image);
        }
    }

    /// Has `name` in `folder` not lead to `image` any more.
    pub fn remove_name(&self, state: NameState, folder: FolderKey, name: &OsStr, image: &Path) {
        if self.image(state, folder, name).as_deref() == Some(image) {
            let _ = fs::remove_file(self.folder_of(state, folder).join(name));
        }
    }

    /// The names in `folder`, and the images that they lead to.
    pub fn in_folder(&self, folder: FolderKey) -> Vec<(OsString, NamedImage)> {
        let states = [NameState::Open, NameState::Sealed];
        states.iter().flat_map(|state| names_in(&self.folder_of(*state, folder), *state)).collect()
    }

    /// Whether files for `folder` may have names. No descriptor is needed for it.
    pub fn may_have_any_in(&self, folder: FolderKey) -> bool {
        [NameState::Open, NameState::Sealed].iter().any(|state| self.folder_of(*state, folder).exists())
    }

    /// All images that names lead to.
    pub fn all(&self) -> Vec<(OsString, NamedImage)> {
        let mut found = Vec::new();
        for state in [NameState::Open, NameState::Sealed] {
            for folder in fs::read_dir(self.folder.join(state.word())).into_iter().flatten().flatten() {
                found.extend(names_in(&folder.path(), state));
            }
        }
        found
    }

    /// Says that a program copies the image `id` to its destination. Called with the names locked.
    pub fn mark_moving(&self, id: &str) -> Result<MoveMark> {
        MoveMark::set(self.folder.join(MOVING).join(id))
    }

    /// Whether a program copies the image `id` to its destination. Asked with the names locked.
    pub fn is_moving(&self, id: &str) -> bool {
        MoveMark::is_set(&self.folder.join(MOVING).join(id))
    }

    /// Asks for the image `id` to be brought to its destination at once.
    pub fn want(&self, id: &str) -> Result<()> {
        let path = self.folder.join(WANTED).join(id);
        File::create(&path).map(drop).map_err(|error| Error::from_io(error).at(path.display()))
    }

    /// Whether nobody has looked at the wish for `id` yet.
    pub fn is_wanted(&self, id: &str) -> bool {
        self.folder.join(WANTED).join(id).exists()
    }

    /// Forgets the wish for `id`.
    pub fn unwant(&self, id: &str) {
        let _ = fs::remove_file(self.folder.join(WANTED).join(id));
    }

    /// The images that are wanted.
    pub(crate) fn wanted(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.join(WANTED)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// The room for images in the folder `images`.
    pub fn room(&self, images: &Path) -> ProgramRoom {
        ProgramRoom::beside(&self.folder, images)
    }

    /// Whether the launcher that has the folder `images` takes no more files, or the run is over.
    pub fn is_full(&self, images: &Path) -> bool {
        self.full_of(images).exists() || !self.folder.join(LOCK).exists()
    }

    pub(crate) fn set_full(&self, images: &Path, is_full: bool) {
        let path = self.full_of(images);
        let _ = if is_full { File::create(&path).map(drop) } else { fs::remove_file(&path) };
    }

    /// Each launcher of a run has a file of its own: one that ends takes no more files, and others go on.
    fn full_of(&self, images: &Path) -> PathBuf {
        let mut name = OsString::from(FULL);
        name.push(images.file_name().unwrap_or_default());
        self.folder.join(name)
    }
}

fn make_folder(path: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Error::from_io(error).at(path.display()))
}

fn names_in(folder: &Path, state: NameState) -> Vec<(OsString, NamedImage)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| {
        let image = fs::read_link(entry.path()).ok()?;
        Some((entry.file_name(), NamedImage { image, state }))
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_image_that_is_written_before_one_that_is_on_its_way() {
        let run = tempfile::tempdir().unwrap();
        let names = ProgramNames::of_run(run.path());
        names.create().unwrap();
        let (key, name) = (FolderKey::at(run.path()).unwrap(), OsStr::new("a.pt"));
        assert_eq!(names.find(key, name), None);
        let (one, two) = (Path::new("/area/1.data"), Path::new("/area/2.data"));
        names.set(key, name, one).unwrap();
        names.seal(key, name, two).unwrap();
        assert_eq!(names.image(NameState::Sealed, key, name), None, "it leads to another image");
        names.seal(key, name, one).unwrap();
        assert_eq!(names.find(key, name).unwrap().state, NameState::Sealed);
        names.set(key, name, two).unwrap();
        assert_eq!(names.find(key, name).unwrap(), NamedImage { image: two.into(), state: NameState::Open });
        assert_eq!(names.in_folder(key).len(), 2);
        names.remove_name(NameState::Sealed, key, name, two);
        assert_eq!(
            names.seal(key, name, two).unwrap().as_deref(),
            Some(one),
            "an older version is on its way"
        );
        names.unseal(key, name, two, Some(one));
        assert_eq!(names.image(NameState::Sealed, key, name).as_deref(), Some(one));
        assert_eq!(names.image(NameState::Open, key, name).as_deref(), Some(two));
        names.remove_name(NameState::Sealed, key, name, one);
        assert_eq!(names.all().len(), 1);
        names.seal(key, name, two).unwrap();
        names.unseal(key, name, two, None);
        assert_eq!(names.find(key, name).unwrap().state, NameState::Open);
        let _lock = names.lock().unwrap();
        ProgramNames::remove(run.path());
        assert_eq!(names.find(key, name), None);
    }

    #[test]
    fn a_launcher_that_takes_no_more_files_does_not_speak_for_others() {
        let run = tempfile::tempdir().unwrap();
        let names = ProgramNames::of_run(run.path());
        names.create().unwrap();
        let (one, two) = (Path::new("/area/p-1"), Path::new("/area/p-2"));
        names.set_full(one, true);
        assert!(names.is_full(one) && !names.is_full(two));
        names.set_full(two, true);
        names.set_full(two, false);
        assert!(names.is_full(one) && !names.is_full(two));
        ProgramNames::remove(run.path());
        assert!(names.is_full(two), "the run is over");
        assert_eq!(std::fs::read_dir(run.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_image_is_moving_until_its_mark_is_dropped_and_names_are_free_meanwhile() {
        let run = tempfile::tempdir().unwrap();
        let names = ProgramNames::of_run(run.path());
        names.create().unwrap();
        let lock = names.lock().unwrap();
        assert!(!names.is_moving("a"));
        let mark = names.mark_moving("a").unwrap();
        drop(lock);
        let _lock = names.lock().unwrap();
        assert!(names.is_moving("a") && !names.is_moving("b"));
        assert_eq!(names.mark_moving("a").unwrap_err().kind(), forebay_source::ErrorKind::Unavailable);
        drop(mark);
        assert!(!names.is_moving("a"));
        // What a process that was killed has left marks nothing.
        std::fs::write(names.folder.join(MOVING).join("a"), "").unwrap();
        assert!(!names.is_moving("a"));
        drop(names.mark_moving("a").unwrap());
    }
}
