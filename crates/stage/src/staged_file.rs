//! A new file on its way.

use std::{fs::File, os::unix::fs::FileExt, path::PathBuf};

use forebay_source::{Error, Result};

use crate::{area::publish, completion::Completion};

/// A new file that is being written in the area.
#[derive(Debug)]
pub struct StagedFile {
    file: File,
    temporary: PathBuf,
    destination: PathBuf,
}

/// A new file that is whole: two milestones tell how far it is.
#[derive(Clone, Debug)]
pub struct Sealed {
    staged: Completion,
    durable: Completion,
}

impl StagedFile {
    pub(crate) fn new(file: File, temporary: PathBuf, destination: PathBuf) -> Self {
        Self { file, temporary, destination }
    }

    /// Writes `bytes` at `offset`; the buffer may be used again at once.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.error(error))
    }

    /// Fills `into` from `offset` on, and gives how many bytes there were before the end of the file.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let len = self.len()?;
        let there = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX).min(into.len());
        self.file.read_exact_at(&mut into[..there], offset).map_err(|error| self.error(error))?;
        Ok(there)
    }

    /// Bytes of the file so far.
    pub fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.error(error))?.len())
    }

    /// True while nothing was written.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends the file to `len` bytes.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|error| self.error(error))
    }

    /// Where the file will be.
    pub fn destination(&self) -> &std::path::Path {
        &self.destination
    }

    /// Ends the writing: the file is synced in the area and drained behind the caller.
    pub fn seal(self) -> Result<Sealed> {
        let sealed = Sealed { staged: Completion::new(), durable: Completion::new() };
        sealed.staged.set(self.file.sync_all().map_err(|error| self.error(error)));
        sealed.durable.set(publish(&self.temporary, &self.destination));
        Ok(sealed)
    }

    /// Gives the file up: the destination stays as it is.
    pub fn abandon(self) {
        let _ = std::fs::remove_file(&self.temporary);
    }

    fn error(&self, error: std::io::Error) -> Error {
        Error::from_io(error).at(self.destination.display())
    }
}

impl Sealed {
    /// Reached when bytes and checksums are synced in the area: `recover` can finish it from then on.
    pub fn staged(&self) -> &Completion {
        &self.staged
    }

    /// Reached when the file is copied, verified, published and synced.
    pub fn durable(&self) -> &Completion {
        &self.durable
    }
}
