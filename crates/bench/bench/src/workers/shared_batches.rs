//! Batches in memory that worker processes fill: regions of anonymous memory files, mapped by both sides.
//!
//! ```text
//! rank ── Arena ── SharedBacking ── region (memfd) ◄── /proc/PID/fd/N ── WorkerMemory ── worker
//! ```

#![expect(unsafe_code, reason = "memory that two processes map is lent by address")]

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    os::fd::{AsFd, AsRawFd},
    process,
    ptr::NonNull,
    slice,
    sync::{Mutex, MutexGuard, PoisonError},
};

use forebay::{
    Error, Result,
    batch::{Backing, Buffer},
    store::{ShardMemory, ShardPlace},
};
use serde::{Deserialize, Serialize};

/// Where a buffer lies, as another process finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedPlace {
    /// The number of the region; no two regions of a process ever have the same.
    pub(crate) region: u64,
    /// The process that has it open.
    pub(crate) process: u32,
    /// Its descriptor there.
    pub(crate) descriptor: i32,
    /// How long it is.
    pub(crate) region_len: u64,
    /// Where the buffer begins in it.
    pub(crate) offset: u64,
}

/// Memory of an arena that other processes can map.
#[derive(Debug, Default)]
pub(crate) struct SharedBacking {
    regions: Mutex<Regions>,
}

#[derive(Debug, Default)]
struct Regions {
    made: u64,
    mapped: Vec<(u64, ShardMemory)>,
}

impl SharedBacking {
    /// Where `buffer`, which comes from an arena over this backing, lies.
    pub(crate) fn place(&self, buffer: &Buffer) -> Result<SharedPlace> {
        let address = buffer.address().addr();
        let regions = self.lock();
        let found = regions.mapped.iter().find_map(|(number, memory)| {
            let offset = address.checked_sub(memory.address().addr())? as u64;
            let descriptor = memory.descriptor()?.as_raw_fd();
            let place = SharedPlace {
                region: *number,
                process: process::id(),
                descriptor,
                region_len: memory.len(),
                offset,
            };
            (offset + buffer.len() as u64 <= memory.len()).then_some(place)
        });
        found.ok_or_else(|| Error::new(forebay::ErrorKind::Bug, "a batch lies outside of shared memory"))
    }

    fn lock(&self) -> MutexGuard<'_, Regions> {
        // Set as a whole: a panic elsewhere cannot leave half of it.
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// SAFETY: a fresh memory file is zero and mapped at a page; the region stays mapped, by this process for nobody else, until
// `unmap` drops it. Workers write to a buffer only while the rank that sent it waits for their answer.
unsafe impl Backing for SharedBacking {
    /// All of it is shared: a worker could not write to the heap.
    fn heap_below(&self) -> usize {
        0
    }

    fn map(&self, len: usize) -> Result<NonNull<u8>> {
        let memory = ShardMemory::new(len as u64, &ShardPlace::Memory)?;
        let start = NonNull::new(memory.address());
        let mut regions = self.lock();
        regions.made += 1;
        let number = regions.made;
        regions.mapped.push((number, memory));
        start.ok_or_else(|| Error::invalid("a region of no bytes"))
    }

    unsafe fn unmap(&self, start: NonNull<u8>, _len: usize) {
        self.lock().mapped.retain(|(_, memory)| memory.address() != start.as_ptr());
    }
}

/// The regions of a rank that a worker has mapped.
#[derive(Debug, Default)]
pub(crate) struct WorkerMemory {
    regions: HashMap<u64, ShardMemory>,
}

impl WorkerMemory {
    /// The `len` bytes at `place`.
    pub(crate) fn bytes(&mut self, place: &SharedPlace, len: usize) -> Result<&mut [u8]> {
        let end = place.offset.checked_add(len as u64);
        if end.is_none_or(|end| end > place.region_len) {
            return Err(Error::invalid("a batch that is longer than its region"));
        }
        let memory = match self.regions.entry(place.region) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                let path = format!("/proc/{}/fd/{}", place.process, place.descriptor);
                let file = File::options().read(true).write(true).open(&path);
                let file = file.map_err(|error| Error::from_io(error).at(&path))?;
                unknown.insert(ShardMemory::map(file.as_fd(), place.region_len)?)
            }
        };
        let offset = usize::try_from(place.offset).map_err(|_| Error::invalid("a region is too long"))?;
        // SAFETY: the range lies within the mapping, which lives as long as `self`; the rank that sent the place neither reads
        // nor writes it before this worker has answered, and no other worker is sent the same.
        Ok(unsafe { slice::from_raw_parts_mut(memory.address().add(offset), len) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay::batch::Arena;

    use super::*;

    #[test]
    fn what_a_worker_writes_is_in_the_batch() {
        let backing = Arc::new(SharedBacking::default());
        let arena = Arena::over(64 << 20, Arc::clone(&backing) as _);
        let mut worker = WorkerMemory::default();
        for len in [1, 1000, 5 << 20] {
            let buffer = arena.take(len).unwrap();
            let place = backing.place(&buffer).unwrap();
            worker.bytes(&place, len).unwrap().fill(7);
            assert!(buffer.iter().all(|byte| *byte == 7), "{len}");
            let beyond = usize::try_from(place.region_len).unwrap() + 1;
            assert!(worker.bytes(&place, beyond).is_err());
        }
    }
}
