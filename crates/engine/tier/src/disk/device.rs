//! Which device a source lies on: what is on the tier's own gains nothing by a copy.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use forebay_source::Locator;

/// The devices of folders. Files of one folder lie on one device, but for those that are mounted singly, which are
/// copied for nothing at worst: a set of many files is not asked about file by file, over a network.
#[derive(Debug, Default)]
pub(super) struct Devices {
    of_folders: Mutex<HashMap<PathBuf, Option<u64>>>,
}

/// The most folders that are remembered.
const MOST_FOLDERS: usize = 4096;

impl Devices {
    /// The device of the source at `at`, where that is a file of this machine's file systems and has an absolute path:
    /// what a relative one means is for its origin to say.
    pub(super) fn of(&self, at: &Locator) -> Option<u64> {
        let path = at.to_path();
        if at.is_url() || !path.is_absolute() {
            return None;
        }
        let folder = path.parent()?;
        let mut of_folders = self.of_folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of_folders.get(folder) {
            return *known;
        }
        if of_folders.len() >= MOST_FOLDERS {
            of_folders.clear();
        }
        drop(of_folders);
        // Without the lock: a network file system may not answer for a while.
        let device = fs::metadata(folder).ok().map(|facts| facts.dev());
        let mut of_folders = self.of_folders.lock().unwrap_or_else(PoisonError::into_inner);
        of_folders.insert(folder.to_owned(), device);
        device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_folder_are_asked_about_once_and_relative_paths_never() {
        let (folder, devices) = (tempfile::tempdir().unwrap(), Devices::default());
        let own = fs::metadata(folder.path()).unwrap().dev();
        for number in 0..1000 {
            let path = folder.path().join(format!("{number}.h5"));
            assert_eq!(devices.of(&Locator::new(path.to_str().unwrap())), Some(own));
        }
        assert_eq!(devices.of_folders.lock().unwrap().len(), 1);
        for far in ["Cargo.toml", "s3://bucket/Cargo.toml"] {
            assert_eq!(devices.of(&Locator::new(far)), None, "{far}");
        }
    }
}
