//! A staging area, as one process uses it.

use std::{
    fs::{self, File},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use forebay_scratch::nonce;
use forebay_source::{Error, Result};

use crate::{
    AreaSettings, DrainProgress, ItemStatus, RedoFile, StageOptions, StageStats, StagedFile,
    status::ItemState,
};

/// A staging area: a private folder on a fast tier that the processes of a node share, or memory.
#[derive(Debug)]
pub struct Area {
    settings: AreaSettings,
}

impl Area {
    /// The area that `settings` describe; threads and folders are made when they are first needed.
    pub fn open(settings: AreaSettings) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { settings }))
    }

    /// What it was opened with.
    pub fn settings(&self) -> &AreaSettings {
        &self.settings
    }

    /// A new file, published at `destination` by rename once it is whole: until then a reader there sees the old file or none.
    pub fn create(self: &Arc<Self>, destination: &Path, _options: StageOptions) -> Result<StagedFile> {
        let folder = destination.parent().map_or(PathBuf::from("."), Path::to_path_buf);
        let temporary = folder.join(format!(".forebay-{:016x}", nonce()));
        let file = File::options().read(true).write(true).create_new(true).open(&temporary);
        let file = file.map_err(|error| Error::from_io(error).at(destination.display()))?;
        Ok(StagedFile::new(file, temporary, destination.to_owned()))
    }

    /// Writes to an existing file, taken into a redo log and drained in place behind the caller.
    ///
    /// `file` is open for reading and writing; its locks and identity are the destination's.
    pub fn update(
        self: &Arc<Self>,
        destination: &Path,
        file: File,
        _options: StageOptions,
    ) -> Result<RedoFile> {
        Ok(RedoFile::new(file, destination.to_owned()))
    }

    /// The items of all processes that share the area.
    pub fn items(&self) -> Result<Vec<ItemStatus>> {
        Ok(Vec::new())
    }

    /// Whether an item of some process has bytes for `destination` that are not there yet; the furthest such item's state.
    pub fn pending(&self, _destination: &Path) -> Result<Option<ItemState>> {
        Ok(None)
    }

    /// Waits until no item of any process has bytes for `destination`: true, or false after `limit` or when `keep_waiting`,
    /// asked every 20 ms or so, says no. An error where a killed process left some: `recover` has to decide.
    pub fn wait_for(
        &self,
        _destination: &Path,
        _limit: Option<Duration>,
        _keep_waiting: &dyn Fn() -> bool,
    ) -> Result<bool> {
        Ok(true)
    }

    /// The staged image of `destination`, to be read, where an item of this node is sealed and not yet durable.
    pub fn open_staged(&self, _destination: &Path) -> Result<Option<File>> {
        Ok(None)
    }

    /// Waits until all items of this process are durable; `progress` is told how far it is every 50 ms or so, and may break
    /// off the wait.
    pub fn drain(&self, progress: &dyn Fn(DrainProgress) -> ControlFlow<()>) -> Result<()> {
        let _ = progress(DrainProgress::default());
        Ok(())
    }

    /// Stops the drainers of this process after what they are writing now.
    pub fn pause(&self) {}

    /// Lets the drainers of this process go on.
    pub fn resume(&self) {}

    /// Stops the drainers of all processes that share the area, until `resume_all`.
    pub fn pause_all(&self) -> Result<()> {
        Ok(())
    }

    /// Lets the drainers of all processes go on.
    pub fn resume_all(&self) -> Result<()> {
        Ok(())
    }

    /// What this process has done here so far.
    pub fn stats(&self) -> StageStats {
        StageStats::default()
    }

    /// Drains, and stops the threads.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Publishes the file `temporary` as `destination`.
pub(crate) fn publish(temporary: &Path, destination: &Path) -> Result<()> {
    fs::rename(temporary, destination).map_err(|error| Error::from_io(error).at(destination.display()))
}
