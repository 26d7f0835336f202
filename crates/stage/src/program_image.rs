//! A new file that programs write by descriptors of their own, in the folder of a process that brings it to its destination.
//!
//! It is an item as any other: a journal and an image. Programs make both; the process that has the folder takes the item over once
//! nobody has the image open for writing ([`ProgramImages`](crate::ProgramImages)).

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_scratch::{OwnFolder, SharedFile, boot_id};
use forebay_source::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};

use crate::{
    image_state::image_name,
    item_name::create_id,
    journal::Journal,
    publish::dress_as,
    room::{journal_name, sync_folder, write_journal},
    status::{ItemKind, ItemState},
    survey::{PROCESS_LOCK, read_journal},
};

/// An image that programs write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramImage {
    folder: PathBuf,
    id: String,
}

impl ProgramImage {
    /// One for `destination` in `folder`; nothing is made yet.
    pub fn new(folder: &Path, destination: &Path) -> Self {
        Self { folder: folder.to_owned(), id: create_id(destination) }
    }

    /// The one whose image lies at `path`.
    pub fn at(path: &Path) -> Option<Self> {
        let id = path.file_name()?.to_str()?.strip_suffix(".data")?;
        Some(Self { folder: path.parent()?.to_owned(), id: id.to_owned() })
    }

    /// Its name in the area.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where the image lies.
    pub fn path(&self) -> PathBuf {
        self.folder.join(image_name(&self.id))
    }

    fn own(&self) -> Result<OwnFolder> {
        OwnFolder::open(&self.folder)
    }

    fn journal(&self) -> Result<Journal> {
        read_journal(&self.own()?, &self.id)
    }

    /// Writes the journal that leads from the image, as it is handed to a program, to `destination`, an absolute path without links.
    pub fn note_destination(&self, destination: &Path) -> Result<()> {
        let facts = fs::symlink_metadata(self.path()).map_err(Error::from_io)?;
        self.note(destination, Some((facts.uid(), facts.gid())))
    }

    fn note(&self, destination: &Path, begun_as: Option<(u32, u32)>) -> Result<()> {
        let mut journal = Journal::new(ItemKind::Create, destination, boot_id());
        (journal.is_shared, journal.begun_as) = (true, begun_as);
        write_journal(&self.own()?, &self.id, &journal, false)
    }

    /// Where it goes, and how far it is; nothing where it is there by now, or was given up.
    pub fn status(&self) -> Option<(PathBuf, ItemState)> {
        let journal = self.journal().ok()?;
        Some((journal.destination(), journal.state))
    }

    /// The same image for another destination as well, until one of the two is [given up](Self::discard).
    pub fn also_for(&self, destination: &Path) -> Result<Self> {
        let (own, other) = (self.own()?, Self::new(&self.folder, destination));
        let begun_as = self.journal()?.begun_as;
        own.link(image_name(&self.id), image_name(&other.id))?;
        if let Err(error) = other.note(destination, begun_as) {
            other.discard();
            return Err(error);
        }
        Ok(other)
    }

    /// Gives `copy`, a file with the bytes of `image`, which this one is, its mode, times and extended attributes.
    pub fn dress(&self, image: &File, copy: &File) -> Result<()> {
        let facts = image.metadata().map_err(Error::from_io)?;
        dress_as(copy, image, self.journal()?.begun_as, facts.permissions().mode() & 0o7777)
    }

    /// Gives it up; descriptors of it stay open.
    pub fn discard(&self) {
        for name in [journal_name(&self.id), image_name(&self.id)] {
            let _ = fs::remove_file(self.folder.join(name));
        }
    }

    /// Syncs journal and names, so that `recover` finds the image after the machine went down.
    pub fn sync(&self) -> Result<()> {
        let own = self.own()?;
        let journal = own.open_to_read(journal_name(&self.id))?;
        journal.sync_all().map_err(Error::from_io)?;
        sync_folder(&own)
    }

    /// Whether the process that brings it to its destination is there.
    pub fn has_drainer(folder: &Path) -> bool {
        let Ok(own) = OwnFolder::open(folder) else { return false };
        SharedFile::deserted(&Arc::new(own), PROCESS_LOCK).is_none()
    }
}

/// The image of item `id`: it has the mode that its program gave it, in a folder that is private.
pub(crate) fn open_image(folder: &OwnFolder, id: &str) -> Result<File> {
    let name = image_name(id);
    let at = |error: Error| error.at(folder.path().join(&name).display());
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(folder.descriptor(), name.as_str(), flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| at(Error::from_io(errno.into())))?);
    if crate::stamp::is_regular(&file) {
        Ok(file)
    } else {
        Err(at(Error::new(ErrorKind::Denied, "is not a file of ours")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_gets_another_destination_and_is_given_up() {
        let outer = tempfile::tempdir().unwrap();
        let own = OwnFolder::create_in(outer.path(), "p-1").unwrap();
        let image = ProgramImage::new(own.path(), Path::new("/d/x.tmp"));
        fs::write(image.path(), "bytes").unwrap();
        image.note_destination(Path::new("/d/x.tmp")).unwrap();
        assert_eq!(ProgramImage::at(&image.path()), Some(image.clone()));
        let renamed = image.also_for(Path::new("/d/x")).unwrap();
        assert_eq!(image.status(), Some((PathBuf::from("/d/x.tmp"), ItemState::Open)));
        image.discard();
        assert_eq!(renamed.status(), Some((PathBuf::from("/d/x"), ItemState::Open)));
        assert_eq!((image.status(), fs::read(renamed.path()).unwrap()), (None, b"bytes".to_vec()));
        renamed.sync().unwrap();
        renamed.discard();
        assert_eq!(own.names().unwrap(), Vec::<String>::new());
    }
}
