//! Where decoded units go that memory cannot hold: a file on a local disk, of one process or shared by those of a node.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    process,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use forebay_source::{Error, ErrorKind, Result, private};
use rustix::fs::FlockOperation;

use crate::bitmap::Bitmap;

/// A place for decoded units that memory cannot hold. It may lose them, it may never change them.
pub trait Spill: Send + Sync + fmt::Debug {
    /// Keeps the bytes of `unit`, if there is room.
    fn put(&self, unit: Place, bytes: &[u8]) -> Admission;

    /// True when `unit` is kept.
    fn has(&self, unit: Place) -> bool;

    /// Fills `into` with the bytes of `unit` from `from` on; false when they cannot be had any more.
    fn read(&self, unit: Place, from: u64, into: &mut [u8]) -> bool;

    /// True when other processes see what is put here.
    fn is_shared(&self) -> bool;
}

/// Whether a spill took something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is there.
    Kept,
    /// There is no room, or the disk is in trouble.
    Refused,
}

/// Which unit, and where it lies among the bytes of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number among all units.
    pub unit: u64,
    /// Its first byte among the bytes of all units.
    pub byte: u64,
}

/// A sparse file with a place for every unit.
///
/// It begins with a byte for each unit, which is set once the unit's bytes are written. Shared between processes it
/// needs no more than that: the kernel lets nobody see the mark before the bytes.
#[derive(Debug)]
pub struct FileSpill {
    file: File,
    path: Option<PathBuf>,
    /// What this process knows to be there: a file may claim more units than there is memory to mark them all.
    known: Mutex<Bitmap>,
    unit_count: u64,
    first_byte: u64,
    quota: u64,
    used: Mutex<u64>,
    broken: AtomicBool,
    /// The process that opened it: a forked child shares the lock and must leave it be.
    process: u32,
}

const PRESENT: u8 = 1;

impl FileSpill {
    /// A spill of this process alone, in `folder`, for `unit_count` units; it has no name and goes with the process.
    pub fn private(folder: &Path, unit_count: u64, quota: u64) -> Result<Self> {
        let file =
            tempfile::tempfile_in(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
        Self::new(file, None, unit_count, quota)
    }

    /// A spill shared by all processes that give the same `name`, removed when the last of them closes it.
    pub fn shared(folder: &Path, name: &str, unit_count: u64, quota: u64) -> Result<Self> {
        let folder = own_folder(folder)?;
        let name = format!("{name}-{}.spill", private::boot_id());
        let path = folder.join(name);
        remove_deserted(&folder, &path);
        for _ in 0..16 {
            let file = private::own_file(&path)?;
            rustix::fs::flock(&file, FlockOperation::LockShared)
                .map_err(|errno| Error::from_io(errno.into()))?;
            let own = file.metadata().map_err(Error::from_io)?;
            // Its last user may have removed it between our opening and our locking it.
            if fs::symlink_metadata(&path)
                .is_ok_and(|there| there.ino() == own.ino() && there.dev() == own.dev())
            {
                return Self::new(file, Some(path), unit_count, quota);
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "is removed as often as it is made").at(path.display()))
    }

    fn new(file: File, path: Option<PathBuf>, unit_count: u64, quota: u64) -> Result<Self> {
        let full = || Error::new(ErrorKind::Full, "too many units");
        // Its length is never set: another process may have written to a shared file since it was looked at.
        let first_byte = unit_count.checked_next_multiple_of(4096).ok_or_else(full)?;
        Ok(Self {
            file,
            path,
            known: Mutex::default(),
            unit_count,
            first_byte,
            quota,
            used: Mutex::new(0),
            broken: AtomicBool::new(false),
            process: process::id(),
        })
    }

    /// Bytes the file takes, by whichever process they were written.
    fn used(&self, own: u64) -> u64 {
        if self.path.is_none() {
            return own;
        }
        self.file.metadata().map_or(u64::MAX, |facts| facts.blocks() * 512)
    }

    fn known(&self) -> MutexGuard<'_, Bitmap> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spill for FileSpill {
    fn put(&self, place: Place, bytes: &[u8]) -> Admission {
        if self.broken.load(Relaxed) || place.unit >= self.unit_count {
            return Admission::Refused;
        }
        {
            let mut own = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            if self.used(*own).saturating_add(bytes.len() as u64) > self.quota {
                return Admission::Refused;
            }
            *own += bytes.len() as u64;
        }
        let at = self.first_byte + place.byte;
        let written =
            self.file.write_all_at(bytes, at).and_then(|()| self.file.write_all_at(&[PRESENT], place.unit));
        if written.is_err() {
            // A full or broken disk stays so for a while: no unit is lost by it, only time.
            self.broken.store(true, Relaxed);
            return Admission::Refused;
        }
        self.known().insert(place.unit);
        Admission::Kept
    }

    fn has(&self, place: Place) -> bool {
        if self.known().contains(place.unit) {
            return true;
        }
        let mut there = [0];
        let is_there = self.path.is_some()
            && place.unit < self.unit_count
            && self.file.read_exact_at(&mut there, place.unit).is_ok()
            && there[0] == PRESENT;
        if is_there {
            self.known().insert(place.unit);
        }
        is_there
    }

    fn read(&self, place: Place, from: u64, into: &mut [u8]) -> bool {
        let read = self.file.read_exact_at(into, self.first_byte + place.byte + from).is_ok();
        if !read {
            self.known().remove(place.unit);
            self.broken.store(true, Relaxed);
        }
        read
    }

    fn is_shared(&self) -> bool {
        self.path.is_some()
    }
}

impl Drop for FileSpill {
    fn drop(&mut self) {
        let Some(path) = self.path.as_ref().filter(|_| self.process == process::id()) else { return };
        // The last one out removes it; others still hold the lock they share.
        if rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(path);
        }
    }
}

/// The folder of this user's spills under `folder`, which nobody else can look into.
fn own_folder(folder: &Path) -> Result<PathBuf> {
    private::own_folder(folder, &format!("forebay-spill-{}", rustix::process::geteuid().as_raw()))
}

/// Removes spills that no process uses any more: their makers were killed.
fn remove_deserted(folder: &Path, but: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_spill = path.extension().is_some_and(|extension| extension == "spill");
        if path == but || !is_spill {
            continue;
        }
        let Ok(file) = OpenOptions::new().read(true).write(true).open(&path) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(unit: u64) -> Place {
        Place { unit, byte: unit * 100 }
    }

    #[test]
    fn what_was_put_is_read_back_in_part_and_no_more_is_taken_than_the_quota() {
        let folder = tempfile::tempdir().unwrap();
        let spill = FileSpill::private(folder.path(), 10, 250).unwrap();
        assert!(!spill.has(place(3)));
        assert_eq!(spill.put(place(3), &[7; 100]), Admission::Kept);
        assert_eq!(spill.put(place(9), &[9; 100]), Admission::Kept);
        assert_eq!(spill.put(place(0), &[1; 100]), Admission::Refused);
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
        assert_eq!(one.put(place(2), &[5; 100]), Admission::Kept);
        let mut read = [0; 100];
        assert!(other.has(place(2)) && other.read(place(2), 0, &mut read));
        assert_eq!(read, [5; 100]);
        let path = one.path.clone().unwrap();
        drop(one);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
        assert!(!open().has(place(2)), "a new one is empty");
    }

    #[test]
    fn opening_a_shared_spill_never_cuts_what_another_process_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let one = FileSpill::shared(folder.path(), "set", 10, 1 << 20).unwrap();
        assert_eq!(one.put(place(9), &[5; 100]), Admission::Kept);
        let len = one.file.metadata().unwrap().len();
        let other = FileSpill::shared(folder.path(), "set", 10, 1 << 20).unwrap();
        assert_eq!(other.file.metadata().unwrap().len(), len);
        assert!(other.has(place(9)));
    }

    #[test]
    fn more_units_than_there_is_memory_for_take_none() {
        let folder = tempfile::tempdir().unwrap();
        let spill = FileSpill::private(folder.path(), 1 << 50, 1 << 20).unwrap();
        assert!(!spill.has(place(3)));
    }
}
