//! What tells one state of a file from the next.

use std::{fs::Metadata, os::unix::fs::MetadataExt};

/// Identity, length and times of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeVersion {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) len: u64,
    pub(crate) modified_ns: i128,
    pub(crate) changed_ns: i128,
}

const NANOS: i128 = 1_000_000_000;

impl NodeVersion {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            len: found.len(),
            modified_ns: i128::from(found.mtime()) * NANOS + i128::from(found.mtime_nsec()),
            changed_ns: i128::from(found.ctime()) * NANOS + i128::from(found.ctime_nsec()),
        }
    }

    /// True when `other` is a state of the same file.
    pub(crate) fn is_of_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// A number that differs where versions do, as a rule.
    pub(crate) fn salt(&self) -> u64 {
        let folded = self.modified_ns ^ self.changed_ns.rotate_left(17);
        let bytes = folded.to_le_bytes();
        let half =
            |at: usize| bytes[at..at + 8].iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        half(0) ^ half(8) ^ self.len.rotate_left(32) ^ 1
    }
}
