//! Names of items, by which other processes find those for a file.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay_process::Result;
use forebay_scratch::nonce;

use crate::{
    area::status::ItemKind,
    create::destination::{self, directory_of},
    on_disk::{journal::Journal, stamp::FileStamp},
};

/// Where the checksum of the name in its directory begins in a new file's item.
const PLACE_AT: usize = 9;

/// The name of a new file's item: the checksums of its destination and of its name in its directory, which may get another path, and a
/// number.
pub(crate) fn create_id(destination: &Path, directory: &FileStamp) -> String {
    let path = prefix_of(destination.as_os_str().as_bytes());
    format!("{path}{}{:08x}", place_of(destination, directory), nonce() & u64::from(u32::MAX))
}

/// The name of an update's item: the checksum of its file's number, as the file may get another name, and a number.
pub(crate) fn update_id(stamp: &FileStamp) -> String {
    format!("{}{:016x}", prefix_of(&stamp.inode.to_le_bytes()), nonce())
}

fn place_of(path: &Path, directory: &FileStamp) -> String {
    let name = path.file_name().unwrap_or_default().as_bytes();
    format!("{:08x}", crc32c::crc32c_append(crc32c::crc32c(&directory.inode.to_le_bytes()), name))
}

fn prefix_of(bytes: &[u8]) -> String {
    format!("{:08x}-", crc32c::crc32c(bytes))
}

/// A file whose items are looked for: new files are for its name in the directory that has its path now, updates for the file that
/// has the path now.
#[derive(Clone, Debug)]
pub(crate) struct WantedFile {
    pub(crate) path: PathBuf,
    /// Nothing where any directory of that path is wanted.
    directory: Option<FileStamp>,
    stamp: Option<FileStamp>,
}

impl WantedFile {
    /// The file at `path`, which may not be there yet.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let path = destination::resolve(path)?;
        let stamp = FileStamp::at(&path)?;
        let directory = FileStamp::at(directory_of(&path))?;
        Ok(Self { path, directory, stamp })
    }

    /// The new files for `path`, which is resolved and need not lead anywhere by now.
    pub(crate) fn by_path(path: &Path) -> Self {
        Self { path: path.to_owned(), directory: None, stamp: None }
    }

    /// Whether an item of this name can be for it.
    pub(crate) fn may_be(&self, id: &str) -> bool {
        let is_update = |stamp: &FileStamp| id.starts_with(&prefix_of(&stamp.inode.to_le_bytes()));
        let is_beside = |directory: &FileStamp| {
            let place = place_of(&self.path, directory);
            id.get(PLACE_AT..).is_some_and(|rest| rest.starts_with(&place))
        };
        id.starts_with(&prefix_of(self.path.as_os_str().as_bytes()))
            || self.directory.as_ref().is_some_and(is_beside)
            || self.stamp.as_ref().is_some_and(is_update)
    }

    /// Whether updates of a file with this stamp are updates of it.
    pub(crate) fn is(&self, stamp: &FileStamp) -> bool {
        self.stamp.is_some_and(|own| own.is_same_file(stamp))
    }

    /// Whether a new file for `destination`, in the directory of this identity if it is known, is for it.
    pub(crate) fn is_new(&self, destination: &Path, directory: Option<&FileStamp>) -> bool {
        let has_path = self.path == destination;
        match (&self.directory, directory) {
            (Some(own), Some(theirs)) if has_path => own.may_be_same_directory(theirs),
            (Some(own), Some(theirs)) => {
                own.is_same_file(theirs) && self.path.file_name() == destination.file_name()
            }
            _ => has_path,
        }
    }

    /// Whether the item of `journal` is for it; of an update, with the stamp that its destination had.
    pub(crate) fn is_of(&self, journal: &Journal, stamp: Option<&FileStamp>) -> bool {
        match (journal.kind, stamp) {
            (ItemKind::Update, Some(stamp)) => self.is(stamp),
            // Without facts nothing was accepted yet: the name is all there is.
            (ItemKind::Update, None) => journal.destination() == self.path,
            (ItemKind::Create, _) => self.is_new(&journal.destination(), journal.directory.as_ref()),
        }
    }
}
