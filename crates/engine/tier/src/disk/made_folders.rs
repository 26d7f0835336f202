//! Folders that disk tiers make for themselves, removed at the end where nothing is left in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use forebay_scratch::user_folder_name;

/// The folders that tiers of this process are about to make.
#[derive(Clone, Debug, Default)]
pub struct MadeFolders {
    /// Those in which tiers of all jobs have theirs: anybody makes them anew.
    shared: Vec<PathBuf>,
    /// Those above that were not there, the deepest first.
    missing: Vec<PathBuf>,
}

impl MadeFolders {
    /// Looks before tiers are opened at `paths`.
    pub fn look<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut found = Self::default();
        for path in paths {
            found.shared.push(path.join(user_folder_name("tier")));
            found.missing.extend(path.ancestors().take_while(|path| !path.exists()).map(Path::to_owned));
        }
        found
    }

    /// Removes what is empty of them, after the tiers were closed: what another job uses, or what was kept, is not.
    pub fn remove_empty(&self) {
        for folder in self.shared.iter().chain(&self.missing) {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_before_or_is_not_empty_stays() {
        let outer = tempfile::tempdir().unwrap();
        let [there, new, used] = ["there", "new/deep", "used"].map(|name| outer.path().join(name));
        fs::create_dir(&there).unwrap();
        let made = MadeFolders::look([&*there, &*new, &*used]);
        for path in [&there, &new, &used] {
            fs::create_dir_all(path.join(user_folder_name("tier"))).unwrap();
        }
        fs::write(used.join("file"), "").unwrap();
        made.remove_empty();
        let exists = [&there, &new, &used].map(|path| path.exists());
        assert_eq!(exists, [true, false, true]);
        assert!(!outer.path().join("new").exists());
        assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    }
}
