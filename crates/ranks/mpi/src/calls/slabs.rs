//! The slabs of a communicator: those that are free, and those whose gets somebody gave up waiting for.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering::SeqCst},
};

use forebay_process::Result;

use crate::{
    calls::slab::{GetSlab, SlabOfGets},
    library::ffi::LoadedMpi,
};

/// Slabs that are kept for later gets, 32 MiB of each communicator.
const SLABS_KEPT: usize = 8;

/// All slabs that no reader has.
#[derive(Default)]
pub(crate) struct GetSlabs {
    free: Mutex<Vec<GetSlab>>,
    /// Gets that did not end while somebody waited for them: MPI cannot call them off.
    late: Mutex<Vec<SlabOfGets>>,
}

impl GetSlabs {
    /// A slab to fill.
    pub(crate) fn take(&self) -> Result<GetSlab> {
        lock(&self.free).pop().map_or_else(GetSlab::new, Ok)
    }

    /// Takes a slab back, whose gets have ended or are given up.
    pub(crate) fn put_back(&self, slab: SlabOfGets) {
        if !slab.is_done() {
            slab.usage.late.fetch_add(1, SeqCst);
            lock(&self.late).push(slab);
        } else if let Some(slab) = slab.into_slab() {
            let mut free = lock(&self.free);
            if free.len() < SLABS_KEPT {
                free.push(slab);
            }
        }
    }

    /// Ranks of which gets were given up that have still not ended.
    pub(crate) fn silent_ranks(&self, mpi: &LoadedMpi) -> BTreeSet<usize> {
        // Held while they are looked at: nobody sees a list that lacks some of them.
        let mut late = lock(&self.late);
        let mut silent = BTreeSet::new();
        for mut slab in std::mem::take(&mut *late) {
            silent.extend(slab.poll_all(mpi));
            if slab.is_done() {
                slab.usage.late.fetch_sub(1, SeqCst);
                self.put_back(slab);
            } else {
                late.push(slab);
            }
        }
        silent
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Slabs are moved in and out whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
