//! The files under a folder.

use std::{
    fs::{self, DirEntry, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use forebay_process::{Error, ErrorKind, Event, EventKind, Result, descriptors::retry_when_exhausted};
use rustix::io::Errno;

use crate::locator::Locator;

/// The regular files under `folder` at any depth, sorted, named from `name` on; a file is a list of itself.
///
/// Links are followed, but never into a folder they lie in. Folders that may not be looked into are left out with a
/// warning; `folder` itself must be readable.
pub(crate) fn files_under(folder: &Path, name: &Path) -> Result<Vec<Locator>> {
    let metadata = fs::metadata(folder).map_err(Error::from_io)?;
    if metadata.is_file() {
        return Ok(vec![Locator::from_path(name)]);
    }
    if !metadata.is_dir() {
        return Err(Error::new(ErrorKind::Invalid, "neither a file nor a folder"));
    }
    let mut walk = FolderWalk::default();
    walk.enter(folder, name, &metadata).map_err(|error| Error::from_io(error).at(folder.display()))?;
    walk.denied.warn(folder, "that may not be looked into");
    walk.found.sort_unstable();
    Ok(walk.found)
}

#[derive(Default)]
struct FolderWalk {
    /// Device and inode of each folder from the first down to the current one.
    within: Vec<(u64, u64)>,
    found: Vec<Locator>,
    denied: OmittedPaths,
}

/// What a list leaves out.
#[derive(Default)]
struct OmittedPaths {
    count: u64,
    first: Option<PathBuf>,
}

impl OmittedPaths {
    fn add(&mut self, path: &Path) {
        self.count += 1;
        self.first.get_or_insert_with(|| path.to_owned());
    }

    fn warn(&self, folder: &Path, why: &str) {
        if let Some(first) = &self.first {
            let (folder, count, first) = (folder.display(), self.count, first.display());
            let text = format!("{folder}: {count} left out {why}, such as '{first}'");
            Event::new(EventKind::List, text).about(folder).emit();
        }
    }
}

impl FolderWalk {
    /// Lists `folder`; the error is that of looking into this very folder.
    fn enter(&mut self, folder: &Path, name: &Path, metadata: &Metadata) -> io::Result<()> {
        let identity = (metadata.dev(), metadata.ino());
        if self.within.contains(&identity) {
            return Ok(());
        }
        let entries = retry_when_exhausted(|| fs::read_dir(folder))?;
        self.within.push(identity);
        for entry in entries {
            self.visit(&entry?, name)?;
        }
        self.within.pop();
        Ok(())
    }

    fn visit(&mut self, entry: &DirEntry, parent: &Path) -> io::Result<()> {
        let (path, name): (PathBuf, PathBuf) = (entry.path(), parent.join(entry.file_name()));
        // Most entries are plain files: the folder itself says so, without a look at each of them.
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            self.found.push(Locator::from_path(name));
            return Ok(());
        }
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return self.pass_over(&path, error),
        };
        if metadata.is_dir() {
            return match self.enter(&path, &name, &metadata) {
                Err(error) if is_absent(&error) => Ok(()),
                Err(error) => self.pass_over(&path, error),
                Ok(()) => Ok(()),
            };
        }
        if metadata.is_file() {
            self.found.push(Locator::from_path(name));
        }
        Ok(())
    }

    /// Leaves out what this user may not look into; any other error ends the list.
    fn pass_over(&mut self, path: &Path, error: io::Error) -> io::Result<()> {
        if error.kind() != io::ErrorKind::PermissionDenied {
            return Err(error);
        }
        self.denied.add(path);
        Ok(())
    }
}

/// True for a link that leads nowhere or in a circle, and for a name that went away meanwhile.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || Errno::from_io_error(error) == Some(Errno::LOOP)
}
