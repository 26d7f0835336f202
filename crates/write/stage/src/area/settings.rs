//! What a staging area may take, and what is wanted of one file.

use std::path::PathBuf;

use forebay_process::{Error, Result};
use forebay_scratch::disk;

/// Where a staging area lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AreaPlace {
    /// In `forebay-stage-UID` in this folder, on a disk of the node: it outlives the process.
    Folder(PathBuf),
    /// In memory of this process: what is not drained when it is killed is lost.
    Memory,
}

/// What a staging area may take of the fast tier and of the destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaSettings {
    /// Where it lies.
    pub place: AreaPlace,
    /// The most bytes that the areas of all processes in this place take together.
    pub quota: u64,
    /// Bytes that stay free on the file system of the area.
    pub free_floor: u64,
    /// Threads that move bytes to their destinations; without any, those that seal, flush or drain do it.
    pub drainers: usize,
    /// The most bytes per second to all destinations together.
    pub bandwidth: Option<u64>,
    /// The most bytes of buffers; in memory, of the area too.
    pub memory: u64,
    /// Whether nothing is drained before `resume`.
    pub start_paused: bool,
}

impl AreaSettings {
    /// An area in `place` with room for 16 GiB, two drainers and no limit of bandwidth.
    pub fn new(place: AreaPlace) -> Self {
        Self {
            place,
            quota: 16 << 30,
            free_floor: 1 << 30,
            drainers: 2,
            bandwidth: None,
            memory: 1 << 30,
            start_paused: false,
        }
    }

    /// An area in `forebay-stage-UID` in `folder`.
    pub fn folder(folder: impl Into<PathBuf>) -> Self {
        Self::new(AreaPlace::Folder(folder.into()))
    }

    /// An area in memory.
    pub fn memory() -> Self {
        Self::new(AreaPlace::Memory)
    }

    /// Makes the folder that it lies in, with those above it, and syncs the names of those that it makes: without them a power loss
    /// would take all that is synced there.
    pub fn make_folder(&self) -> Result<()> {
        match &self.place {
            AreaPlace::Folder(folder) => {
                disk::make_directories(folder).map_err(|error| Error::from_io(error).at(folder.display()))
            }
            AreaPlace::Memory => Ok(()),
        }
    }
}

/// How far a drain goes before it counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrainSync {
    /// Written to the destination, as a plain `write` would have.
    #[default]
    Written,
    /// Written and synced (`fdatasync`): it outlives a power loss. New files always are.
    Synced,
}

/// What is wanted of one staged file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageOptions {
    /// Items of a higher priority are drained first.
    pub priority: i32,
    /// A symbolic link that leads to the newest durable file: moved when this one is, and not before.
    pub latest: Option<PathBuf>,
    /// How far a drain of an update goes.
    pub sync: DrainSync,
    /// Whether a new file is created exclusively: nothing may have its name, and an empty file keeps the name until it is published.
    pub is_exclusive: bool,
    /// Whether others write to an updated file at the same time, by agreement: ranks of a job, for example. `recover` then does
    /// not ask about their changes.
    pub is_shared: bool,
    /// Whether a copy is read back from the destination and compared before it is published.
    pub read_back: bool,
}

/// When the close of an updated file returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseWhen {
    /// When all is in the destination.
    Drained,
    /// When all is in the log and synced: the drain goes on behind, until the area is closed or the process ends.
    Staged,
}
