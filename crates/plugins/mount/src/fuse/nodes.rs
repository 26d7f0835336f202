//! Numbers of files and folders, as the kernel knows them.

use std::{
    collections::HashMap,
    fs::Metadata,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use fuser::INodeNo;

/// Paths by number, below the folder that is shown.
///
/// Numbers are those of the files below, so that a file has the same one in every mount. Names are kept as long as
/// the mount is, a million of them take some 200 MB, unless the kernel's lookups are counted and what it forgets is forgotten.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The device of the folder.
    device: u64,
    /// More than one path where a file has several names.
    paths: Mutex<HashMap<u64, Vec<PathBuf>>>,
    /// How often the kernel was told of a number, where that is counted; locked before `paths`.
    lookups: Mutex<HashMap<u64, u64>>,
}

/// The numbers before these have other meanings: 0 none, 1 the root, and some for files that exist on the mount only.
const FIRST: u64 = 16;
/// Where numbers begin that would have had such a meaning.
const ELSEWHERE: u64 = 1 << 62;
/// An odd number that spreads the numbers of other devices.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Nodes {
    /// Nothing known yet, in a folder on `device`.
    pub(crate) fn new(device: u64) -> Self {
        Self { device, paths: Mutex::default(), lookups: Mutex::default() }
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<u64, Vec<PathBuf>>> {
        // A panic may leave a path out, which the next lookup brings back.
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A path of a number that was given out and still has one.
    pub(crate) fn path(&self, node: INodeNo) -> Option<PathBuf> {
        if node == INodeNo::ROOT {
            return Some(PathBuf::new());
        }
        self.paths().get(&node.0)?.last().cloned()
    }

    /// The number of what was found below, without noting where.
    pub(crate) fn number_of(&self, device: u64, inode: u64) -> INodeNo {
        let number = if device == self.device { inode } else { inode ^ device.wrapping_mul(SPREAD) };
        INodeNo(if number < FIRST { number | ELSEWHERE } else { number })
    }

    /// The number of what was found at `path`, which is noted.
    pub(crate) fn number(&self, path: &Path, found: &Metadata) -> INodeNo {
        if path.as_os_str().is_empty() {
            return INodeNo::ROOT;
        }
        let node = self.number_of(found.dev(), found.ino());
        self.note(node, path);
        node
    }

    /// Notes that `path` is a name of `node`, the one that is used from now on.
    pub(crate) fn note(&self, node: INodeNo, path: &Path) {
        let mut paths = self.paths();
        let known = paths.entry(node.0).or_default();
        if known.last().is_none_or(|last| last != path) {
            known.retain(|other| other != path);
            known.push(path.to_owned());
        }
    }

    fn lookups(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `path` is a name of `node`, and that the kernel is told of it.
    pub(crate) fn look_up(&self, node: INodeNo, path: &Path) {
        let mut lookups = self.lookups();
        self.note(node, path);
        *lookups.entry(node.0).or_default() += 1;
    }

    /// The kernel has forgotten `count` lookups of `node`; true when those were all, and its names are forgotten too.
    pub(crate) fn forget(&self, node: INodeNo, count: u64) -> bool {
        let mut lookups = self.lookups();
        let left = lookups.get(&node.0).map_or(0, |known| known.saturating_sub(count));
        if left > 0 {
            lookups.insert(node.0, left);
            return false;
        }
        lookups.remove(&node.0);
        self.paths().remove(&node.0);
        true
    }

    /// A number for the state `salt` of `node` that is not that of any file below, as far as can be foreseen.
    pub(crate) fn another(node: INodeNo, salt: u64) -> INodeNo {
        INodeNo((node.0 ^ salt.wrapping_mul(SPREAD)) | ELSEWHERE)
    }

    /// Forgets that `path` is a name of `node`.
    pub(crate) fn remove(&self, node: INodeNo, path: &Path) {
        let mut paths = self.paths();
        if let Some(known) = paths.get_mut(&node.0) {
            known.retain(|other| other != path);
            if known.is_empty() {
                paths.remove(&node.0);
            }
        }
    }

    /// `moved`, which was at `from`, and what is in it if it is a folder, is now at `to`.
    pub(crate) fn rename(&self, from: &Path, to: &Path, moved: &Metadata) {
        let change = |path: &mut PathBuf| {
            if let Ok(rest) = path.strip_prefix(from) {
                *path = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            }
        };
        let node = self.number_of(moved.dev(), moved.ino());
        let mut paths = self.paths();
        if moved.is_dir() {
            paths.values_mut().flatten().for_each(change);
        } else if let Some(known) = paths.get_mut(&node.0) {
            known.iter_mut().for_each(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> (Nodes, Metadata) {
        let found = std::fs::metadata(".").unwrap();
        (Nodes::new(found.dev()), found)
    }

    #[test]
    fn a_file_has_the_number_it_has_below_and_a_path_until_its_last_name_goes() {
        let (nodes, found) = nodes();
        let node = nodes.number(Path::new("a"), &found);
        assert_eq!(node.0, found.ino());
        assert_eq!(nodes.number(Path::new("b/c"), &found), node);
        assert_eq!(nodes.path(node), Some(PathBuf::from("b/c")));
        nodes.remove(node, Path::new("b/c"));
        assert_eq!(nodes.path(node), Some(PathBuf::from("a")));
        nodes.remove(node, Path::new("a"));
        assert_eq!(nodes.path(node), None);
    }

    #[test]
    fn what_is_renamed_takes_along_what_is_in_it() {
        let (nodes, found) = nodes();
        let node = nodes.number(Path::new("old/deep/f"), &found);
        nodes.rename(Path::new("old"), Path::new("new"), &found);
        assert_eq!(nodes.path(node), Some(PathBuf::from("new/deep/f")));
        nodes.rename(Path::new("new/deep/f"), Path::new("g"), &found);
        assert_eq!(nodes.path(node), Some(PathBuf::from("g")));
        nodes.rename(Path::new("ne"), Path::new("x"), &found);
        assert_eq!(nodes.path(node), Some(PathBuf::from("g")));
    }

    #[test]
    fn names_are_forgotten_with_the_last_lookup() {
        let (nodes, found) = nodes();
        let node = nodes.number_of(found.dev(), found.ino());
        nodes.look_up(node, Path::new("a"));
        nodes.look_up(node, Path::new("b"));
        assert!(!nodes.forget(node, 1) && nodes.path(node).is_some());
        assert!(nodes.forget(node, 1) && nodes.path(node).is_none());
    }

    #[test]
    fn no_number_has_two_meanings() {
        let (nodes, found) = nodes();
        assert!((0..FIRST).all(|inode| nodes.number_of(found.dev(), inode).0 >= FIRST));
        assert_ne!(nodes.number_of(found.dev(), 99), nodes.number_of(found.dev() + 1, 99));
    }

    #[test]
    fn the_root_is_the_empty_path() {
        let (nodes, found) = nodes();
        assert_eq!(nodes.number(Path::new(""), &found), INodeNo::ROOT);
        assert_eq!(nodes.path(INodeNo::ROOT), Some(PathBuf::new()));
    }
}
