//! What a disk tier is made of: plain settings.

use std::path::PathBuf;

/// What a disk tier is made of.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// A folder on a local disk, in which the tier makes one of its own.
    pub path: PathBuf,
    /// The most bytes of copies, over all processes.
    pub quota: u64,
    /// Bytes of the file system that stay free.
    pub free: u64,
    /// Whether copies outlive the job.
    pub keep: bool,
    /// Bytes of a block.
    pub block_len: u64,
}
