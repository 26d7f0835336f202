//! The files under a folder.

use std::{
    fs::{self, DirEntry, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{Error, ErrorKind, Locator, Result, descriptors::retry_when_exhausted};

/// The regular files under `folder` at any depth, sorted, named from `name` on; a file is a list of itself.
///
/// Links are followed, but never into a folder they lie in.
pub(crate) fn files_under(folder: &Path, name: &Path) -> Result<Vec<Locator>> {
    let metadata = fs::metadata(folder).map_err(Error::from_io)?;
    if metadata.is_file() {
        return Ok(vec![locator(name)?]);
    }
    if !metadata.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, "neither a file nor a folder"));
    }
    let mut walk = Walk { within: Vec::new(), found: Vec::new() };
    walk.enter(folder, name, &metadata)?;
    walk.found.sort_unstable();
    Ok(walk.found)
}

struct Walk {
    /// Device and inode of each folder from the first down to the current one.
    within: Vec<(u64, u64)>,
    found: Vec<Locator>,
}

impl Walk {
    fn enter(&mut self, folder: &Path, name: &Path, metadata: &Metadata) -> Result<()> {
        let identity = (metadata.dev(), metadata.ino());
        if self.within.contains(&identity) {
            return Ok(());
        }
        self.within.push(identity);
        let place = |error: io::Error| Error::from_io(error).at(folder.display());
        for entry in retry_when_exhausted(|| fs::read_dir(folder)).map_err(place)? {
            self.visit(&entry.map_err(place)?, name)?;
        }
        self.within.pop();
        Ok(())
    }

    fn visit(&mut self, entry: &DirEntry, parent: &Path) -> Result<()> {
        let (path, name): (PathBuf, PathBuf) = (entry.path(), parent.join(entry.file_name()));
        // Most entries are plain files: the folder itself says so, without a look at each of them.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            self.found.push(locator(&name)?);
            return Ok(());
        }
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // A link that leads nowhere or in a circle, or a name that went away meanwhile.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(());
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
                return Ok(());
            }
            Err(error) => return Err(Error::from_io(error).at(path.display())),
        };
        if metadata.is_dir() {
            return self.enter(&path, &name, &metadata);
        }
        if metadata.is_file() {
            self.found.push(locator(&name)?);
        }
        Ok(())
    }
}

fn locator(name: &Path) -> Result<Locator> {
    match name.to_str() {
        Some(name) => Ok(Locator::new(name)),
        None => Err(Error::new(ErrorKind::Invalid, "the name is not UTF-8").at(name.display())),
    }
}
