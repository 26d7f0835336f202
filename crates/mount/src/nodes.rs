//! Numbers of files and folders, as the kernel knows them.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use fuser::INodeNo;

/// Paths by number and numbers by path, both below the folder that is shown.
///
/// Names are kept as long as the mount is: a path that comes back has the number it had, so that a program sees the
/// same file. A million of them take some 200 MB.
#[derive(Debug)]
pub(crate) struct Nodes {
    tables: Mutex<NodeTables>,
}

#[derive(Debug)]
struct NodeTables {
    paths: Vec<PathBuf>,
    numbers: HashMap<PathBuf, u64>,
}

/// The numbers before these have other meanings: 0 none, 1 the root, and some for files that exist on the mount only.
const FIRST: u64 = 16;

impl Nodes {
    pub(crate) fn new() -> Self {
        Self { tables: Mutex::new(NodeTables { paths: Vec::new(), numbers: HashMap::new() }) }
    }

    fn tables(&self) -> MutexGuard<'_, NodeTables> {
        // A path is pushed before its number is known to any caller: a panic leaves at most an unused entry.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a number that was given out.
    pub(crate) fn path(&self, node: INodeNo) -> Option<PathBuf> {
        if node == INodeNo::ROOT {
            return Some(PathBuf::new());
        }
        let index = usize::try_from(node.0.checked_sub(FIRST)?).ok()?;
        self.tables().paths.get(index).cloned()
    }

    /// The number of a path.
    pub(crate) fn number(&self, path: &Path) -> INodeNo {
        if path.as_os_str().is_empty() {
            return INodeNo::ROOT;
        }
        let mut tables = self.tables();
        if let Some(number) = tables.numbers.get(path) {
            return INodeNo(*number);
        }
        let number = FIRST + tables.paths.len() as u64;
        tables.paths.push(path.to_owned());
        tables.numbers.insert(path.to_owned(), number);
        INodeNo(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_keeps_its_number_and_a_number_its_path() {
        let nodes = Nodes::new();
        let (one, other) = (nodes.number(Path::new("a")), nodes.number(Path::new("a/b")));
        assert_ne!(one, other);
        assert_eq!(nodes.number(Path::new("a")), one);
        assert_eq!(nodes.path(other), Some(PathBuf::from("a/b")));
        assert_eq!(nodes.path(INodeNo(other.0 + 1)), None);
    }

    #[test]
    fn the_root_is_the_empty_path() {
        let nodes = Nodes::new();
        assert_eq!(nodes.number(Path::new("")), INodeNo::ROOT);
        assert_eq!(nodes.path(INodeNo::ROOT), Some(PathBuf::new()));
    }
}
