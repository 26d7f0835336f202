//! Version 2 B-trees: dense links and attributes, huge heap objects, and chunks of arrays that grow both ways.

use std::collections::HashSet;

use bytes::Bytes;
use forebay_process::{Error, Result};

use super::{
    cursor::{MetadataCursor, bytes_for},
    metadata::Metadata,
};

/// Signature, version, kind and checksum of a node.
const NODE_OVERHEAD: u64 = 10;
/// Sixteen-way nodes reach 2^64 records in 16 levels.
const MOST_DEPTH: u16 = 32;

/// A version 2 B-tree.
#[derive(Debug)]
pub(crate) struct TreeV2 {
    pub(crate) kind: u8,
    pub(crate) record_len: u64,
    node_len: u64,
    root: Option<Child>,
    depth: u16,
    /// Per level: how long the two counts of a child pointer at that level are.
    levels: Vec<Level>,
}

#[derive(Clone, Copy, Debug)]
struct Child {
    address: u64,
    count: u64,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    most: u64,
    most_below: u64,
    below_len: usize,
}

impl TreeV2 {
    pub(crate) fn open(file: &Metadata, address: u64) -> Result<Self> {
        Self::open_at(file, address).map_err(|error| error.at(format!("B-tree at {address:#x}")))
    }

    fn open_at(file: &Metadata, address: u64) -> Result<Self> {
        let len = 4
            + 1
            + 1
            + 4
            + 2
            + 2
            + 1
            + 1
            + 2
            + 4
            + u64::from(file.sizes.offset)
            + u64::from(file.sizes.length);
        let bytes = file.read(address, len)?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.signature(b"BTHD")?;
        cursor.version(0, "a B-tree")?;
        let kind = cursor.u8()?;
        let node_len = u64::from(cursor.u32()?);
        let record_len = u64::from(cursor.u16()?);
        let depth = cursor.u16()?;
        cursor.skip(2)?;
        let address = cursor.address()?;
        let count = u64::from(cursor.u16()?);
        let _total = cursor.length()?;
        cursor.checksum("a B-tree")?;
        if record_len == 0 || node_len <= NODE_OVERHEAD || depth > MOST_DEPTH {
            return Err(Error::corrupt(format!(
                "nodes of {node_len} bytes, records of {record_len}, depth {depth}"
            )));
        }
        let root = address.map(|address| Child { address, count });
        let mut tree = Self { kind, record_len, node_len, root, depth, levels: Vec::new() };
        tree.levels = tree.measure(file);
        Ok(tree)
    }

    /// How many records fit at each level decides how long the counts beside child addresses are.
    fn measure(&self, file: &Metadata) -> Vec<Level> {
        let most = (self.node_len - NODE_OVERHEAD) / self.record_len;
        let mut levels = vec![Level { most, most_below: most, below_len: 0 }];
        for _ in 0..self.depth {
            let below = levels[levels.len() - 1];
            let pointer = self.pointer_len(file, levels[0].most, below);
            let most = (self.node_len - NODE_OVERHEAD).saturating_sub(pointer) / (self.record_len + pointer);
            let most_below = (most.saturating_add(1)).saturating_mul(below.most_below).saturating_add(most);
            levels.push(Level { most, most_below, below_len: bytes_for(most_below) });
        }
        levels
    }

    fn pointer_len(&self, file: &Metadata, leaf_most: u64, below: Level) -> u64 {
        u64::from(file.sizes.offset) + bytes_for(leaf_most) as u64 + below.below_len as u64
    }

    /// Calls `each` with every record.
    pub(crate) fn walk(&self, file: &Metadata, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let Some(root) = self.root else { return Ok(()) };
        let mut seen = HashSet::new();
        let mut stack = vec![(root, self.depth)];
        while let Some((child, depth)) = stack.pop() {
            let place = |error: Error| error.at(format!("B-tree node at {:#x}", child.address));
            if !seen.insert(child.address) {
                return Err(place(Error::corrupt("a node that is its own ancestor or sibling")));
            }
            let (records, children) = self.node(file, child, depth).map_err(place)?;
            let len = usize::try_from(self.record_len).unwrap_or(usize::MAX);
            for record in records.chunks_exact(len) {
                each(record).map_err(place)?;
            }
            stack.extend(children.into_iter().rev().map(|child| (child, depth - 1)));
        }
        Ok(())
    }

    /// One node's records and, above the leaves, its children.
    fn node(&self, file: &Metadata, child: Child, depth: u16) -> Result<(Bytes, Vec<Child>)> {
        let level = self.levels[usize::from(depth)];
        if child.count > level.most {
            return Err(Error::corrupt(format!("{} records where {} fit", child.count, level.most)));
        }
        let records_len = child.count * self.record_len;
        let below = depth.checked_sub(1).map(|below| self.levels[usize::from(below)]);
        let pointers_len =
            below.map_or(0, |below| (child.count + 1) * self.pointer_len(file, self.levels[0].most, below));
        let bytes = file.read(child.address, NODE_OVERHEAD + records_len + pointers_len)?;
        let mut cursor = MetadataCursor::new(&bytes, file.sizes);
        cursor.signature(if depth == 0 { b"BTLF" } else { b"BTIN" })?;
        cursor.version(0, "a B-tree node")?;
        if cursor.u8()? != self.kind {
            return Err(Error::corrupt("a node of another kind of B-tree"));
        }
        let from = cursor.position();
        cursor.skip(usize::try_from(records_len).unwrap_or(usize::MAX))?;
        let records = bytes.slice(from..cursor.position());
        let mut children = Vec::new();
        if let Some(below) = below {
            for _ in 0..=child.count {
                let address = cursor.some_address("a node's child")?;
                let count = cursor.uint(bytes_for(self.levels[0].most))?;
                cursor.skip(below.below_len)?;
                children.push(Child { address, count });
            }
        }
        cursor.checksum("a B-tree node")?;
        Ok((records, children))
    }
}
