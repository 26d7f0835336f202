//! One file of a generated set.

use std::path::PathBuf;

use forebay_workload::ElementType;
use serde::{Deserialize, Serialize};

use super::content::RandomBytes;

/// What a generated file holds; plain data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GeneratedFile {
    /// Where it will lie.
    pub(crate) path: PathBuf,
    /// Its number among all files of the set, by which its bytes differ.
    pub(crate) number: u64,
    /// How many samples it has.
    pub(crate) samples: u64,
    /// The axes of a sample; of HDF5 files, those of the part that one data set holds.
    pub(crate) shape: Vec<u64>,
    /// The type of its elements.
    pub(crate) element: ElementType,
    /// What the random bytes start from.
    pub(crate) seed: u64,
    /// One part in how many is left when the bytes are compressed.
    pub(crate) compress_ratio: f64,
}

impl GeneratedFile {
    /// Bytes of one sample.
    pub(crate) fn record_len(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.element.byte_len()
    }

    /// The side of a square picture of at most as many pixels as a sample has bytes.
    pub(crate) fn side(&self) -> u64 {
        self.record_len().isqrt()
    }

    /// What its samples hold, one after another.
    pub(crate) fn content(&self) -> RandomBytes {
        RandomBytes::new((self.seed, self.number), self.compress_ratio, self.record_len())
    }

    /// Bytes of all samples.
    pub(crate) fn data_len(&self) -> u64 {
        self.record_len() * self.samples
    }
}
