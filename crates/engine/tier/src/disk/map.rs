//! Which blocks of a mirror are there: a small file beside it that may lie.
//!
//! ```text
//! "fbaymap" version | block_len | len | nonce | id_len | crc     40 bytes
//! id of the source                                       padded to 64
//! seal: hash of boot and of the mirror's stamp | uses    64 bytes
//! one entry per block: crc32c of its bytes | check       8 bytes each
//! ```
//!
//! An entry counts only if its check fits its number, its checksum and the source: what was never written, torn or
//! put elsewhere does not. The nonce is in the name of the bytes too: a map never meets the bytes of another mirror.

use std::{
    fs::File,
    io::{Error, ErrorKind, Result},
    os::unix::fs::FileExt,
};

use forebay_source::SourceId;
use sha2::{Digest, Sha256};

use crate::block::SourceBlocks;

const MAGIC: [u8; 8] = *b"fbaymap\x02";
const HEADER_LEN: usize = 40;
const SEAL_LEN: u64 = 64;
const ENTRY_LEN: u64 = 8;
/// Locators are no longer than paths or URLs are.
const MOST_ID_BYTES: u32 = 1 << 16;
/// Entries that are looked at by one read.
const ENTRIES_PER_READ: u64 = 512;

/// Where things lie in the map of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MapLayout {
    /// Tells a mirror from all that had its name before: what is known of one is never taken for another's.
    pub(super) nonce: u64,
    seal_at: u64,
    entries_at: u64,
    /// Mixed into every check, so that an entry fits one source only.
    salt: u32,
}

/// What a map says it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapHeader {
    pub(super) id: SourceId,
    pub(super) blocks: SourceBlocks,
    pub(super) layout: MapLayout,
}

/// The bytes a map of `id` begins with, and where the rest lies; nothing for ids that cannot be written down.
pub(super) fn header(id: &SourceId, blocks: SourceBlocks, nonce: u64) -> Option<(Vec<u8>, MapLayout)> {
    let id = postcard::to_stdvec(id).ok()?;
    let id_len = u32::try_from(id.len()).ok().filter(|len| *len <= MOST_ID_BYTES)?;
    let mut bytes = MAGIC.to_vec();
    for number in [blocks.block_len(), blocks.len(), nonce] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(id_len.to_le_bytes());
    let salt = crc32c::crc32c_append(crc32c::crc32c(&bytes), &id);
    bytes.extend(salt.to_le_bytes());
    bytes.extend(id);
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    let seal_at = bytes.len() as u64;
    Some((bytes, MapLayout { nonce, seal_at, entries_at: seal_at + SEAL_LEN, salt }))
}

/// True for the error of a file that was read and is no map; others say nothing of what the file holds.
pub(super) fn is_no_map(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

/// What the map in `file` says it is of.
pub(super) fn read_header(file: &File) -> Result<MapHeader> {
    let wrong = || Error::from(ErrorKind::InvalidData);
    let mut fixed = [0; HEADER_LEN];
    file.read_exact_at(&mut fixed, 0)?;
    let number = |at: usize| fixed.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let id_len = fixed.get(32..36).and_then(|len| len.try_into().ok()).map(u32::from_le_bytes);
    let id_len = id_len.filter(|len| fixed[..8] == MAGIC && *len <= MOST_ID_BYTES).ok_or_else(wrong)?;
    let mut id = vec![0; id_len as usize];
    file.read_exact_at(&mut id, HEADER_LEN as u64)?;
    let parse = || {
        let (id, blocks) = (postcard::from_bytes(&id).ok()?, SourceBlocks::new(number(16)?, number(8)?));
        let (expected, layout) = header(&id, blocks, number(24)?)?;
        (expected.get(..HEADER_LEN)? == fixed).then_some(MapHeader { id, blocks, layout })
    };
    parse().ok_or_else(wrong)
}

/// What tells that a mirror is whole and unchanged: the boot, and the stamp of its file.
pub(super) fn seal(boot: &str, stamp: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [boot, stamp] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl MapLayout {
    fn check(&self, block: u64, crc: u32) -> u32 {
        let check =
            crc32c::crc32c_append(self.salt, &[block.to_le_bytes(), u64::from(crc).to_le_bytes()].concat());
        // Nothing is written where a file has a hole, so no check may be nothing.
        check.max(1)
    }

    fn at(&self, block: u64) -> u64 {
        self.entries_at + block.saturating_mul(ENTRY_LEN)
    }

    /// The checksum of `block`, if it is there.
    pub(super) fn get(&self, file: &File, block: u64) -> Option<u32> {
        let mut entry = [0; 8];
        file.read_exact_at(&mut entry, self.at(block)).ok()?;
        self.parse(entry, block)
    }

    fn parse(&self, entry: [u8; 8], block: u64) -> Option<u32> {
        let [a, b, c, d, e, f, g, h] = entry;
        let crc = u32::from_le_bytes([a, b, c, d]);
        (u32::from_le_bytes([e, f, g, h]) == self.check(block, crc)).then_some(crc)
    }

    /// Says that `block` is there, with the checksum `crc`.
    pub(super) fn set(&self, file: &File, block: u64, crc: u32) -> Result<()> {
        let mut entry = [0; 8];
        entry[..4].copy_from_slice(&crc.to_le_bytes());
        entry[4..].copy_from_slice(&self.check(block, crc).to_le_bytes());
        file.write_all_at(&entry, self.at(block))
    }

    /// Says that `block` is not there.
    pub(super) fn unset(&self, file: &File, block: u64) {
        let _ = file.write_all_at(&[0; 8], self.at(block));
    }

    /// The first block from `from` on, below `count`, that is not there.
    pub(super) fn first_absent(&self, file: &File, from: u64, count: u64) -> u64 {
        let mut entries = Vec::new();
        let mut block = from;
        while block < count {
            let together = ENTRIES_PER_READ.min(count - block);
            entries.resize(usize::try_from(together * ENTRY_LEN).unwrap_or(0), 0);
            if file.read_exact_at(&mut entries, self.at(block)).is_err() {
                // The file ends with the last entry that was written.
                return if together > 1 { self.first_absent_singly(file, block, count) } else { block };
            }
            for entry in entries.as_chunks::<8>().0 {
                if self.parse(*entry, block).is_none() {
                    return block;
                }
                block += 1;
            }
        }
        count
    }

    fn first_absent_singly(&self, file: &File, from: u64, count: u64) -> u64 {
        (from..count).find(|block| self.get(file, *block).is_none()).unwrap_or(count)
    }

    /// How many bytes of `blocks` are there.
    pub(super) fn present_bytes(&self, file: &File, blocks: SourceBlocks) -> u64 {
        let len = file.metadata().map_or(0, |facts| facts.len());
        // No more entries than the file has bytes for, whatever it says of its source.
        let written = len.saturating_sub(self.entries_at).div_ceil(ENTRY_LEN).min(blocks.count());
        let mut entries = vec![0; usize::try_from(written * ENTRY_LEN).unwrap_or(0)];
        let mut read = 0;
        while read < entries.len() {
            match file.read_at(&mut entries[read..], self.entries_at + read as u64) {
                Ok(0) | Err(_) => break,
                Ok(count) => read += count,
            }
        }
        let present = (0..written).zip(entries.as_chunks::<8>().0);
        present
            .filter(|(block, entry)| self.parse(**entry, *block).is_some())
            .map(|(block, _)| blocks.range(block).len())
            .sum()
    }

    /// The seal, all zeros where there is none.
    pub(super) fn read_seal(&self, file: &File) -> [u8; 32] {
        let mut seal = [0; 32];
        match file.read_exact_at(&mut seal, self.seal_at) {
            Ok(()) => seal,
            Err(_) => [0; 32],
        }
    }

    /// Where the number of uses stands.
    pub(super) fn uses_at(&self) -> u64 {
        self.seal_at + 32
    }

    /// How often the mirror was used, about.
    pub(super) fn uses(&self, file: &File) -> u64 {
        let mut uses = [0; 8];
        file.read_exact_at(&mut uses, self.uses_at()).map_or(0, |()| u64::from_le_bytes(uses))
    }

    pub(super) fn write_seal(&self, file: &File, seal: [u8; 32]) {
        let _ = file.write_all_at(&seal, self.seal_at);
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, Version};

    use super::*;

    fn made(locator: &str) -> (File, SourceId, SourceBlocks, MapLayout) {
        let id = SourceId { locator: Locator::new(locator), len: 1050, version: Version::named("v") };
        let blocks = SourceBlocks::new(id.len, 100);
        let (bytes, layout) = header(&id, blocks, 5).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        (file, id, blocks, layout)
    }

    #[test]
    fn entries_are_there_once_written_and_count_the_short_last_block() {
        let (file, id, blocks, layout) = made("a");
        assert_eq!(read_header(&file).unwrap(), MapHeader { id, blocks, layout });
        assert_eq!(layout.first_absent(&file, 0, 11), 0);
        for block in [0, 1, 10] {
            layout.set(&file, block, 77).unwrap();
        }
        assert_eq!((layout.get(&file, 1), layout.get(&file, 2)), (Some(77), None));
        assert_eq!(layout.first_absent(&file, 0, 11), 2);
        assert_eq!(layout.present_bytes(&file, blocks), 250);
        layout.unset(&file, 0);
        assert_eq!(layout.present_bytes(&file, blocks), 150);
        for block in 0..11 {
            layout.set(&file, block, 0).unwrap();
        }
        assert_eq!(layout.first_absent(&file, 3, 11), 11);
    }

    #[test]
    fn an_entry_of_another_block_or_another_source_does_not_count() {
        let (file, _, _, layout) = made("a");
        layout.set(&file, 3, 77).unwrap();
        let mut entry = [0; 8];
        file.read_exact_at(&mut entry, layout.at(3)).unwrap();
        file.write_all_at(&entry, layout.at(4)).unwrap();
        assert_eq!(layout.get(&file, 4), None);
        let (other, _, _, other_layout) = made("b");
        other.write_all_at(&entry, other_layout.at(3)).unwrap();
        assert_eq!(other_layout.get(&other, 3), None);
    }

    #[test]
    fn a_file_that_is_no_map_or_was_changed_is_none() {
        let (file, ..) = made("a");
        for at in [0, 9, 17, 25, 33, 37, 41] {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert!(is_no_map(&read_header(&file).unwrap_err()), "byte {at}");
            file.write_all_at(&byte, at).unwrap();
        }
        assert!(read_header(&file).is_ok());
        assert!(is_no_map(&read_header(&tempfile::tempfile().unwrap()).unwrap_err()));
        let folder = File::open(std::env::temp_dir()).unwrap();
        assert!(!is_no_map(&read_header(&folder).unwrap_err()), "one that cannot be read says nothing");
    }
}
