//! Version 1 B-trees: the members of old-style groups, and the chunks of older arrays.

use std::collections::HashSet;

use forebay_process::{Error, Result};

use super::{cursor::MetadataCursor, metadata::Metadata};

/// What a tree's keys look like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TreeKeys {
    /// An offset into the local heap.
    Group,
    /// Length, filter mask, and an offset per dimension and one more.
    Chunks { ndim: usize },
}

impl TreeKeys {
    fn code(self) -> u8 {
        match self {
            Self::Group => 0,
            Self::Chunks { .. } => 1,
        }
    }

    fn len(self, file: &Metadata) -> usize {
        match self {
            Self::Group => file.sizes.length.into(),
            Self::Chunks { ndim } => 8 + 8 * (ndim + 1),
        }
    }
}

/// Calls `each` with every leaf entry, in order: the key before a child, and the child's address.
pub(crate) fn walk(
    file: &Metadata,
    root: u64,
    keys: TreeKeys,
    each: &mut dyn FnMut(&[u8], u64) -> Result<()>,
) -> Result<()> {
    let mut seen = HashSet::new();
    let mut stack = vec![(root, None)];
    while let Some((address, level)) = stack.pop() {
        let place = |error: forebay_process::Error| error.at(format!("B-tree node at {address:#x}"));
        if !seen.insert(address) {
            return Err(place(Error::corrupt("a node that is its own ancestor or sibling")));
        }
        let node = TreeNode::read(file, address, keys, level).map_err(place)?;
        if node.level == 0 {
            for (key, child) in &node.entries {
                each(key, *child).map_err(place)?;
            }
        } else {
            // Pushed backwards, so that the first child is walked first.
            stack.extend(node.entries.iter().rev().map(|(_, child)| (*child, Some(node.level - 1))));
        }
    }
    Ok(())
}

struct TreeNode {
    level: u8,
    entries: Vec<(Vec<u8>, u64)>,
}

impl TreeNode {
    fn read(file: &Metadata, address: u64, keys: TreeKeys, level: Option<u8>) -> Result<Self> {
        let head_len = 8 + 2 * u64::from(file.sizes.offset);
        let head = file.read(address, head_len)?;
        let mut cursor = MetadataCursor::new(&head, file.sizes);
        cursor.signature(b"TREE")?;
        if cursor.u8()? != keys.code() {
            return Err(Error::corrupt("a B-tree of another kind"));
        }
        let found = cursor.u8()?;
        if level.is_some_and(|level| level != found) {
            return Err(Error::corrupt(format!("a node of level {found} where another was due")));
        }
        let count = usize::from(cursor.u16()?);
        let key_len = keys.len(file);
        let pair_len = key_len + usize::from(file.sizes.offset);
        let body = file.read(address + head_len, (count * pair_len) as u64)?;
        let mut cursor = MetadataCursor::new(&body, file.sizes);
        let entries = (0..count)
            .map(|_| Ok((cursor.take(key_len)?.to_vec(), cursor.some_address("a node's child")?)))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { level: found, entries })
    }
}
