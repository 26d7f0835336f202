//! Names of items, by which other processes find those for a file.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use forebay_process::Result;
use forebay_scratch::nonce;

use crate::{
    area::status::ItemKind,
    create::destination,
    on_disk::{journal::Journal, stamp::FileStamp},
};

/// The name of a new file's item: the checksum of its destination, and a number.
pub(crate) fn create_id(destination: &Path) -> String {
    format!("{}{:016x}", prefix_of(destination.as_os_str().as_bytes()), nonce())
}

/// The name of an update's item: the checksum of its file's number, as the file may get another name, and a number.
pub(crate) fn update_id(stamp: &FileStamp) -> String {
    format!("{}{:016x}", prefix_of(&stamp.inode.to_le_bytes()), nonce())
}

fn prefix_of(bytes: &[u8]) -> String {
    format!("{:08x}-", crc32c::crc32c(bytes))
}

/// A file whose items are looked for: new files are for its path, updates for the file that has it now.
#[derive(Clone, Debug)]
pub(crate) struct WantedFile {
    pub(crate) path: PathBuf,
    stamp: Option<FileStamp>,
}

impl WantedFile {
    /// The file at `path`, which may not be there yet.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let path = destination::resolve(path)?;
        let stamp = FileStamp::at(&path)?;
        Ok(Self { path, stamp })
    }

    /// The new files for `path`, which is resolved and need not lead anywhere by now.
    pub(crate) fn by_path(path: &Path) -> Self {
        Self { path: path.to_owned(), stamp: None }
    }

    /// Whether an item of this name can be for it.
    pub(crate) fn may_be(&self, id: &str) -> bool {
        let is_update = |stamp: &FileStamp| id.starts_with(&prefix_of(&stamp.inode.to_le_bytes()));
        id.starts_with(&prefix_of(self.path.as_os_str().as_bytes()))
            || self.stamp.as_ref().is_some_and(is_update)
    }

    /// Whether updates of a file with this stamp are updates of it.
    pub(crate) fn is(&self, stamp: &FileStamp) -> bool {
        self.stamp.is_some_and(|own| own.is_same_file(stamp))
    }

    /// Whether the item of `journal` is for it; of an update, with the stamp that its destination had.
    pub(crate) fn is_of(&self, journal: &Journal, stamp: Option<&FileStamp>) -> bool {
        match (journal.kind, stamp) {
            (ItemKind::Update, Some(stamp)) => self.is(stamp),
            // Without facts nothing was accepted yet: the name is all there is.
            (ItemKind::Update, None) | (ItemKind::Create, _) => journal.destination() == self.path,
        }
    }
}
