//! Where decoded units go that memory cannot hold: a file on a local disk, of one process or shared by those of a node.

use std::{
    fmt,
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{OwnFolder, SharedFile, boot_id, user_folder_name};

use crate::memory::bitmap::Bitmap;

/// A place for decoded units that memory cannot hold. It may lose them, it may never change them.
pub(crate) trait Spill: Send + Sync + fmt::Debug {
    /// Keeps the bytes of `unit`, if there is room.
    fn put(&self, unit: UnitPlace, bytes: &[u8]) -> SpillAdmission;

    /// True when `unit` is kept.
    fn has(&self, unit: UnitPlace) -> bool;

    /// Fills `into` with the bytes of `unit` from `from` on; false when they cannot be had any more.
    fn read(&self, unit: UnitPlace, from: u64, into: &mut [u8]) -> bool;

    /// True when other processes see what is put here.
    fn is_shared(&self) -> bool;
}

/// Whether a spill took something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpillAdmission {
    /// It is there.
    Kept,
    /// There is no room, or the disk fails.
    Refused,
}

/// Which unit, and where it lies among the bytes of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitPlace {
    /// Its number among all units.
    pub(crate) unit: u64,
    /// Its first byte among the bytes of all units.
    pub(crate) byte: u64,
}

/// A sparse file with a place for every unit.
///
/// It begins with a byte for each unit, which is set once the unit's bytes are written. Shared between processes it
/// needs no more than that: the kernel lets nobody see the mark before the bytes.
#[derive(Debug)]
pub(crate) struct FileSpill {
    file: SpillFile,
    /// What this process knows to be there: a file may claim more units than there is memory to mark them all.
    known: Mutex<Bitmap>,
    unit_count: u64,
    first_byte: u64,
    quota: u64,
    used: Mutex<u64>,
    broken: AtomicBool,
}

/// The file of a spill.
#[derive(Debug)]
enum SpillFile {
    /// A file without a name, of one process.
    Private(File),
    /// A file with a name, which the last process that uses it removes.
    Shared(SharedFile),
}

impl SpillFile {
    fn file(&self) -> &File {
        match self {
            Self::Private(file) => file,
            Self::Shared(shared) => shared.file(),
        }
    }

    fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }
}

const PRESENT: u8 = 1;
const EXTENSION: &str = ".spill";
/// A process has the lock of a shared spill alone for a moment when it opens or removes it.
const LIMIT: Duration = Duration::from_secs(30);

impl FileSpill {
    /// A spill of this process alone, in `folder`, for `unit_count` units; it has no name and goes with the process.
    pub(crate) fn private(folder: &Path, unit_count: u64, quota: u64) -> Result<Self> {
        let file =
            tempfile::tempfile_in(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
        Self::new(SpillFile::Private(file), unit_count, quota)
    }

    /// A spill shared by all processes that give the same `name`, removed when the last of them closes it.
    pub(crate) fn shared(folder: &Path, name: &str, unit_count: u64, quota: u64) -> Result<Self> {
        let folder = Arc::new(OwnFolder::create_in(folder, &user_folder_name("spill"))?);
        let name = format!("{name}-{}{EXTENSION}", boot_id());
        remove_deserted(&folder, &name);
        let (file, _) = SharedFile::open(&folder, &name, Instant::now() + LIMIT)?;
        file.share()?;
        Self::new(SpillFile::Shared(file), unit_count, quota)
    }

    fn new(file: SpillFile, unit_count: u64, quota: u64) -> Result<Self> {
        let full = || Error::new(ErrorKind::Full, "too many units");
        // Its length is never set: another process may have written to a shared file since it was looked at.
        let first_byte = unit_count.checked_next_multiple_of(4096).ok_or_else(full)?;
        Ok(Self {
            file,
            known: Mutex::default(),
            unit_count,
            first_byte,
            quota,
            used: Mutex::new(0),
            broken: AtomicBool::new(false),
        })
    }

    /// Bytes the file takes, by whichever process they were written.
    fn used(&self, own: u64) -> u64 {
        if !self.file.is_shared() {
            return own;
        }
        self.file.file().metadata().map_or(u64::MAX, |facts| facts.blocks() * 512)
    }

    fn known(&self) -> MutexGuard<'_, Bitmap> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spill for FileSpill {
    fn put(&self, place: UnitPlace, bytes: &[u8]) -> SpillAdmission {
        if self.broken.load(Relaxed) || place.unit >= self.unit_count {
            return SpillAdmission::Refused;
        }
        {
            let mut own = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if self.used(*own).saturating_add(bytes.len() as u64) > self.quota {
                return SpillAdmission::Refused;
            }
            *own += bytes.len() as u64;
        }
        let (file, at) = (self.file.file(), self.first_byte + place.byte);
        let written = file.write_all_at(bytes, at).and_then(|()| file.write_all_at(&[PRESENT], place.unit));
        if written.is_err() {
            // A full or broken disk stays so for a while: no unit is lost by it, only time.
            self.broken.store(true, Relaxed);
            return SpillAdmission::Refused;
        }
        self.known().insert(place.unit);
        SpillAdmission::Kept
    }

    fn has(&self, place: UnitPlace) -> bool {
        if self.known().contains(place.unit) {
            return true;
        }
        let mut there = [0];
        let is_there = self.file.is_shared()
            && place.unit < self.unit_count
            && self.file.file().read_exact_at(&mut there, place.unit).is_ok()
            && there[0] == PRESENT;
        if is_there {
            self.known().insert(place.unit);
        }
        is_there
    }

    fn read(&self, place: UnitPlace, from: u64, into: &mut [u8]) -> bool {
        let read = self.file.file().read_exact_at(into, self.first_byte + place.byte + from).is_ok();
        if !read {
            self.known().remove(place.unit);
            self.broken.store(true, Relaxed);
        }
        read
    }

    fn is_shared(&self) -> bool {
        self.file.is_shared()
    }
}

impl Drop for FileSpill {
    fn drop(&mut self) {
        if let SpillFile::Shared(file) = &self.file {
            file.remove_if_last();
        }
    }
}

/// Removes the spills in `folder` other than `but` that no process uses: their processes were killed.
fn remove_deserted(folder: &Arc<OwnFolder>, but: &str) {
    let names = folder.names().unwrap_or_default();
    for name in names.iter().filter(|name| name.ends_with(EXTENSION) && *name != but) {
        if let Ok(Some(deserted)) = SharedFile::deserted(folder, name) {
            deserted.remove_if_last();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(unit: u64) -> UnitPlace {
        UnitPlace { unit, byte: unit * 100 }
    }

    #[test]
    fn what_was_put_is_read_back_in_part_and_no_more_is_taken_than_the_quota() {
        let folder = tempfile::tempdir().unwrap();
        let spill = FileSpill::private(folder.path(), 10, 250).unwrap();
        assert!(!spill.has(place(3)));
        assert_eq!(spill.put(place(3), &[7; 100]), SpillAdmission::Kept);
        assert_eq!(spill.put(place(9), &[9; 100]), SpillAdmission::Kept);
        assert_eq!(spill.put(place(0), &[1; 100]), SpillAdmission::Refused);
        let mut part = [0; 10];
        assert!(spill.has(place(9)) && spill.read(place(9), 90, &mut part));
        assert_eq!(part, [9; 10]);
        assert!(!spill.has(place(0)));
    }

    #[test]
    fn a_shared_spill_shows_what_others_put_and_goes_with_the_last_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let open = || FileSpill::shared(folder.path(), "set", 10, 1 << 20).unwrap();
        let (one, other) = (open(), open());
        assert_eq!(one.put(place(2), &[5; 100]), SpillAdmission::Kept);
        let mut read = [0; 100];
        assert!(other.has(place(2)) && other.read(place(2), 0, &mut read));
        assert_eq!(read, [5; 100]);
        let own = folder.path().join(user_folder_name("spill"));
        let count = || std::fs::read_dir(&own).unwrap().count();
        drop(one);
        assert_eq!(count(), 1);
        drop(other);
        assert_eq!(count(), 0);
        assert!(!open().has(place(2)), "a new one is empty");
    }

    #[test]
    fn a_spill_of_killed_processes_is_removed_by_the_next_that_opens_one() {
        let folder = tempfile::tempdir().unwrap();
        let own = Arc::new(OwnFolder::create_in(folder.path(), &user_folder_name("spill")).unwrap());
        drop(SharedFile::open(&own, "killed-1.spill", Instant::now() + LIMIT).unwrap());
        std::fs::write(own.path().join("letter.txt"), "x").unwrap();
        let _spill = FileSpill::shared(folder.path(), "set", 10, 1 << 20).unwrap();
        let mut names = own.names().unwrap();
        names.sort();
        assert_eq!(names, ["letter.txt".to_owned(), format!("set-{}.spill", boot_id())]);
    }

    #[test]
    fn opening_a_shared_spill_never_cuts_what_another_process_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let one = FileSpill::shared(folder.path(), "set", 10, 1 << 20).unwrap();
        assert_eq!(one.put(place(9), &[5; 100]), SpillAdmission::Kept);
        let len = one.file.file().metadata().unwrap().len();
        let other = FileSpill::shared(folder.path(), "set", 10, 1 << 20).unwrap();
        assert_eq!(other.file.file().metadata().unwrap().len(), len);
        assert!(other.has(place(9)));
    }

    #[test]
    fn more_units_than_there_is_memory_for_take_none() {
        let folder = tempfile::tempdir().unwrap();
        let spill = FileSpill::private(folder.path(), 1 << 50, 1 << 20).unwrap();
        assert!(!spill.has(place(3)));
    }
}
