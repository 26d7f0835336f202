//! A name for a block that is the same on every host: a hash of the source, its version and the block's number.

use forebay_source::SourceId;
use sha2::{Digest, Sha256};

/// Which block of which version of which source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockDigest {
    /// Where a table begins to look for it.
    pub(crate) place: u64,
    /// What tells it from others there.
    pub(crate) rest: u64,
}

/// The blocks of one source, named.
#[derive(Clone, Debug)]
pub(crate) struct SourceDigest(Sha256);

impl SourceDigest {
    /// The names of blocks of `source`.
    pub(crate) fn new(source: &SourceId) -> Self {
        let mut hash = Sha256::new();
        // Not what only one host knows of the file, such as its inode.
        for part in [source.locator.as_str(), &source.version.tag] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.update(source.len.to_le_bytes());
        Self(hash)
    }

    /// The name of `block`.
    pub(crate) fn block(&self, block: u64) -> BlockDigest {
        let hash = self.0.clone().chain_update(block.to_le_bytes()).finalize();
        let word = |at: usize| hash[at..at + 8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        BlockDigest { place: word(0), rest: word(8) }
    }
}

#[cfg(test)]
mod tests {
    use forebay_source::{Locator, Version};

    use super::*;

    #[test]
    fn blocks_sources_and_versions_have_names_of_their_own() {
        let id = |name: &str, tag: &str| SourceId {
            locator: Locator::new(name),
            len: 10,
            version: Version::named(tag),
        };
        let name = |source: &str, tag: &str, block| SourceDigest::new(&id(source, tag)).block(block);
        assert_eq!(name("a", "1", 3), name("a", "1", 3));
        for other in [name("a", "1", 4), name("a", "2", 3), name("a1", "", 3), name("b", "1", 3)] {
            assert_ne!(other, name("a", "1", 3));
        }
    }
}
