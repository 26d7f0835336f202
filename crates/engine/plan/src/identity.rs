//! By what a set of samples is known: on every rank, and again after a restart.

use sha2::{Digest, Sha256};

/// The samples of a set, as orders and states know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetIdentity {
    /// Samples of each part, such as a file. No group of a block shuffle crosses parts.
    pub part_lens: Vec<u64>,
    /// Samples of a group of a block shuffle.
    pub group_len: u64,
    /// Digest of the numbers that samples have in the order in which they lie; `None` where they are numbered in that order.
    pub numbering: Option<String>,
    /// Differs when other samples, or other types or shapes of them, are made.
    pub content: String,
    /// Differs also when the same samples were written anew.
    pub version: String,
}

impl SetIdentity {
    /// How many samples there are.
    pub fn sample_count(&self) -> u64 {
        self.part_lens.iter().sum()
    }

    /// Digest of how the samples lie in parts, and of how they are numbered there: part of the order of a block shuffle.
    pub fn parts_digest(&self) -> String {
        self.digest(self.numbering.as_deref())
    }

    /// Digest of the lengths of the parts alone, as states had it that were written without the numbering.
    pub(crate) fn lens_digest(&self) -> String {
        self.digest(None)
    }

    fn digest(&self, numbering: Option<&str>) -> String {
        let mut hash = Sha256::new();
        for len in &self.part_lens {
            hash.update(len.to_le_bytes());
        }
        if let Some(numbering) = numbering {
            hash.update(b"numbering");
            hash.update(numbering.as_bytes());
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}
