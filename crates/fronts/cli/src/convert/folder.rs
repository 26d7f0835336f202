//! A folder that appears under its name when it is whole, or not at all.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use forebay::{Error, ErrorKind, Result};

/// A folder that is filled beside its place and moved there when whole.
#[derive(Debug)]
pub(super) struct Folder {
    temporary: PathBuf,
    path: PathBuf,
}

impl Folder {
    /// Starts the folder that will stand at `path`.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let temporary = path.with_file_name(name);
        fs::create_dir(&temporary).map_err(|error| Error::from_io(error).at(path.display()))?;
        Ok(Self { temporary, path: path.to_owned() })
    }

    /// Writes a file of the folder, with the folders above it.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.temporary.join(name);
        let place = |error: io::Error| Error::from_io(error).at(self.path.join(name).display());
        let file = File::create_new(&path).or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            fs::create_dir_all(path.parent().unwrap_or(&self.temporary))?;
            File::create_new(&path)
        });
        file.and_then(|mut file| file.write_all(bytes)).map_err(place)
    }

    /// Moves the whole folder to its name.
    pub(super) fn finish(self) -> Result<()> {
        let place = |error: io::Error| Error::from_io(error).at(self.path.display());
        sync(&self.temporary).map_err(place)?;
        // A rename would put it in the place of an empty folder that came meanwhile.
        if self.path.symlink_metadata().is_ok() {
            return Err(Error::new(ErrorKind::Invalid, "came to be meanwhile").at(self.path.display()));
        }
        fs::rename(&self.temporary, &self.path).map_err(place)
    }
}

/// Lets all that was written reach the disk: one call for any number of files, where the system has it.
fn sync(folder: &Path) -> io::Result<()> {
    let opened = File::open(folder)?;
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(&opened)?;
    opened.sync_all()
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After a success the temporary name is gone already; after a failure nothing half-written stays.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

/// Refuses names of variables that would lead elsewhere, or that Zarr keeps for itself.
pub(super) fn check_name(name: &str) -> Option<String> {
    let is_bad = |step: &str| {
        matches!(step, "" | "." | ".." | "zarr.json") || step.starts_with("__") || step.contains('\0')
    };
    name.split('/').find(|step| is_bad(step)).map(|step| format!("'{step}' cannot be a name in a Zarr store"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_folder() {
        for bad in ["..", "a/../b", "/a", "a//b", "", "./a", "a/zarr.json", "__a", "a\0"] {
            assert!(check_name(bad).is_some(), "{bad}");
        }
        assert_eq!(check_name("group/temperature"), None);
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.zarr");
        let folder = Folder::create(&path).unwrap();
        folder.write("x/c/0", b"1").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        let folder = Folder::create(&path).unwrap();
        folder.write("x/c/0", b"1").unwrap();
        folder.finish().unwrap();
        assert_eq!(fs::read(path.join("x/c/0")).unwrap(), b"1");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
