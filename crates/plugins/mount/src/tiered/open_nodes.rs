//! Which version of a file a number stands for, as long as the file is open.
//!
//! The kernel has one page cache and one backing file for a number, and wants all opens of it alike: by the page cache, or
//! past this process by passthrough. So a number that is open stands for one version of its file. Where the file was changed
//! meanwhile, a lookup gives its new version another number; an open by the old one is answered by `ESTALE`, after which the
//! kernel looks the name up again.
//!
//! Pages of an earlier open are good for the next one where the version was settled (older than the grain of file times) when
//! they were read: two changes within that grain have the same times.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fuser::{Errno, FileAttr, INodeNo};

use crate::{
    fuse::{mounted_files::PassthroughCopy, nodes::Nodes},
    tiered::node_version::NodeVersion,
};

/// How all opens of a number are read.
#[derive(Debug)]
pub(crate) enum OpenedWay<C = PassthroughCopy> {
    /// By requests to this process; `keeps_cache` where the kernel's pages are of this version.
    Requests {
        /// True where pages of an earlier open are still good.
        keeps_cache: bool,
    },
    /// By the kernel, from a copy.
    Passthrough(Arc<C>),
}

/// A file as it was when it was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedVersion {
    pub(crate) version: NodeVersion,
    pub(crate) attributes: FileAttr,
    /// False as long as a later change could have the same times.
    pub(crate) is_settled: bool,
}

/// What is known of one number.
#[derive(Debug)]
struct KnownNode<C> {
    version: NodeVersion,
    /// As they were when it was opened.
    opened_as: Option<FileAttr>,
    opens: usize,
    /// What all opens read by; nothing where that is by requests, and while it is not open.
    copy: Weak<C>,
    /// The version that pages of the kernel may be of, where it was settled when they were read.
    cached: Option<NodeVersion>,
    /// True when the last open was answered by `ESTALE`.
    was_refused: bool,
    /// True when the kernel has forgotten it and closes it later, as both may come in either order.
    is_forgotten: bool,
}

/// All numbers of files that the kernel was told of.
#[derive(Debug)]
pub(crate) struct OpenNodes<C = PassthroughCopy> {
    known: Mutex<HashMap<u64, KnownNode<C>>>,
}

impl<C> Default for OpenNodes<C> {
    fn default() -> Self {
        Self { known: Mutex::default() }
    }
}

impl<C> OpenNodes<C> {
    fn known(&self) -> MutexGuard<'_, HashMap<u64, KnownNode<C>>> {
        // Each change is of one entry and by one assignment: a panic leaves nothing half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the kernel looks up the file whose number is that of `now`, which is at `version`, and gives what it is told:
    /// that number, or another one where that is open at another version.
    pub(crate) fn look_up(&self, version: NodeVersion, now: FileAttr) -> FileAttr {
        let mut known = self.known();
        let mut number = now.ino;
        // The other one may be taken as well, by a version that hashes alike.
        while known.get(&number.0).is_some_and(|known| known.opens > 0 && known.version != version) {
            number = Nodes::another(number, version.salt());
        }
        let entry = known.entry(number.0).or_insert_with(|| KnownNode::new(version));
        entry.version = version;
        entry.is_forgotten = false;
        FileAttr { ino: number, ..now }
    }

    /// What the kernel is told of `node`, a file whose name is that of a file at `version` now: while it is open at another
    /// version, what held when it was opened. Nothing where the name is another file's by now.
    pub(crate) fn attributes_now(
        &self,
        node: INodeNo,
        version: NodeVersion,
        now: FileAttr,
    ) -> Option<FileAttr> {
        let mut known = self.known();
        let entry = known.get_mut(&node.0)?;
        if entry.opens > 0 && entry.version != version {
            return entry.opened_as;
        }
        if !entry.version.is_of_file(&version) {
            return None;
        }
        entry.version = version;
        Some(now)
    }

    /// True when `node` is known as that of a file.
    pub(crate) fn is_known(&self, node: INodeNo) -> bool {
        self.known().contains_key(&node.0)
    }

    /// What held when `node` was opened, if it is open.
    pub(crate) fn opened_as(&self, node: INodeNo) -> Option<FileAttr> {
        self.known().get(&node.0).filter(|known| known.opens > 0)?.opened_as
    }

    /// Opens `node`, the way it is open already, or by the copy that `find` gives, or else by requests.
    ///
    /// One open at a time is decided on, so that all have the same way; `find` may take long, and runs before that.
    pub(crate) fn open(
        &self,
        node: INodeNo,
        opened: OpenedVersion,
        find: impl FnOnce() -> Option<C>,
    ) -> Result<OpenedWay<C>, Errno> {
        let version = opened.version;
        let is_open = self.known().get(&node.0).is_some_and(|known| known.opens > 0);
        // Declared before the lock, so that one that is not used is dropped after it: the kernel is asked for that too.
        let mut found = if is_open { None } else { find().map(Arc::new) };
        let mut known = self.known();
        let entry = known.entry(node.0).or_insert_with(|| KnownNode::new(version));
        if entry.version != version {
            // A file that grows all the time has always changed by the time it is opened: it is looked up again once.
            if entry.opens > 0 || !entry.was_refused {
                entry.was_refused = true;
                return Err(Errno::ESTALE);
            }
            entry.version = version;
        }
        entry.was_refused = false;
        if entry.opens == 0 {
            entry.copy = found.as_ref().map_or_else(Weak::new, Arc::downgrade);
        } else {
            found = entry.copy.upgrade();
        }
        let way = match found.take() {
            Some(copy) => OpenedWay::Passthrough(copy),
            None => {
                let keeps_cache = entry.cached == Some(version);
                entry.cached = opened.is_settled.then_some(version);
                OpenedWay::Requests { keeps_cache }
            }
        };
        entry.opens += 1;
        entry.opened_as = Some(opened.attributes);
        Ok(way)
    }

    /// The kernel has forgotten `node`.
    pub(crate) fn forget(&self, node: INodeNo) {
        let mut known = self.known();
        let Some(entry) = known.get_mut(&node.0) else { return };
        entry.is_forgotten = true;
        if entry.opens == 0 {
            known.remove(&node.0);
        }
    }

    /// One open of `node` less.
    pub(crate) fn close(&self, node: INodeNo) {
        let mut known = self.known();
        let Some(entry) = known.get_mut(&node.0) else { return };
        entry.opens = entry.opens.saturating_sub(1);
        if entry.opens > 0 {
            return;
        }
        // Whoever reads it at this moment may hold the copy a little longer: it is not that of the next open.
        entry.copy = Weak::new();
        if entry.is_forgotten {
            known.remove(&node.0);
        }
    }
}

impl<C> KnownNode<C> {
    fn new(version: NodeVersion) -> Self {
        Self {
            version,
            opened_as: None,
            opens: 0,
            copy: Weak::new(),
            cached: None,
            was_refused: false,
            is_forgotten: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use fuser::FileType;

    use super::*;
    use crate::fuse::attributes::made_up;

    const NODE: INodeNo = INodeNo(77);

    fn version(len: u64) -> NodeVersion {
        NodeVersion { device: 1, inode: 77, len, modified_ns: 5, changed_ns: 5 }
    }

    fn attributes_of(len: u64) -> FileAttr {
        FileAttr { size: len, ..made_up(NODE, FileType::RegularFile, 0o444) }
    }

    fn opened(len: u64) -> OpenedVersion {
        OpenedVersion { version: version(len), attributes: attributes_of(len), is_settled: true }
    }

    fn look_up(nodes: &OpenNodes<u64>, len: u64) -> INodeNo {
        nodes.look_up(version(len), attributes_of(len)).ino
    }

    /// Whether pages are kept.
    fn open(nodes: &OpenNodes<u64>, len: u64) -> Result<bool, Errno> {
        let way = nodes.open(NODE, opened(len), || None)?;
        Ok(matches!(way, OpenedWay::Requests { keeps_cache: true }))
    }

    #[test]
    fn an_open_number_stands_for_one_version_and_a_changed_file_gets_another() {
        let nodes = OpenNodes::default();
        assert_eq!(look_up(&nodes, 1), NODE);
        assert!(!open(&nodes, 1).unwrap());
        let other = look_up(&nodes, 2);
        assert!(other != NODE && look_up(&nodes, 2) == other, "the same each time");
        assert_eq!(look_up(&nodes, 1), NODE);
        assert!(open(&nodes, 2).is_err(), "the kernel has to look it up again");
        assert_eq!(nodes.attributes_now(NODE, version(2), attributes_of(2)).unwrap().size, 1);
        nodes.close(NODE);
        assert_eq!(look_up(&nodes, 2), NODE, "nobody has the old one open");
    }

    #[test]
    fn a_name_that_is_another_files_by_now_says_nothing_of_the_old_one() {
        let nodes = OpenNodes::default();
        assert!(nodes.attributes_now(NODE, version(1), attributes_of(1)).is_none(), "never looked up");
        look_up(&nodes, 1);
        let other = NodeVersion { inode: 78, ..version(2) };
        assert!(nodes.attributes_now(NODE, other, attributes_of(2)).is_none());
        assert_eq!(nodes.attributes_now(NODE, version(2), attributes_of(2)).unwrap().size, 2);
    }

    #[test]
    fn pages_are_kept_from_open_to_open_of_one_version_alone() {
        let nodes = OpenNodes::default();
        assert!(!open(&nodes, 1).unwrap());
        assert!(open(&nodes, 1).unwrap());
        nodes.close(NODE);
        nodes.close(NODE);
        assert!(open(&nodes, 1).unwrap());
        nodes.close(NODE);
        look_up(&nodes, 2);
        assert!(!open(&nodes, 2).unwrap());
    }

    #[test]
    fn pages_of_a_file_that_changed_just_now_are_not_kept() {
        let nodes = OpenNodes::<u64>::default();
        let young = OpenedVersion { is_settled: false, ..opened(1) };
        let keeps = |opened| {
            matches!(nodes.open(NODE, opened, || None).unwrap(), OpenedWay::Requests { keeps_cache: true })
        };
        assert!(!keeps(young) && !keeps(young), "not by two at the same time either");
        nodes.close(NODE);
        nodes.close(NODE);
        assert!(!keeps(opened(1)), "it may have changed since, within the grain of its times");
        nodes.close(NODE);
        assert!(keeps(opened(1)), "read when it was settled");
    }

    #[test]
    fn a_copy_of_an_old_version_is_not_that_of_the_next_open() {
        let nodes = OpenNodes::default();
        let copy = |nodes: &OpenNodes<u64>, len, found| match nodes.open(NODE, opened(len), || found) {
            Ok(OpenedWay::Passthrough(copy)) => Some(copy),
            _ => None,
        };
        let old = copy(&nodes, 1, Some(10)).unwrap();
        assert_eq!(copy(&nodes, 1, None).as_deref(), Some(&10), "all opens have the same way");
        nodes.close(NODE);
        nodes.close(NODE);
        look_up(&nodes, 2);
        // `old` is still held, as by a read that is under way.
        assert_eq!(copy(&nodes, 2, None), None);
        nodes.close(NODE);
        assert_eq!(copy(&nodes, 2, Some(20)).as_deref(), Some(&20));
        assert_eq!(*old, 10);
    }

    #[test]
    fn others_are_looked_up_and_opened_while_a_copy_is_searched_for() {
        let nodes = OpenNodes::<u64>::default();
        look_up(&nodes, 1);
        let way = nodes.open(NODE, opened(1), || {
            assert_eq!(look_up(&nodes, 1), NODE);
            assert!(nodes.open(NODE, opened(1), || None).is_ok());
            Some(10)
        });
        assert!(matches!(way, Ok(OpenedWay::Requests { .. })), "the other was quicker, without a copy");
    }

    #[test]
    fn nothing_is_left_of_a_number_that_is_forgotten_before_it_is_closed_or_after() {
        let nodes = OpenNodes::<u64>::default();
        for forgets_first in [true, false] {
            look_up(&nodes, 1);
            open(&nodes, 1).unwrap();
            if forgets_first {
                nodes.forget(NODE);
                assert!(nodes.is_known(NODE), "it is open");
            }
            nodes.close(NODE);
            nodes.forget(NODE);
            assert!(!nodes.is_known(NODE));
        }
        look_up(&nodes, 1);
        open(&nodes, 1).unwrap();
        nodes.forget(NODE);
        look_up(&nodes, 1);
        nodes.close(NODE);
        assert!(nodes.is_known(NODE), "the kernel has looked it up again");
    }

    #[test]
    fn a_file_that_changes_all_the_time_can_be_opened() {
        let nodes = OpenNodes::default();
        look_up(&nodes, 1);
        assert!(open(&nodes, 2).is_err());
        look_up(&nodes, 2);
        assert!(open(&nodes, 3).is_ok(), "it was looked up again");
    }
}
