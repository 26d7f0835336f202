//! Which version of a file a number stands for, as long as the file is open.
//!
//! The kernel has one page cache and one backing file for a number, and wants all opens of it alike: by the page cache, or
//! past this process by passthrough. So a number that is open stands for one version of its file. Where the file was changed
//! meanwhile, a lookup gives its new version another number; an open by the old one is answered by `ESTALE`, after which the
//! kernel looks the name up again.

use std::{
    collections::HashMap,
    fs::Metadata,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use fuser::{BackingId, Errno, FileAttr, INodeNo};

use crate::nodes::Nodes;

/// What tells one state of a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeVersion {
    inode: u64,
    len: u64,
    modified_ns: i128,
    changed_ns: i128,
}

const NANOS: i128 = 1_000_000_000;

impl NodeVersion {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self {
            inode: found.ino(),
            len: found.len(),
            modified_ns: i128::from(found.mtime()) * NANOS + i128::from(found.mtime_nsec()),
            changed_ns: i128::from(found.ctime()) * NANOS + i128::from(found.ctime_nsec()),
        }
    }

    /// A number that differs where versions do, as a rule.
    fn salt(&self) -> u64 {
        let folded = self.modified_ns ^ self.changed_ns.rotate_left(17);
        let bytes = folded.to_le_bytes();
        let half =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        half(0) ^ half(8) ^ self.len.rotate_left(32) ^ 1
    }
}

/// A whole copy that the kernel reads by itself.
#[derive(Debug)]
pub(crate) struct PassthroughCopy {
    pub(crate) id: BackingId,
    /// The tier does not evict the copy as long as this is open.
    pub(crate) _lease: OwnedFd,
}

/// How all opens of a number are read.
#[derive(Debug)]
pub(crate) enum OpenedWay {
    /// By requests to this process; `keeps_cache` where the kernel's pages are of this version.
    Requests {
        /// True where pages of an earlier open are still good.
        keeps_cache: bool,
    },
    /// By the kernel, from a copy.
    Passthrough(Arc<PassthroughCopy>),
}

/// What is known of one number.
#[derive(Debug)]
struct KnownNode {
    version: NodeVersion,
    /// As they were when it was opened.
    opened_as: Option<FileAttr>,
    opens: usize,
    copy: Weak<PassthroughCopy>,
    /// The version that pages of the kernel may be of.
    cached: Option<NodeVersion>,
    /// True when the last open was answered by `ESTALE`.
    was_refused: bool,
}

/// All numbers of files that the kernel was told of.
#[derive(Debug, Default)]
pub(crate) struct OpenNodes {
    known: Mutex<HashMap<u64, KnownNode>>,
}

impl OpenNodes {
    fn known(&self) -> MutexGuard<'_, HashMap<u64, KnownNode>> {
        // Each change is of one entry and by one assignment: a panic leaves nothing half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a file that is at `version` now: `node`, unless that is open at another version.
    pub(crate) fn number(&self, node: INodeNo, version: NodeVersion) -> INodeNo {
        let known = self.known();
        let mut number = node;
        // The other one may be taken as well, by a version that hashes alike.
        while known.get(&number.0).is_some_and(|known| known.opens > 0 && known.version != version) {
            number = Nodes::another(number, version.salt());
        }
        number
    }

    /// Notes that the kernel is told of `node` at `version`, and gives what it is told: while it is open at another
    /// version, what held when it was opened.
    pub(crate) fn tell(&self, node: INodeNo, version: NodeVersion, now: FileAttr) -> FileAttr {
        let mut known = self.known();
        let entry = known.entry(node.0).or_insert_with(|| KnownNode::new(version));
        if entry.opens > 0 && entry.version != version {
            return entry.opened_as.unwrap_or(now);
        }
        entry.version = version;
        now
    }

    /// What held when `node` was opened, if it is open.
    pub(crate) fn opened_as(&self, node: INodeNo) -> Option<FileAttr> {
        self.known().get(&node.0).filter(|known| known.opens > 0)?.opened_as
    }

    /// Opens `node`, which is at `version` now, the way it is open already, or by the copy that `find` gives, or else by
    /// requests.
    ///
    /// One open at a time is decided on, so that all have the same way.
    pub(crate) fn open(
        &self,
        node: INodeNo,
        (version, now): (NodeVersion, FileAttr),
        find: impl FnOnce() -> Option<PassthroughCopy>,
    ) -> Result<OpenedWay, Errno> {
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
        let way = match entry.copy.upgrade() {
            Some(copy) => OpenedWay::Passthrough(copy),
            None if entry.opens > 0 => OpenedWay::Requests { keeps_cache: true },
            None => match find().map(Arc::new) {
                Some(copy) => {
                    entry.copy = Arc::downgrade(&copy);
                    OpenedWay::Passthrough(copy)
                }
                None => OpenedWay::Requests { keeps_cache: entry.cached == Some(version) },
            },
        };
        if matches!(way, OpenedWay::Requests { .. }) {
            entry.cached = Some(version);
        }
        entry.opens += 1;
        entry.opened_as = Some(now);
        Ok(way)
    }

    /// The kernel has forgotten `node`.
    pub(crate) fn forget(&self, node: INodeNo) {
        let mut known = self.known();
        if known.get(&node.0).is_some_and(|known| known.opens == 0) {
            known.remove(&node.0);
        }
    }

    /// One open of `node` less.
    pub(crate) fn close(&self, node: INodeNo) {
        if let Some(entry) = self.known().get_mut(&node.0) {
            entry.opens = entry.opens.saturating_sub(1);
        }
    }
}

impl KnownNode {
    fn new(version: NodeVersion) -> Self {
        Self { version, opened_as: None, opens: 0, copy: Weak::new(), cached: None, was_refused: false }
    }
}

#[cfg(test)]
mod tests {
    use fuser::FileType;

    use super::*;
    use crate::attributes::made_up;

    const NODE: INodeNo = INodeNo(77);

    fn version(len: u64) -> NodeVersion {
        NodeVersion { inode: 77, len, modified_ns: 5, changed_ns: 5 }
    }

    fn told() -> FileAttr {
        made_up(NODE, FileType::RegularFile, 0o444)
    }

    fn open(nodes: &OpenNodes, len: u64) -> Result<bool, Errno> {
        let way = nodes.open(NODE, (version(len), FileAttr { size: len, ..told() }), || None)?;
        Ok(matches!(way, OpenedWay::Requests { keeps_cache: true }))
    }

    #[test]
    fn an_open_number_stands_for_one_version_and_a_changed_file_gets_another() {
        let nodes = OpenNodes::default();
        assert_eq!(nodes.number(NODE, version(1)), NODE);
        nodes.tell(NODE, version(1), told());
        assert!(!open(&nodes, 1).unwrap());
        let other = nodes.number(NODE, version(2));
        assert!(other != NODE && nodes.number(NODE, version(2)) == other, "the same each time");
        assert_eq!(nodes.number(NODE, version(1)), NODE);
        assert!(open(&nodes, 2).is_err(), "the kernel has to look it up again");
        assert_eq!(nodes.tell(NODE, version(2), FileAttr { size: 2, ..told() }).size, 1);
        nodes.close(NODE);
        assert_eq!(nodes.number(NODE, version(2)), NODE, "nobody has the old one open");
    }

    #[test]
    fn pages_are_kept_from_open_to_open_of_one_version_alone() {
        let nodes = OpenNodes::default();
        assert!(!open(&nodes, 1).unwrap());
        nodes.close(NODE);
        assert!(open(&nodes, 1).unwrap());
        nodes.close(NODE);
        nodes.tell(NODE, version(2), told());
        assert!(!open(&nodes, 2).unwrap());
    }

    #[test]
    fn a_file_that_changes_all_the_time_can_be_opened() {
        let nodes = OpenNodes::default();
        nodes.tell(NODE, version(1), told());
        assert!(open(&nodes, 2).is_err());
        nodes.tell(NODE, version(2), told());
        assert!(open(&nodes, 3).is_ok(), "it was looked up again");
    }
}
