//! What the destination of an update looked like after the last drain, and how far the log is drained.
//!
//! Two slots of 80 bytes are written in turn, each with a number and a CRC32C: a write that was cut leaves the other.
//!
//! ```text
//! "FBF1" | crc u32 | number | device | inode | len | modified_ns | flags | base | pending_bytes | born_ns       each u64
//! flags: bit 0 active | bit 1 foreign | from bit 2 on the last promised record
//! ```
//!
//! Earlier versions wrote and read the first two bits of the flags alone: they promise nothing, and lose what later ones promised.

use std::{
    fs::File,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use forebay_process::{Error, Result};
use forebay_scratch::disk;

use crate::on_disk::stamp::FileStamp;

const SLOT_LEN: usize = 80;
const MAGIC: u32 = u32::from_le_bytes(*b"FBF1");
/// Where the promised record begins in the flags. A record takes 64 bytes: the bits that are left number more than any disk has.
const PROMISED_SHIFT: u32 = 2;

/// What is known of the destination of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DestinationFacts {
    /// The destination when nothing was being written to it.
    pub(crate) stamp: FileStamp,
    /// Whether the process had begun to write to it since.
    pub(crate) is_active: bool,
    /// Whether others had changed it before, while records waited for it.
    pub(crate) is_foreign: bool,
    /// The first record that is not in the destination.
    pub(crate) base: u64,
    /// Bytes that are not in the destination, roughly.
    pub(crate) pending_bytes: u64,
    /// The last record that a flush promised: those up to it are in the log, synced, or in the destination. 0 where nothing was promised,
    /// or by an earlier version.
    pub(crate) promised: u64,
}

/// The file that holds the facts.
#[derive(Debug)]
pub(crate) struct FactsFile {
    file: File,
    written: AtomicU64,
}

impl FactsFile {
    /// A file that nothing was written to yet.
    pub(crate) fn new(file: File) -> Self {
        Self { file, written: AtomicU64::new(1) }
    }

    /// A file that another process has left: numbers go on behind its newest slot, so that the first write hits the older one.
    pub(crate) fn reopen(file: File) -> Result<Self> {
        let last = read_slots(&file)?.map_or(0, |(number, _)| number);
        Ok(Self { file, written: AtomicU64::new(last.wrapping_add(1)) })
    }

    /// Writes `facts` to the older slot.
    pub(crate) fn write(&self, facts: &DestinationFacts) -> Result<()> {
        let number = self.written.fetch_add(1, Relaxed);
        let slot = encode(facts, number);
        disk::write_all_at(&self.file, &slot, (number % 2) * SLOT_LEN as u64).map_err(Error::from_io)
    }

    /// The newest facts; also of a process that has forked this one.
    pub(crate) fn read(&self) -> Result<Option<DestinationFacts>> {
        read_facts(&self.file)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        disk::sync_all(&self.file).map_err(Error::from_io)
    }
}

/// The newest facts in `file`; nothing where it has none that are whole.
pub(crate) fn read_facts(file: &File) -> Result<Option<DestinationFacts>> {
    Ok(read_slots(file)?.map(|(_, facts)| facts))
}

fn read_slots(file: &File) -> Result<Option<(u64, DestinationFacts)>> {
    let mut bytes = [0; SLOT_LEN * 2];
    let len = disk::read_at(file, &mut bytes, 0).map_err(Error::from_io)?;
    Ok(newest_slot(&bytes[..len]))
}

/// The newest facts in the bytes of a facts file.
pub(crate) fn newest(bytes: &[u8]) -> Option<DestinationFacts> {
    newest_slot(bytes).map(|(_, facts)| facts)
}

/// The newest sound slot, with its number.
fn newest_slot(bytes: &[u8]) -> Option<(u64, DestinationFacts)> {
    let slots = bytes.chunks_exact(SLOT_LEN).take(2).filter_map(|slot| decode(slot.try_into().ok()?));
    slots.max_by_key(|(number, _)| *number)
}

fn encode(facts: &DestinationFacts, number: u64) -> [u8; SLOT_LEN] {
    let mut slot = [0; SLOT_LEN];
    slot[..4].copy_from_slice(&MAGIC.to_le_bytes());
    let stamp = &facts.stamp;
    let numbers = [
        number,
        stamp.device,
        stamp.inode,
        stamp.len,
        stamp.modified_ns,
        u64::from(facts.is_active) | u64::from(facts.is_foreign) << 1 | facts.promised << PROMISED_SHIFT,
        facts.base,
        facts.pending_bytes,
        stamp.born_ns,
    ];
    for (index, number) in numbers.iter().enumerate() {
        slot[8 + 8 * index..][..8].copy_from_slice(&number.to_le_bytes());
    }
    let sum = crc32c::crc32c(&slot[8..]);
    slot[4..8].copy_from_slice(&sum.to_le_bytes());
    slot
}

fn decode(slot: &[u8; SLOT_LEN]) -> Option<(u64, DestinationFacts)> {
    let word = |at: usize| u32::from_le_bytes([slot[at], slot[at + 1], slot[at + 2], slot[at + 3]]);
    let is_sound = word(0) == MAGIC && (cfg!(fuzzing) || word(4) == crc32c::crc32c(&slot[8..]));
    let number = |index: usize| u64::from(word(8 + 8 * index)) | u64::from(word(12 + 8 * index)) << 32;
    let stamp = FileStamp {
        device: number(1),
        inode: number(2),
        // Zeros before there were births in it.
        born_ns: number(8),
        len: number(3),
        modified_ns: number(4),
    };
    let facts = DestinationFacts {
        stamp,
        is_active: number(5) & 1 != 0,
        is_foreign: number(5) & 2 != 0,
        base: number(6),
        pending_bytes: number(7),
        promised: number(5) >> PROMISED_SHIFT,
    };
    is_sound.then_some((number(0), facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sound_slot_is_read_and_a_torn_one_leaves_the_older() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let facts = FactsFile::new(named.reopen().unwrap());
        assert_eq!(facts.read().unwrap(), None);
        let stamp = FileStamp { device: 1, inode: 2, born_ns: 5, len: 3, modified_ns: 4 };
        let mut written = DestinationFacts {
            stamp,
            is_active: false,
            is_foreign: true,
            base: 0,
            pending_bytes: 9,
            promised: 0,
        };
        for base in 1..6 {
            (written.base, written.promised) = (base, 7 * base);
            facts.write(&written).unwrap();
            assert_eq!(facts.read().unwrap(), Some(written));
        }
        disk::write_all_at(named.as_file(), &[0xff; 8], SLOT_LEN as u64 + 20).unwrap();
        assert_eq!(facts.read().unwrap().unwrap().base, 4);
    }

    #[test]
    fn a_file_that_is_opened_again_keeps_its_newest_slot_until_a_newer_one_is_whole() {
        for count in 1..5 {
            let named = tempfile::NamedTempFile::new().unwrap();
            let mut written = DestinationFacts {
                stamp: FileStamp::default(),
                is_active: false,
                is_foreign: false,
                base: 0,
                pending_bytes: 0,
                promised: 0,
            };
            let facts = FactsFile::new(named.reopen().unwrap());
            for base in 1..=count {
                written.base = base;
                facts.write(&written).unwrap();
            }
            let again = FactsFile::reopen(named.reopen().unwrap()).unwrap();
            written.base = count + 1;
            again.write(&written).unwrap();
            assert_eq!(again.read().unwrap(), Some(written));
            // Torn, the new slot leaves the one before it.
            let slot = (count + 1) % 2 * SLOT_LEN as u64;
            disk::write_all_at(named.as_file(), &[0xff; 8], slot + 20).unwrap();
            assert_eq!(again.read().unwrap().map(|facts| facts.base), Some(count));
        }
    }
}
