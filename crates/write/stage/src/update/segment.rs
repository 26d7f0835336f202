//! Segments of redo logs, files or memory, and a pool of those that wait for their next use.
//!
//! A recycled segment has its pages and its blocks already: 128 MiB in pieces of 1 MiB take 19 ms of one core in a recycled
//! file and 31 ms in a new one, 40 ms in recycled memory and 105 ms in new one (busy machine; `write_speed` measures it).

use std::{
    fs::File,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_scratch::disk;

use crate::{
    area::room::{ProcessRoom, SegmentStore},
    on_disk::log_record::{HEAD_LEN, record_start},
    update::memory_map::MemoryMap,
};

/// The first segment of a log; each further one is twice as long, so that many small files take little.
const FIRST_BYTES: u64 = 1 << 20;
/// Long enough that a recycled segment is rare, short enough that a batch ends soon.
const MOST_BYTES: u64 = 32 << 20;
/// Segments that wait for their next use keep at most this part of the quota.
const POOL_SHARE: u64 = 4;

/// A file of the area, or memory, that holds records of one log at a time.
#[derive(Debug)]
pub(crate) struct LogSegment {
    store: SegmentStore,
    name: String,
    pub(crate) capacity: u64,
    /// Whether the name of its file is on the disk.
    is_name_synced: AtomicBool,
}

impl LogSegment {
    fn new(store: SegmentStore, name: String, capacity: u64) -> Self {
        let is_name_synced = AtomicBool::new(matches!(store, SegmentStore::Memory(_)));
        Self { store, name, capacity, is_name_synced }
    }

    /// Whether its name is on the disk.
    pub(crate) fn is_name_synced(&self) -> bool {
        self.is_name_synced.load(Relaxed)
    }

    /// Notes that the names in its directory were synced.
    pub(crate) fn note_name_synced(&self) {
        self.is_name_synced.store(true, Relaxed);
    }

    /// A segment that a killed process left, to be read.
    pub(crate) fn found(file: File, name: String, capacity: u64) -> Self {
        Self::new(SegmentStore::File(file), name, capacity)
    }

    /// Writes `parts` one after the other, at `position`.
    pub(crate) fn write(&self, position: u64, parts: &[&[u8]]) -> Result<()> {
        let file = match &self.store {
            SegmentStore::File(file) => file,
            SegmentStore::Memory(map) => {
                let mut at = position;
                for part in parts {
                    map.write(at, part)?;
                    at += part.len() as u64;
                }
                return Ok(());
            }
        };
        disk::write_parts_at(file, parts, position).map_err(|error| Error::from_io(error).at(&self.name))
    }

    /// Fills `into` from `position` on.
    pub(crate) fn read(&self, position: u64, into: &mut [u8]) -> Result<()> {
        match &self.store {
            SegmentStore::File(file) => disk::read_exact_at(file, into, position)
                .map_err(|error| Error::from_io(error).at(&self.name)),
            SegmentStore::Memory(map) => map.read(position, into),
        }
    }

    /// The memory that holds it, if it is memory.
    pub(crate) fn memory(&self) -> Option<&MemoryMap> {
        match &self.store {
            SegmentStore::File(_) => None,
            SegmentStore::Memory(map) => Some(map),
        }
    }

    /// Waits until all of it is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        match &self.store {
            SegmentStore::File(file) => {
                disk::sync_data(file).map_err(|error| Error::from_io(error).at(&self.name))
            }
            SegmentStore::Memory(_) => Ok(()),
        }
    }
}

/// Memory is made ready ahead for segments of at least this length: what is shorter costs less than it takes.
const AHEAD_BYTES: u64 = 2 << 20;

/// Segments of this process that no log uses.
#[derive(Debug, Default)]
pub(crate) struct SegmentPool {
    idle: Mutex<Vec<Arc<LogSegment>>>,
    made: AtomicU64,
    /// The length of the last segment that a log had to wait for, in memory; 0 where the next one is ready.
    wanted: AtomicU64,
}

impl SegmentPool {
    /// A segment for a record of `bytes`, the `count`th of its log; an error of the kind `Full` where there is no room.
    pub(crate) fn take(&self, room: &ProcessRoom, bytes: u64, count: u32) -> Result<Arc<LogSegment>> {
        let needed = bytes.saturating_add(record_start(HEAD_LEN as u64) + HEAD_LEN as u64);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Programs write the same lengths again: a segment that was made for a long record serves the next one.
        let wanted = (FIRST_BYTES << count.min(10)).min(MOST_BYTES).max(needed.next_multiple_of(FIRST_BYTES));
        let fits = |segment: &&Arc<LogSegment>| segment.capacity >= needed;
        let found = idle.iter().filter(fits).min_by_key(|segment| segment.capacity.abs_diff(wanted));
        if let Some(found) = found.map(Arc::clone) {
            idle.retain(|segment| !Arc::ptr_eq(segment, &found));
            return Ok(found);
        }
        drop(idle);
        // A small quota is shared by short segments rather than taken by one.
        let modest = wanted.min(room.quota() / 8).max(needed);
        self.make(room, modest).or_else(|error| match error.kind() {
            ErrorKind::Full if needed < modest => self.make(room, needed.max(FIRST_BYTES.min(modest))),
            _ => Err(error),
        })
    }

    fn make(&self, room: &ProcessRoom, capacity: u64) -> Result<Arc<LogSegment>> {
        if !(room.reserve(capacity) || self.drop_idle(room) && room.reserve(capacity)) {
            return Err(Error::new(ErrorKind::Full, "staging area is full"));
        }
        let name = format!("s-{}.log", self.made.fetch_add(1, Relaxed));
        self.wanted.store(if room.is_memory() && capacity >= AHEAD_BYTES { capacity } else { 0 }, Relaxed);
        match room.create_segment(&name, capacity) {
            Ok(store) => Ok(Arc::new(LogSegment::new(store, name, capacity))),
            Err(error) => {
                room.release(capacity);
                Err(error)
            }
        }
    }

    /// Whether a log had to wait for memory since `make_ahead` was called.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Makes the next segment ready, where a log had to wait for its memory and none waits in the pool. Called while there is
    /// nothing to drain: writes to a segment that is ready take half the time (`update, again` of `write_speed`).
    pub(crate) fn make_ahead(&self, room: &ProcessRoom) {
        let capacity = self.wanted.swap(0, Relaxed);
        let is_idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if capacity == 0 || !is_idle || capacity > room.quota() / POOL_SHARE || !room.reserve(capacity) {
            return;
        }
        let name = format!("s-{}.log", self.made.fetch_add(1, Relaxed));
        match room.create_segment(&name, capacity) {
            Ok(store) => {
                let segment = LogSegment::new(store, name, capacity);
                segment.memory().into_iter().for_each(MemoryMap::populate);
                self.give_back(room, Arc::new(segment));
            }
            Err(_) => room.release(capacity),
        }
    }

    /// Takes back a segment whose records are all in their destination.
    pub(crate) fn give_back(&self, room: &ProcessRoom, segment: Arc<LogSegment>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: u64 = idle.iter().map(|segment| segment.capacity).sum();
        // A reader may still copy from it: then it keeps its bytes until it is forgotten.
        let is_kept =
            Arc::strong_count(&segment) == 1 && kept + segment.capacity <= room.quota() / POOL_SHARE;
        if is_kept {
            idle.push(segment);
        } else {
            drop(idle);
            room.remove(&segment.name);
            room.release(segment.capacity);
        }
    }

    /// Removes what waits in the pool; false where nothing does.
    pub(crate) fn drop_idle(&self, room: &ProcessRoom) -> bool {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for segment in &idle {
            room.remove(&segment.name);
            room.release(segment.capacity);
        }
        !idle.is_empty()
    }
}
