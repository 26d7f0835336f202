//! An existing file that is updated through a redo log.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use forebay_source::{Error, Result};

use crate::settings::CloseWhen;

/// An open file whose writes are accepted into a redo log and drained in place behind the caller.
///
/// # Contract
/// - A buffer may be used again when `write_at` returns.
/// - `read_at` sees every write that returned before it was called.
/// - Overlapping writes reach the destination in the order in which they were accepted.
/// - An error of the destination comes from `drain`, `stage` or `close`; what was accepted stays in the log.
#[derive(Debug)]
pub struct RedoFile {
    file: File,
    destination: PathBuf,
}

impl RedoFile {
    pub(crate) fn new(file: File, destination: PathBuf) -> Self {
        Self { file, destination }
    }

    /// The destination.
    pub fn destination(&self) -> &Path {
        &self.destination
    }

    /// The destination's open file, for its descriptor, locks and identity.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Accepts `bytes` for `offset`.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.error(error))
    }

    /// Fills `into` from `offset` on: what was accepted and is not drained from the log, the rest by `beneath`, which may be
    /// called several times.
    pub fn read_at(
        &self,
        offset: u64,
        into: &mut [u8],
        beneath: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        beneath(offset, into)
    }

    /// The smallest length that the file has once all that was accepted is drained: the end of the last accepted byte, or what
    /// `truncate` said last if nothing was written beyond; `None` where nothing was accepted yet.
    pub fn accepted_end(&self) -> Option<u64> {
        None
    }

    /// True where something was ever accepted: from then on other copies of the destination's bytes may be out of date.
    pub fn is_written(&self) -> bool {
        false
    }

    /// Cuts or extends the file to `len` bytes, in order with the writes.
    pub fn truncate(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| self.error(error))
    }

    /// Returns when all that was accepted is in the log, synced, behind a flush mark: `recover` replays at least so much.
    pub fn stage(&self) -> Result<()> {
        Ok(())
    }

    /// Returns when all that was accepted is in the destination, synced where the options ask for that.
    pub fn drain(&self) -> Result<()> {
        Ok(())
    }

    /// Ends the use of the file.
    pub fn close(self, _when: CloseWhen) -> Result<()> {
        Ok(())
    }

    fn error(&self, error: std::io::Error) -> Error {
        Error::from_io(error).at(self.destination.display())
    }
}
