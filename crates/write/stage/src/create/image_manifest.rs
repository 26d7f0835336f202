//! What a sealed image holds.

use serde::{Deserialize, Serialize};

/// The checksums of a sealed image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageSums {
    pub(crate) len: u64,
    /// Ranges that are in the image; the others are passed through, or holes.
    pub(crate) held: Vec<(u64, u64)>,
    /// Number of each block that holds bytes, and the CRC32C of those.
    pub(crate) sums: Vec<(u64, u32)>,
}
