//! The room that this process has in an area: its folder, and its share of the quota.
//!
//! ```text
//! PATH/forebay-stage-UID/        OwnFolder, 0700
//!     lock                       held while room is reserved
//!     paused                     there while no process may drain
//!     hurry                      changed by `forebay stage drain`: processes drain at once and try again what failed
//!     publishing                 of which processes lock a byte while they publish a new file
//!     published-CHECKSUM         what was published last at a destination for which other new files wait
//!     p-BOOT-NUMBER@HOST/        one process: SharedFolder, locked while the process lives
//!         usage                  bytes that it has reserved
//!         alive                  when its drainers were last known to write
//!         ID.open                what an item is, while nothing of it was promised
//!         ID.journal             what an item is and how far it is, synced
//!         ID.data                the image of a new file
//!         ID.facts               what the destination of an update looked like after the last drain
//!         s-NUMBER.log           a segment of some redo log, recycled
//! ```

use std::{
    fs::File,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::{
    LockMode, OwnFolder, ParentOnly, SharedFolder, boot_id, disk, host_name, lock_within, nonce, unlock,
    user_folder_name,
};
use rustix::fs::MemfdFlags;

use crate::{
    area::settings::{AreaPlace, AreaSettings},
    on_disk::{
        item_files::{has_items, is_unfinished, remove_journal, sync_folder, write_journal},
        journal::Journal,
    },
    update::memory_map::MemoryMap,
};

/// The name of the folder of an area for its purpose.
const PURPOSE: &str = "stage";
/// What the folder of each process begins with.
pub(crate) const PROCESS_PREFIX: &str = "p-";
pub(crate) const USAGE: &str = "usage";
pub(crate) const ALIVE: &str = "alive";
pub(crate) const PAUSED: &str = "paused";
pub(crate) const HURRY: &str = "hurry";
const LOCK: &str = "lock";
/// Another process holds the lock for a few system calls; where it is held for longer, as by one that was stopped, the area counts as
/// full.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
/// How long the lock is waited for while its holder seems to be stopped.
const STOPPED_LIMIT: Duration = Duration::from_millis(2);
/// How long to wait for the folder of this process, whose name nobody else has.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// The room of this process in an area.
#[derive(Debug)]
pub(crate) struct ProcessRoom {
    quota: u64,
    free_floor: u64,
    reserved: Mutex<u64>,
    /// Items that are done and whose journals could not be removed, each with the file that goes behind its journal.
    unremoved: Mutex<Vec<(String, String)>>,
    place: RoomPlace,
}

#[derive(Debug)]
enum RoomPlace {
    /// There is none, for this reason: nothing can be staged.
    Nowhere(Error),
    Memory,
    Folder(Box<RoomFolder>),
}

#[derive(Debug)]
struct RoomFolder {
    area: Arc<OwnFolder>,
    /// Before the folder, whose lock it keeps from children.
    _lock: ParentOnly,
    own: SharedFolder,
    usage: File,
    alive: File,
    boot: String,
    /// Whether the last wait for the lock of the area was in vain.
    is_lock_stuck: AtomicBool,
}

/// The folder of the area in `folder`, which is not made where there is none.
pub(crate) fn open_area(folder: &Path) -> Result<Option<Arc<OwnFolder>>> {
    match OwnFolder::open(&folder.join(user_folder_name(PURPOSE))) {
        Ok(area) => Ok(Some(Arc::new(area))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The folder of the area in `folder`, made if need be with those above it.
pub(crate) fn make_area(folder: &Path) -> Result<Arc<OwnFolder>> {
    disk::make_directories(folder).map_err(|error| Error::from_io(error).at(folder.display()))?;
    OwnFolder::create_in(folder, &user_folder_name(PURPOSE)).map(Arc::new)
}

/// What holds the bytes of a segment.
#[derive(Debug)]
pub(crate) enum SegmentStore {
    /// A file of the area.
    File(File),
    /// Memory of this process.
    Memory(MemoryMap),
}

impl ProcessRoom {
    /// Room in the area that `settings` describe; none where it cannot be used.
    pub(crate) fn open(settings: &AreaSettings) -> Self {
        let (place, quota) = match &settings.place {
            AreaPlace::Memory => (RoomPlace::Memory, settings.quota.min(settings.memory)),
            AreaPlace::Folder(folder) => match RoomFolder::open(folder) {
                Ok(opened) => (RoomPlace::Folder(Box::new(opened)), settings.quota),
                Err(error) => (RoomPlace::Nowhere(error), 0),
            },
        };
        Self {
            quota,
            free_floor: settings.free_floor,
            reserved: Mutex::new(0),
            unremoved: Mutex::default(),
            place,
        }
    }

    /// Why the area cannot be used, where it cannot.
    pub(crate) fn trouble(&self) -> Option<&Error> {
        match &self.place {
            RoomPlace::Nowhere(error) => Some(error),
            RoomPlace::Memory | RoomPlace::Folder(_) => None,
        }
    }

    fn folder(&self) -> Option<&RoomFolder> {
        match &self.place {
            RoomPlace::Nowhere(_) | RoomPlace::Memory => None,
            RoomPlace::Folder(folder) => Some(folder),
        }
    }

    /// Whether what is in it outlives the process.
    pub(crate) fn is_lasting(&self) -> bool {
        self.folder().is_some()
    }

    /// Whether it is memory of this process.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.place, RoomPlace::Memory)
    }

    /// Whether it is memory of this process that has room for bytes. Without a quota it stands for no area: all goes straight through.
    pub(crate) fn holds_memory(&self) -> bool {
        self.is_memory() && self.quota > 0
    }

    /// Which start of the machine this is.
    pub(crate) fn boot(&self) -> String {
        self.folder().map_or(String::new(), |folder| folder.boot.clone())
    }

    /// The quota of all processes together.
    pub(crate) fn quota(&self) -> u64 {
        self.quota
    }

    /// The area's folder, if it has one.
    pub(crate) fn area(&self) -> Option<&Arc<OwnFolder>> {
        self.folder().map(|folder| &folder.area)
    }

    /// The folder of this process, if it has one.
    pub(crate) fn own(&self) -> Option<&Arc<OwnFolder>> {
        self.folder().map(|folder| folder.own.folder())
    }

    /// Bytes that this process has reserved.
    pub(crate) fn reserved(&self) -> u64 {
        *self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves `bytes` of the quota for this process; false where the area is full, or the disk nearly.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = match &self.place {
            RoomPlace::Nowhere(_) => false,
            RoomPlace::Memory => reserved.checked_add(bytes).is_some_and(|total| total <= self.quota),
            RoomPlace::Folder(folder) => folder.reserve(*reserved, bytes, self.quota, self.free_floor),
        };
        if has_room {
            *reserved += bytes;
        }
        has_room
    }

    /// Gives `bytes` back.
    pub(crate) fn release(&self, bytes: u64) {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        *reserved = reserved.saturating_sub(bytes);
        if let Some(folder) = self.folder() {
            let _ = disk::write_all_at(&folder.usage, &reserved.to_le_bytes(), 0);
        }
    }

    /// A new file of this process.
    pub(crate) fn create(&self, name: &str) -> Result<File> {
        match &self.place {
            RoomPlace::Nowhere(error) => Err(error.clone()),
            RoomPlace::Folder(folder) => folder.own.folder().create_new(name),
            RoomPlace::Memory => {
                let made = rustix::fs::memfd_create("forebay-stage", MemfdFlags::CLOEXEC);
                Ok(File::from(made.map_err(|errno| Error::from_io(errno.into()).at("memory"))?))
            }
        }
    }

    /// What holds the bytes of a new segment.
    pub(crate) fn create_segment(&self, name: &str, capacity: u64) -> Result<SegmentStore> {
        match &self.place {
            RoomPlace::Nowhere(error) => Err(error.clone()),
            RoomPlace::Folder(folder) => folder.own.folder().create_new(name).map(SegmentStore::File),
            RoomPlace::Memory => MemoryMap::new(capacity).map(SegmentStore::Memory),
        }
    }

    /// Removes a file of this process.
    pub(crate) fn remove(&self, name: &str) {
        if let Some(own) = self.own() {
            let _ = own.remove_file(name);
        }
    }

    /// Writes the journal of item `id`, in place of an older one.
    pub(crate) fn write_journal(&self, id: &str, journal: &Journal, is_synced: bool) -> Result<()> {
        match self.own() {
            Some(own) => write_journal(own, id, journal, is_synced),
            None => Ok(()),
        }
    }

    /// Removes the journal of item `id`, all of which is at its destination, and then its file `other`, without which the journal would
    /// mean something else. A journal that cannot be removed is tried again: while it is there, who opens the destination waits for it.
    pub(crate) fn remove_item(&self, id: &str, other: &str) {
        let Some(own) = self.own() else { return };
        if remove_journal(own, id).is_ok() {
            self.remove(other);
        } else {
            self.remove_later(id, other);
        }
    }

    /// Removes the journal of item `id`, and then its file `other`, when removals are tried again.
    pub(crate) fn remove_later(&self, id: &str, other: &str) {
        if self.own().is_some() {
            let mut unremoved = self.unremoved.lock().unwrap_or_else(PoisonError::into_inner);
            unremoved.push((id.to_owned(), other.to_owned()));
        }
    }

    /// Removes the journal of item `id`, which is not at its destination; returns false if it is still there.
    pub(crate) fn forget_journal(&self, id: &str) -> bool {
        self.own().is_none_or(|own| remove_journal(own, id).is_ok())
    }

    /// Returns true if a journal could not be removed and is to be tried again.
    pub(crate) fn has_unremoved(&self) -> bool {
        !self.unremoved.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Tries again to remove the journals that could not be removed.
    pub(crate) fn retry_removals(&self) {
        let Some(own) = self.own() else { return };
        let mut unremoved = self.unremoved.lock().unwrap_or_else(PoisonError::into_inner);
        unremoved.retain(|(id, other)| {
            let is_removed = remove_journal(own, id).is_ok();
            if is_removed {
                self.remove(other);
            }
            !is_removed
        });
    }

    /// Syncs the names in the folder of this process.
    pub(crate) fn sync_names(&self) -> Result<()> {
        self.own().map_or(Ok(()), |own| sync_folder(own))
    }

    /// Says that drainers of this process write now: a destination may have a time of modification up to this.
    pub(crate) fn beat(&self) {
        if let Some(folder) = self.folder() {
            let _ = disk::write_all_at(&folder.alive, &crate::on_disk::stamp::now_ns().to_le_bytes(), 0);
        }
    }

    /// Whether `forebay stage pause` stopped all processes.
    pub(crate) fn is_paused(&self) -> bool {
        self.area().is_some_and(|area| area.facts(PAUSED).is_ok())
    }

    /// A number that changes with each `forebay stage drain`.
    pub(crate) fn hurry_stamp(&self) -> Option<std::time::SystemTime> {
        Some(self.area()?.facts(HURRY).ok()?.modified())
    }

    /// Ends the use of the area by this process: its folder goes, or stays for `recover` where it still holds items.
    pub(crate) fn leave(&self) {
        let Some(folder) = self.folder() else { return };
        self.retry_removals();
        remove_if_empty(&folder.own);
    }
}

impl RoomFolder {
    fn open(folder: &Path) -> Result<Self> {
        let area = make_area(folder)?;
        let boot = boot_id();
        let name = format!("{PROCESS_PREFIX}{boot}-{:016x}@{}", nonce(), host_name());
        let (own, _) = SharedFolder::open(&area, &name, OPEN_LIMIT)?;
        own.share()?;
        let lock = ParentOnly::new(own.lock_file().as_fd());
        let usage = own.folder().create_new(USAGE)?;
        let alive = own.folder().create_new(ALIVE)?;
        // What is synced in the folder is lost with the folder's name.
        sync_folder(&area)?;
        disk::sync_name_of(area.path()).map_err(|error| Error::from_io(error).at(area.path().display()))?;
        Ok(Self { area, _lock: lock, own, usage, alive, boot, is_lock_stuck: AtomicBool::new(false) })
    }

    fn reserve(&self, reserved: u64, bytes: u64, quota: u64, free_floor: u64) -> bool {
        let Ok(lock) = self.area.open_or_create(LOCK) else { return false };
        let limit = if self.is_lock_stuck.load(Relaxed) { STOPPED_LIMIT } else { LOCK_LIMIT };
        let is_stuck = lock_within(&lock, LockMode::Exclusive, limit).is_err();
        self.is_lock_stuck.store(is_stuck, Relaxed);
        if is_stuck {
            return false;
        }
        let has_quota = || total_usage(&self.area).checked_add(bytes).is_some_and(|total| total <= quota);
        let is_reserved = (has_quota() || self.remove_deserted() && has_quota())
            && self.has_free(bytes, free_floor)
            && disk::write_all_at(&self.usage, &(reserved + bytes).to_le_bytes(), 0).is_ok();
        unlock(&lock);
        is_reserved
    }

    /// Removes what killed processes left that holds no item; false where there is none.
    fn remove_deserted(&self) -> bool {
        let is_candidate = |name: &str| name.starts_with(PROCESS_PREFIX) && other_host(name).is_none();
        let mut is_removed = false;
        for held in SharedFolder::deserted(&self.area, is_candidate) {
            is_removed |= remove_if_empty(&held);
        }
        is_removed
    }

    fn has_free(&self, bytes: u64, free_floor: u64) -> bool {
        self.free().is_none_or(|free| free >= bytes.saturating_add(free_floor))
    }

    /// Bytes that are free on the disk; nothing where it does not say.
    fn free(&self) -> Option<u64> {
        let stat = rustix::fs::fstatvfs(self.area.descriptor()).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

impl Drop for ProcessRoom {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The machine whose process has the folder `name`, where that is another one: on a file system that several machines share,
/// locks may not tell whether the process lives.
pub(crate) fn other_host(name: &str) -> Option<&str> {
    let (process, host) = name.strip_prefix(PROCESS_PREFIX)?.split_once('@')?;
    let (boot, _) = process.rsplit_once('-')?;
    // The last part is that of a folder that is being removed.
    let (host, _) = host.split_once('~').unwrap_or((host, ""));
    // A machine that was started since has another boot, one whose containers have names of their own has another name.
    (host != host_name() && boot != boot_id()).then_some(host)
}

/// Boot ID in the name of a process's directory.
pub(crate) fn boot_in(folder: &OwnFolder) -> Option<&str> {
    boot_of(folder.path().file_name()?.to_str()?)
}

fn boot_of(name: &str) -> Option<&str> {
    Some(name.strip_prefix(PROCESS_PREFIX)?.split_once('@')?.0.rsplit_once('-')?.0)
}

/// Returns true if the process of the directory `name` ran before the last boot.
pub(crate) fn is_of_other_boot(name: &str) -> bool {
    boot_of(name).is_some_and(|boot| boot != boot_id())
}

/// Bytes that all processes have reserved in `area`, those that were killed included: their files are still there.
pub(crate) fn total_usage(area: &OwnFolder) -> u64 {
    let names = area.names().unwrap_or_default();
    let folders = names.iter().filter(|name| name.starts_with(PROCESS_PREFIX));
    folders.map(|name| number_in(area, &PathBuf::from(name).join(USAGE))).fold(0, u64::saturating_add)
}

/// The number that a small file of ours holds; 0 where there is none.
pub(crate) fn number_in(folder: &OwnFolder, name: &Path) -> u64 {
    let mut bytes = [0; 8];
    match folder.open_to_read(name).map(|file| disk::read_exact_at(&file, &mut bytes, 0)) {
        Ok(Ok(())) => u64::from_le_bytes(bytes),
        _ => 0,
    }
}

/// Removes the directory of a process that has no items left, or lets go of it; returns true if it was empty.
pub(crate) fn remove_if_empty(held: &SharedFolder) -> bool {
    // A directory whose names cannot be read may have items. A journal that a power loss brings back must not find half of its log gone.
    let is_empty = matches!(has_items(held.folder()), Ok(false)) && sync_folder(held.folder()).is_ok();
    if is_empty {
        held.remove_if_last(remove_ours);
    } else {
        held.leave();
    }
    is_empty
}

/// Removes what a process has in its directory, without its journals.
fn remove_ours(folder: &OwnFolder) {
    for name in folder.names().unwrap_or_default() {
        let is_ours = [USAGE, ALIVE].contains(&name.as_str())
            || [".log", ".facts", ".data"].iter().any(|ending| name.ends_with(ending))
            || is_unfinished(&name);
        if is_ours {
            let _ = folder.remove_file(&name);
        }
    }
}
