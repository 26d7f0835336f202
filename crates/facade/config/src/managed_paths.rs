//! Which files are managed: those whose path lies under a configured one.

use std::{
    env, fs,
    path::{Component, Path, PathBuf},
};

/// The folders and files that were named, as given and with symbolic links resolved.
#[derive(Clone, Debug, Default)]
pub struct ManagedPaths {
    prefixes: Vec<PathBuf>,
}

impl ManagedPaths {
    /// From paths; relative ones start at the working directory of now.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut prefixes = Vec::new();
        for path in paths.into_iter().filter(|path| !path.as_os_str().is_empty()) {
            let Some(path) = absolute(&path) else { continue };
            prefixes.extend(fs::canonicalize(&path).ok().filter(|resolved| *resolved != path));
            prefixes.push(path);
        }
        Self { prefixes }
    }

    /// True when nothing is managed.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The absolute name of `path` if it is managed: it or its folder, with links resolved, lies under a configured path.
    pub fn find(&self, path: &Path) -> Option<PathBuf> {
        if self.prefixes.is_empty() {
            return None;
        }
        let path = absolute(path)?;
        let covers = |path: &Path| self.prefixes.iter().any(|prefix| path.starts_with(prefix));
        let has_parents = path.components().any(|part| part == Component::ParentDir);
        if !has_parents && covers(&path) {
            return Some(path);
        }
        let resolved = fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?);
        covers(&resolved).then_some(resolved)
    }
}

fn absolute(path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return Some(path.components().collect());
    }
    Some(env::current_dir().ok()?.join(path).components().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_whole_names_only() {
        let managed = ManagedPaths::new([PathBuf::from("/a/b"), PathBuf::new()]);
        assert_eq!(managed.find(Path::new("/a/b/c.h5")), Some(PathBuf::from("/a/b/c.h5")));
        assert_eq!(managed.find(Path::new("/a/b/./c.h5")), Some(PathBuf::from("/a/b/c.h5")));
        assert_eq!(managed.find(Path::new("/a/bc.h5")), None);
        assert_eq!(managed.find(Path::new("/a/b/../c.h5")), None);
        assert_eq!(ManagedPaths::default().find(Path::new("/a/b")), None);
    }

    #[test]
    fn links_and_parents_on_either_side_are_resolved() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().join("real");
        fs::create_dir_all(real.join("sub")).expect("folders");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&real, &link).expect("a link");
        let by_link = ManagedPaths::new([link.clone()]);
        assert!(by_link.find(&real.join("x.h5")).is_some());
        assert!(by_link.find(&link.join("x.h5")).is_some());
        let by_name = ManagedPaths::new([real.clone()]);
        assert!(by_name.find(&link.join("x.h5")).is_some());
        assert!(by_name.find(&real.join("sub/../x.h5")).is_some());
        assert!(by_name.find(&real.join("sub/../../x.h5")).is_none());
    }
}
