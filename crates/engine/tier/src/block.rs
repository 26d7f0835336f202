//! A source cut into blocks, and a name for its version.

use std::{fmt, ops::Range};

use forebay_source::{ByteRange, SourceId};
use sha2::{Digest, Sha256};

/// A source `len` bytes long, cut into blocks of `block_len`, of which the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceBlocks {
    len: u64,
    block_len: u64,
}

impl SourceBlocks {
    /// A source of `len` bytes in blocks of `block_len`, at least 1.
    pub fn new(len: u64, block_len: u64) -> Self {
        Self { len, block_len: block_len.max(1) }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.len.div_ceil(self.block_len)
    }

    /// Bytes of all but the last.
    pub fn block_len(&self) -> u64 {
        self.block_len
    }

    /// Bytes of all.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of `block`; none past the end.
    pub fn range(&self, block: u64) -> ByteRange {
        let start = block.saturating_mul(self.block_len).min(self.len);
        ByteRange { start, end: start.saturating_add(self.block_len).min(self.len) }
    }

    /// The blocks that hold bytes of `range`.
    pub fn covering(&self, range: ByteRange) -> Range<u64> {
        if range.is_empty() {
            return 0..0;
        }
        range.start / self.block_len..range.end.div_ceil(self.block_len)
    }
}

/// A name for one version of one source: the same id gives the same name, other ids give others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceKey([u8; 16]);

impl SourceKey {
    /// The name of `id`.
    pub fn of(id: &SourceId) -> Self {
        let mut hash = Sha256::new();
        // Each part with its length, so that no two ids run into the same text.
        for part in [id.locator.as_str(), &id.version.full_tag()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(id.len.to_le_bytes());
        let mut name = [0; 16];
        name.copy_from_slice(&hash.finalize()[..16]);
        Self(name)
    }

    /// The key that is shown as `text`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut name = [0; 16];
        for (byte, pair) in name.iter_mut().zip(0..16) {
            *byte = u8::from_str_radix(text.get(2 * pair..2 * pair + 2)?, 16).ok()?;
        }
        Some(Self(name))
    }

    /// The first byte, which says in which folder copies lie.
    pub(crate) fn first(self) -> u8 {
        self.0[0]
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, Version};

    use super::*;

    #[test]
    fn a_range_that_ends_on_a_border_stays_out_of_the_next_block() {
        let blocks = SourceBlocks::new(250, 100);
        assert_eq!(blocks.count(), 3);
        assert_eq!(blocks.range(2), ByteRange { start: 200, end: 250 });
        assert!(blocks.range(3).is_empty());
        assert_eq!(blocks.covering(ByteRange { start: 0, end: 100 }), 0..1);
        assert_eq!(blocks.covering(ByteRange { start: 99, end: 101 }), 0..2);
        assert_eq!(blocks.covering(ByteRange { start: 100, end: 250 }), 1..3);
        assert!(blocks.covering(ByteRange { start: 100, end: 100 }).is_empty());
    }

    #[test]
    fn each_part_of_an_id_changes_its_name() {
        let id = |locator: &str, len, tag: &str| {
            SourceKey::of(&SourceId { locator: Locator::new(locator), len, version: Version::named(tag) })
        };
        assert_eq!(id("a", 1, "v"), id("a", 1, "v"));
        for other in [id("b", 1, "v"), id("a", 2, "v"), id("a", 1, "w"), id("av", 1, "")] {
            assert_ne!(id("a", 1, "v"), other);
        }
        let key = id("a", 1, "v");
        assert_eq!(SourceKey::parse(&key.to_string()), Some(key));
        assert_eq!(SourceKey::parse("usage"), None);
    }
}
