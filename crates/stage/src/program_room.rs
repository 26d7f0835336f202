//! The room that is left for files that programs write: a small file in the folder of the run, written by the process that has the area.
//!
//! Programs add what they are about to write to [`RunCounter::StagedRoom`], which all processes of the run share. The process that has the area looks at the
//! images every few milliseconds and publishes up to which count programs may go on: the count before the look, and the room that it found. What was
//! written over, removed or brought to its destination is room again after the next look.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use forebay_scratch::{RunCounter, RunCounters};
use forebay_source::{Error, Result};

/// How far programs may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomNotice {
    /// The highest count of [`RunCounter::StagedRoom`] for which there is room.
    pub limit: u64,
    /// How many looks there were: one that began after a moment is over once there were two more than at that moment.
    pub looks: u64,
}

/// Where programs find it.
#[derive(Clone, Debug)]
pub struct ProgramRoom {
    path: PathBuf,
}

impl ProgramRoom {
    /// The room for images in `images`, in the folder `names` of the run.
    pub(crate) fn beside(names: &Path, images: &Path) -> Self {
        let mut name = std::ffi::OsString::from("room-");
        name.push(images.file_name().unwrap_or_default());
        Self { path: names.join(name) }
    }

    /// What was published last; nothing where nobody publishes it.
    pub fn notice(&self) -> Option<RoomNotice> {
        let mut bytes = [0; 16];
        File::open(&self.path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
        let [limit, looks] = [0, 8].map(|at| bytes[at..at + 8].try_into().map(u64::from_le_bytes));
        Some(RoomNotice { limit: limit.ok()?, looks: looks.ok()? })
    }
}

/// The side that publishes it.
#[derive(Debug)]
pub(crate) struct RoomPublisher {
    room: ProgramRoom,
    file: File,
    looks: u64,
    /// Nothing where the run counts nothing: programs take no room then.
    counters: Option<RunCounters>,
}

impl RoomPublisher {
    pub(crate) fn create(room: ProgramRoom, run: &Path) -> Result<Self> {
        let options = File::options().write(true).create(true).truncate(true).mode(0o600).clone();
        let made = options.open(&room.path).map_err(|error| Error::from_io(error).at(room.path.display()));
        Ok(Self { file: made?, room, looks: 0, counters: RunCounters::open(run).ok() })
    }

    /// What programs have taken until now; asked for before a look.
    pub(crate) fn taken(&self) -> u64 {
        self.counters.as_ref().map_or(0, |counters| counters.get(RunCounter::StagedRoom))
    }

    /// Publishes what a look has found that began when programs had taken `taken`.
    pub(crate) fn publish(&mut self, taken: u64, left: u64) {
        self.looks += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&taken.saturating_add(left).to_le_bytes());
        bytes[8..].copy_from_slice(&self.looks.to_le_bytes());
        // Where it cannot be written, programs keep to what they were told before.
        let _ = self.file.write_all_at(&bytes, 0);
    }
}

impl Drop for RoomPublisher {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.room.path);
    }
}

#[cfg(test)]
mod tests {
    use forebay_scratch::OwnFolder;

    use super::*;

    #[test]
    fn programs_are_told_how_far_they_may_go_on_from_what_they_had_taken_before_the_look() {
        let outer = tempfile::tempdir().unwrap();
        let run = OwnFolder::create_in(outer.path(), "run").unwrap();
        let counters = RunCounters::create(run.path()).unwrap();
        let room = ProgramRoom::beside(run.path(), Path::new("/area/p-1"));
        assert_eq!(room.notice(), None);
        let mut publisher = RoomPublisher::create(room.clone(), run.path()).unwrap();
        assert_eq!(room.notice(), None, "nothing was published");
        counters.add(RunCounter::StagedRoom, 70);
        let taken = publisher.taken();
        counters.add(RunCounter::StagedRoom, 5);
        publisher.publish(taken, 30);
        assert_eq!(room.notice(), Some(RoomNotice { limit: 100, looks: 1 }));
        drop(publisher);
        assert_eq!(room.notice(), None);
    }
}
