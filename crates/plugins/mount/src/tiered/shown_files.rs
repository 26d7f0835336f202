//! The files of the folder that is shown, each read by the descriptor that it was opened by, whatever becomes of its name.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{FileOrigin, Locator, Origin, Source, SourceId};

use crate::fuse::origin_folder::OriginFolder;

/// How often a file is looked at that changes while it is opened.
const LOOKS: usize = 8;

/// The files of a folder that is held open.
#[derive(Debug)]
pub(crate) struct ShownFiles {
    /// The folder's path, which copies of its files are known by.
    path: PathBuf,
    pub(crate) folder: OriginFolder,
    files: FileOrigin,
}

/// A file that is open, what is known of it, and the same file as a source, all of one version.
#[derive(Debug)]
pub(crate) struct ShownFile {
    pub(crate) plain: File,
    pub(crate) found: Metadata,
    pub(crate) source: Arc<dyn Source>,
}

impl ShownFiles {
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        Ok(Self { folder: OriginFolder::open(&path)?, files: FileOrigin::new(), path })
    }

    /// Opens the file at `path` below the folder.
    pub(crate) fn open_below(&self, path: &Path) -> Result<ShownFile> {
        let at = Locator::from_path(self.path.join(path));
        let plain = self.folder.file(path).map_err(|error| Error::from_io(error).at(&at))?;
        for _ in 0..LOOKS {
            let found = plain.metadata().map_err(Error::from_io)?;
            let source = self.files.adopt(plain.try_clone().map_err(Error::from_io)?.into(), at.clone())?;
            if is_of(source.id(), &found) {
                return Ok(ShownFile { plain, found, source });
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "changes all the time").at(&at))
    }
}

impl Origin for ShownFiles {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        let path = at.to_path();
        let below = path.strip_prefix(&self.path).map_err(|_| {
            Error::new(ErrorKind::NotFound, "does not lie below the folder that is shown").at(at)
        })?;
        self.open_below(below).map(|opened| opened.source)
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        Err(Error::new(ErrorKind::Unsupported, "a folder that is shown is listed by its mount").at(under))
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.list(under).map(|_| Vec::new())
    }
}

/// True when `id` is of the file that was `found`.
fn is_of(id: &SourceId, found: &Metadata) -> bool {
    let changed_ns = found.ctime().saturating_mul(1_000_000_000).saturating_add(found.ctime_nsec());
    id.len == found.len()
        && id.version.file.is_none_or(|file| file.inode == found.ino() && file.changed_ns == changed_ns)
}
