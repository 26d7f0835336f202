//! A hash table of blocks in the memory of a rank, which others read without asking: entries first, then a slot for each.
//!
//! Only its owner writes it, a slot before its entry, and never a slot or an entry twice.

use std::sync::atomic::{Ordering::Release, fence};

use forebay_process::Result;
use forebay_source::SourceId;
use forebay_store::ShardMemory;
use sha2::{Digest, Sha256};

/// Which block of which source: the same on every node that names the source alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BlockName([u8; 16]);

impl BlockName {
    pub(super) fn new(source: &SourceId, block: u64) -> Self {
        let mut hash = Sha256::new();
        // Not what only one node knows of the file, such as its inode.
        for part in [source.locator.as_str(), &source.version.tag] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(source.len.to_le_bytes());
        hash.update(block.to_le_bytes());
        let mut name = [0; 16];
        name.copy_from_slice(&hash.finalize()[..16]);
        Self(name)
    }

    fn number(self, at: usize) -> u64 {
        self.0[at..at + 8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// The rank, of `ranks`, that places the block.
    pub(super) fn home(self, ranks: usize) -> usize {
        usize::try_from(self.number(0) % ranks as u64).unwrap_or(0)
    }
}

/// How many slots a table has, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableShape {
    slots: u64,
    slot_len: u64,
}

/// Bytes of an entry: a cache line.
pub(super) const ENTRY_LEN: usize = 64;

/// Entries that a block may stand in, one after the other: with a table that is full to 80 %, one block of 40 finds no place.
pub(super) const PROBED: u64 = 8;

impl TableShape {
    pub(super) fn new(quota: u64, slot_len: u64) -> Self {
        Self { slots: quota / slot_len.max(1), slot_len }
    }

    /// Bytes of the whole table.
    pub(super) fn byte_len(self) -> u64 {
        // A quota beyond all memory is refused by the system, not cut.
        self.slots.saturating_mul(self.slot_len.saturating_add(ENTRY_LEN as u64))
    }

    /// Bytes that blocks may take.
    pub(super) fn quota(self) -> u64 {
        self.slots * self.slot_len
    }

    /// The slots that a block may be in.
    pub(super) fn probed(self, name: BlockName) -> impl Iterator<Item = u64> + Clone {
        let first = name.number(8).checked_rem(self.slots).unwrap_or(0);
        (0..PROBED.min(self.slots)).map(move |step| (first + step) % self.slots)
    }

    pub(super) fn entry_at(self, slot: u64) -> u64 {
        slot * ENTRY_LEN as u64
    }

    pub(super) fn slot_at(self, slot: u64) -> u64 {
        self.slots * ENTRY_LEN as u64 + slot * self.slot_len
    }

    pub(super) fn slot_len(self) -> u64 {
        self.slot_len
    }
}

/// Where the bytes of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerSlot {
    pub(super) rank: usize,
    pub(super) slot: u64,
    pub(super) len: u64,
}

/// What stands in a table of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableEntry {
    pub(super) name: BlockName,
    pub(super) len: u64,
    /// The checksum of its bytes.
    pub(super) checksum: u32,
}

impl TableEntry {
    fn to_bytes(self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..16].copy_from_slice(&self.name.0);
        bytes[16..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.to_le_bytes());
        bytes[28] = 1;
        let own = crc32c::crc32c(&bytes[..32]);
        bytes[32..36].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// The entry that `bytes` are; nothing where there is none, or it is just being written.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (body, rest) = bytes.split_at_checked(32)?;
        let own = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
        if body[28] != 1 || crc32c::crc32c(body) != own {
            return None;
        }
        Some(Self {
            name: BlockName(body[..16].try_into().ok()?),
            len: u64::from_le_bytes(body[16..24].try_into().ok()?),
            checksum: u32::from_le_bytes(body[24..28].try_into().ok()?),
        })
    }
}

/// What the owner of a table knows of it.
#[derive(Debug)]
pub(super) struct OwnTable {
    shape: TableShape,
    taken: Vec<Option<BlockName>>,
    /// How long the block in each slot is, once it is written.
    lens: Vec<Option<u64>>,
    free: u64,
    used: u64,
}

impl OwnTable {
    pub(super) fn new(shape: TableShape) -> Self {
        let slots = usize::try_from(shape.slots).unwrap_or(0);
        Self { shape, taken: vec![None; slots], lens: vec![None; slots], free: shape.slots, used: 0 }
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// The slot that holds `name`, and the length of the block where it is written and not just reserved.
    pub(super) fn slot_of(&self, name: BlockName) -> Option<(u64, Option<u64>)> {
        let slot = self.shape.probed(name).find(|slot| self.taken[index(*slot)] == Some(name))?;
        Some((slot, self.lens[index(slot)]))
    }

    /// True when a slot is free for `name`.
    pub(super) fn has_room(&self, name: BlockName) -> bool {
        self.shape.probed(name).any(|slot| self.taken[index(slot)].is_none())
    }

    /// True when no slot is free for any block.
    pub(super) fn is_full(&self) -> bool {
        self.free == 0
    }

    /// Takes a slot for `name`.
    pub(super) fn reserve(&mut self, name: BlockName) -> Option<u64> {
        let slot = self.shape.probed(name).find(|slot| self.taken[index(*slot)].is_none())?;
        self.taken[index(slot)] = Some(name);
        self.free -= 1;
        Some(slot)
    }

    /// Gives a slot back that was not written.
    pub(super) fn release(&mut self, slot: u64) {
        self.taken[index(slot)] = None;
        self.free += 1;
    }

    /// Says that the slot is written, with `len` bytes.
    pub(super) fn keep(&mut self, slot: u64, len: u64) {
        self.lens[index(slot)] = Some(len);
        self.used += len;
    }
}

fn index(slot: u64) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

/// Writes a block and then its entry, so that whoever finds the entry finds the block.
pub(super) fn write_block(
    shard: &ShardMemory,
    shape: TableShape,
    slot: u64,
    name: BlockName,
    bytes: &[u8],
) -> Result<()> {
    let entry = TableEntry { name, len: bytes.len() as u64, checksum: crc32c::crc32c(bytes) };
    shard.write(shape.slot_at(slot), bytes)?;
    fence(Release);
    shard.write(shape.entry_at(slot), &entry.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_a_torn_one_is_none() {
        let entry = TableEntry { name: BlockName([7; 16]), len: 12345, checksum: 99 };
        let bytes = entry.to_bytes();
        assert_eq!(TableEntry::parse(&bytes), Some(entry));
        assert_eq!(TableEntry::parse(&[0; ENTRY_LEN]), None);
        for at in 0..36 {
            let mut torn = bytes;
            torn[at] ^= 0x10;
            assert_eq!(TableEntry::parse(&torn), None, "byte {at}");
        }
    }

    #[test]
    fn blocks_find_a_slot_of_their_own_until_eight_neighbours_are_full() {
        let shape = TableShape::new(100 * 64, 64);
        let mut table = OwnTable::new(shape);
        let name = |number: u8| BlockName([number; 16]);
        let mut kept = 0;
        for number in 0..=255 {
            if let Some(slot) = table.reserve(name(number)) {
                table.keep(slot, 64);
                assert_eq!(table.slot_of(name(number)), Some((slot, Some(64))));
                kept += 1;
            } else {
                assert!(!table.has_room(name(number)));
            }
        }
        assert!(kept > 60 && table.used() == kept * 64);
        assert!(TableShape::new(10, 64).probed(name(1)).next().is_none(), "a quota of no slot");
    }
}
