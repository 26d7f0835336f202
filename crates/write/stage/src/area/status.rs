//! What is said of an area and of the items in it.

use std::{path::PathBuf, time::SystemTime};

use serde::{Deserialize, Serialize};

/// How far an item is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemState {
    /// Still being written.
    Open,
    /// Whole, with checksums, and synced in the area.
    Sealed,
    /// On its way to the destination.
    Draining,
    /// In the destination: the item is about to leave the area.
    Settled,
    /// The destination refused it; its bytes stay in the area.
    Failed,
}

impl ItemState {
    /// The state as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sealed => "sealed",
            Self::Draining => "draining",
            Self::Settled => "settled",
            Self::Failed => "failed",
        }
    }
}

/// Whether who opens the destination of an item has to wait for it.
pub(crate) fn waits(state: ItemState) -> bool {
    !matches!(state, ItemState::Open | ItemState::Settled)
}

/// What an item is: a new file or the update of an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ItemKind {
    /// A new file, published by rename.
    Create,
    /// Writes to an existing file, through a redo log.
    Update,
}

impl ItemKind {
    /// The kind as one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
        }
    }
}

/// One item of an area, of whichever process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemStatus {
    /// Its name, for `recover`.
    pub id: String,
    /// New file or update.
    pub kind: ItemKind,
    /// Where its bytes go.
    pub destination: PathBuf,
    /// How far it is.
    pub state: ItemState,
    /// Bytes of it in the area.
    pub bytes: u64,
    /// The machine of the process that writes it.
    pub host: String,
    /// The process that writes it.
    pub pid: u32,
    /// Whether no process has it any more: `recover` finishes it. Of other machines that is not known, and false.
    pub is_deserted: bool,
    /// When it was begun.
    pub since: SystemTime,
    /// Why the destination refused it.
    pub error: Option<String>,
}

/// How far a drain is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Items that are not durable yet.
    pub items_left: u64,
    /// Bytes of them that are not in their destinations yet.
    pub bytes_left: u64,
    /// Bytes that reached their destinations since the wait began.
    pub bytes_done: u64,
}

/// What an area of this process has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageStats {
    /// Bytes that were taken into the area.
    pub staged_bytes: u64,
    /// Writes that were taken into the area.
    pub staged_writes: u64,
    /// New files that were sealed.
    pub sealed_files: u64,
    /// New files that were published.
    pub published_files: u64,
    /// Bytes that went straight to their destinations because the area was full.
    pub passed_through_bytes: u64,
    /// Writes that did.
    pub passed_through_writes: u64,
    /// Bytes that drainers have written to destinations.
    pub drained_bytes: u64,
    /// Writes by drainers to destinations.
    pub drain_writes: u64,
    /// Staged writes that went to the destination together with another, or were overwritten before.
    pub merged_writes: u64,
    /// Syncs of destinations.
    pub destination_syncs: u64,
    /// Bytes of the fast tier that this process has reserved.
    pub reserved_bytes: u64,
    /// Bytes that are not in their destinations yet.
    pub pending_bytes: u64,
    /// Drains that failed.
    pub failures: u64,
}
