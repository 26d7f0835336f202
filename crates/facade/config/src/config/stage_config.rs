//! Where written bytes wait on their way to their destination, and how they get there.

use std::path::Path;

use forebay_process::{Error, Result, ledger};
use forebay_stage::{AreaPlace, AreaSettings};
use serde::{Deserialize, Serialize};

use crate::config::{
    amount::Amount,
    fast_place::FastPlace,
    tier::{DISK_QUOTA, DiskConfig},
};

/// Threads that bring staged bytes to their destinations.
const DRAINERS: usize = 2;
/// What staged writes may take of the memory budget.
const MEMORY: Amount = Amount::Percent(10);

/// Where written bytes wait, and how they are brought to their destinations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StageConfig {
    /// The staging area; without one, writes go straight to their destination.
    pub path: Option<FastPlace>,
    /// The most that is staged at once; a share is one of what is free there. What does not fit goes straight through.
    pub quota: Amount,
    /// What is left free on the disk; a share is one of its size. By default 5 %, at least 1 GiB and at most 4 GiB.
    pub free_floor: Option<Amount>,
    /// Threads that bring staged bytes to their destinations.
    pub drainers: usize,
    /// Bytes a second that they write at most; by default as many as the destination takes.
    pub bandwidth: Option<u64>,
    /// Memory for buffers, and for all of an area in memory; a share is one of the memory budget.
    pub memory: Amount,
    /// Whether nothing is drained until it is asked for.
    pub paused: bool,
}

impl Default for StageConfig {
    fn default() -> Self {
        Self {
            path: None,
            quota: DISK_QUOTA,
            free_floor: None,
            drainers: DRAINERS,
            bandwidth: None,
            memory: MEMORY,
            paused: false,
        }
    }
}

impl StageConfig {
    /// The staging area that is configured, if any, with shares counted out: of what is free on the disk now, and of the
    /// memory budget. Nothing is made or written.
    pub fn area(&self) -> Result<Option<AreaSettings>> {
        let memory = self.memory.of(ledger().share());
        let (place, quota, free_floor) = match &self.path {
            None => return Ok(None),
            Some(FastPlace::Memory) => (AreaPlace::Memory, memory, 0),
            Some(FastPlace::Folder(path)) => {
                let (size, free) = room(path)?;
                let disk = DiskConfig { quota: self.quota, free: self.free_floor, ..DiskConfig::at(path) };
                (AreaPlace::Folder(path.clone()), self.quota.of(free), disk.free_bytes(size))
            }
        };
        Ok(Some(AreaSettings {
            place,
            quota,
            free_floor,
            drainers: self.drainers,
            bandwidth: self.bandwidth,
            memory,
            start_paused: self.paused,
        }))
    }
}

/// The bytes of the disk that `path` lies on or would lie on, and how many of them are free.
fn room(path: &Path) -> Result<(u64, u64)> {
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let facts =
        rustix::fs::statvfs(there).map_err(|errno| Error::from_io(errno.into()).at(path.display()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
    Ok((bytes(facts.f_blocks), bytes(facts.f_bavail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_out_and_nothing_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/there");
        let place = Some(FastPlace::Folder(path.clone()));
        let config = StageConfig { path: place, quota: Amount::Percent(50), ..StageConfig::default() };
        let area = config.area().unwrap().unwrap();
        assert_eq!(area.place, AreaPlace::Folder(path.clone()));
        let (size, free) = room(folder.path()).unwrap();
        assert!(area.quota <= size / 2 && free > 0, "{area:?}");
        assert!((1 << 30..=4 << 30).contains(&area.free_floor), "{area:?}");
        assert!(!path.exists());
        let whole = StageConfig { quota: Amount::Bytes(7), free_floor: Some(Amount::Bytes(5)), ..config };
        let area = whole.area().unwrap().unwrap();
        assert_eq!((area.quota, area.free_floor), (7, 5));
    }

    #[test]
    fn an_area_in_memory_holds_what_its_memory_does_and_none_is_none() {
        assert_eq!(StageConfig::default().area().unwrap(), None);
        let memory = Amount::Bytes(1 << 20);
        let config = StageConfig { path: Some(FastPlace::Memory), memory, ..StageConfig::default() };
        let area = config.area().unwrap().unwrap();
        assert_eq!((area.place, area.quota, area.memory), (AreaPlace::Memory, 1 << 20, 1 << 20));
    }
}
