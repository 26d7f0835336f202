//! A file in memory.

use std::{fs::File, path::Path};

use memmap2::Mmap;

use crate::Outcome;

/// Maps the whole of a file for reading.
#[expect(unsafe_code, reason = "a mapped file is a slice only while nobody changes it")]
pub(crate) fn map(path: &Path) -> Outcome<Mmap> {
    let file = File::open(path)?;
    // SAFETY: the benchmark made the file and published it whole by a rename; nobody writes to it after that.
    Ok(unsafe { Mmap::map(&file) }?)
}
