//! One run at a time generates files in a folder.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use forebay::{Error, ErrorKind, Result};

const NAME: &str = ".generating";

/// Keeps other runs from generating files in a folder while it lives; its file goes with it.
#[derive(Debug)]
pub(crate) struct GenerationLock {
    path: PathBuf,
    /// Locked, where the file system has locks.
    _file: File,
}

impl GenerationLock {
    /// Takes the lock of `folder`, which is made where it is missing.
    pub(crate) fn take(folder: &Path) -> Result<Self> {
        let place = |error: io::Error| match error.kind() {
            // A disk that cannot be written is to the run what a folder of others is.
            io::ErrorKind::ReadOnlyFilesystem => {
                Error::new(ErrorKind::Denied, "files cannot be written here")
                    .because(error)
                    .at(folder.display())
            }
            _ => Error::from_io(error).at(folder.display()),
        };
        fs::create_dir_all(folder).map_err(place)?;
        let path = folder.join(NAME);
        loop {
            let options = File::options().create(true).truncate(false).write(true).open(&path);
            let file = options.map_err(place)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let error = Error::new(ErrorKind::Unavailable, "another run generates files here");
                    return Err(error.at(folder.display()).hint("wait for it, or use another data folder"));
                }
                // A file system without locks: nothing is known of others.
                Err(TryLockError::Error(_)) => return Ok(Self { path, _file: file }),
            }
            // A run that ended just now has removed the file that was locked: others would lock the next.
            let number = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let locked = file.metadata().map(number).map_err(place)?;
            if fs::metadata(&path).map(number).is_ok_and(|there| there == locked) {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for GenerationLock {
    fn drop(&mut self) {
        // While it is locked: whoever opened it before finds another one at its place.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_the_folder_and_leaves_nothing_there() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let held = GenerationLock::take(&data).unwrap();
        let error = GenerationLock::take(&data).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Unavailable && error.to_string().contains("another run"),
            "{error}"
        );
        drop(held);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
        GenerationLock::take(&data).unwrap();
    }
}
