//! By what a set of samples is known: on every rank, and again after a restart.

use sha2::{Digest, Sha256};

/// The samples of a set, as orders and states know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetIdentity {
    /// Samples of each part, such as a file. No group of a block shuffle crosses parts.
    pub part_lens: Vec<u64>,
    /// Samples of a group of a block shuffle.
    pub group_len: u64,
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

    /// A digest of how the samples lie in parts: part of the order of a block shuffle.
    pub fn parts_digest(&self) -> String {
        let mut hash = Sha256::new();
        for len in &self.part_lens {
            hash.update(len.to_le_bytes());
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}
