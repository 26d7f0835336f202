//! A new file on its way.

use std::{path::Path, sync::Arc};

use forebay_process::{Error, ErrorKind, ProcessIdentity, Result, current_process};

use crate::{
    area::{completion::Completion, engine::EngineCell, process_end::drain_at_end},
    create::image_state::ImageState,
};

/// A new file that is being written in the area; dropped without `seal`, it is given up.
#[derive(Debug)]
pub struct StagedFile {
    cell: Arc<EngineCell>,
    state: Arc<ImageState>,
    process: ProcessIdentity,
}

/// A new file that is whole: two milestones tell how far it is.
#[derive(Clone, Debug)]
pub struct Sealed {
    staged: Completion,
    durable: Completion,
}

impl StagedFile {
    pub(crate) fn new(cell: Arc<EngineCell>, state: Arc<ImageState>) -> Self {
        Self { cell, state, process: current_process() }
    }

    fn state(&self) -> Result<&Arc<ImageState>> {
        if self.process == current_process() {
            return Ok(&self.state);
        }
        let error = Error::new(ErrorKind::Invalid, "was opened by the process that forked this one");
        Err(error.at(self.state.destination.display()))
    }

    /// Writes `bytes` at `offset`; the buffer may be used again at once.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.state()?.write(offset, bytes)
    }

    /// Fills `into` from `offset` on, and gives how many bytes there were before the end of the file.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.state()?.read(offset, into)
    }

    /// Bytes of the file so far.
    pub fn len(&self) -> Result<u64> {
        Ok(self.state()?.lock().len)
    }

    /// True while nothing was written.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends the file to `len` bytes.
    pub fn set_len(&self, len: u64) -> Result<()> {
        self.state()?.set_len(len)
    }

    /// Where the file will be, links followed.
    pub fn destination(&self) -> &Path {
        &self.state.destination
    }

    /// Ends the writing: the file is synced in the area and drained behind the caller.
    pub fn seal(self) -> Result<Sealed> {
        self.state()?.seal()?;
        drain_at_end(&self.cell);
        Ok(Sealed { staged: self.state.staged.clone(), durable: self.state.durable.clone() })
    }

    /// Gives the file up: the destination stays as it is.
    pub fn abandon(self) {
        drop(self);
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // Sealed files are not given up; a forked child gives up nothing of its parent's.
        if self.process == current_process() {
            self.state.abandon();
        }
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
