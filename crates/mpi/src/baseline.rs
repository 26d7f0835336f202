//! Gets as a plain program makes them, which ours are measured against: lock, get, unlock, one by one.

#![expect(unsafe_code, reason = "hands memory to MPI until a get is done")]

use std::{ffi::c_void, fmt, sync::Arc};

use forebay_source::{Error, Result};
use forebay_store::{ShardMemory, Wait};

use crate::{MpiComm, abi::MpiHandle, pending::int, ranks::Ranks};

/// A window whose every get is an epoch of its own.
pub struct LockingWindow {
    ranks: Arc<Ranks>,
    handle: MpiHandle,
    _memory: Arc<ShardMemory>,
}

impl LockingWindow {
    /// A window into the memory of all ranks, of which `mine` is this rank's. Collective.
    pub fn new(comm: &MpiComm, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Self> {
        let ranks = Arc::clone(comm.ranks());
        ranks.barrier(wait)?;
        let (mpi, constants) = (ranks.mpi, &ranks.mpi.constants);
        let len = isize::try_from(mine.len()).map_err(|_| Error::invalid("a shard beyond 2^63 bytes"))?;
        let mut handle = MpiHandle::UNSET;
        let base: *mut c_void = mine.address().cast();
        // SAFETY: `base` has `len` bytes, which stay as long as this window.
        let code =
            unsafe { (mpi.calls.win_create)(base, len, 1, constants.info_null, ranks.comm, &raw mut handle) };
        mpi.check("Win_create", code)?;
        ranks.barrier(wait)?;
        Ok(Self { ranks, handle, _memory: mine })
    }

    /// `into` filled with what lies at `offset` of the shard of `rank`.
    pub fn get(&self, rank: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let (mpi, constants) = (self.ranks.mpi, &self.ranks.mpi.constants);
        let (rank, count) = (int(rank)?, int(into.len())?);
        let offset = isize::try_from(offset).map_err(|_| Error::invalid("an offset beyond 2^63"))?;
        let byte = constants.byte;
        // SAFETY: `into` has that many bytes, and the unlock returns when they are there.
        let codes = unsafe {
            [
                (mpi.locking.win_lock)(constants.lock_shared, rank, 0, self.handle),
                (mpi.locking.get)(
                    into.as_mut_ptr().cast(),
                    count,
                    byte,
                    rank,
                    offset,
                    count,
                    byte,
                    self.handle,
                ),
                (mpi.locking.win_unlock)(rank, self.handle),
            ]
        };
        codes.into_iter().try_for_each(|code| mpi.check("Get", code))
    }

    /// All pieces by gets of one epoch, and one flush: what cannot be ended when a rank is gone.
    pub fn get_and_flush(&self, pieces: &mut [(usize, u64, &mut [u8])]) -> Result<()> {
        let (mpi, constants) = (self.ranks.mpi, &self.ranks.mpi.constants);
        let byte = constants.byte;
        for (rank, offset, into) in pieces {
            let (rank, count) = (int(*rank)?, int(into.len())?);
            let offset = isize::try_from(*offset).map_err(|_| Error::invalid("an offset beyond 2^63"))?;
            // SAFETY: `into` has that many bytes, and the flush below returns when they are there.
            let code = unsafe {
                (mpi.locking.get)(
                    into.as_mut_ptr().cast(),
                    count,
                    byte,
                    rank,
                    offset,
                    count,
                    byte,
                    self.handle,
                )
            };
            mpi.check("Get", code)?;
        }
        // SAFETY: the window is open, within the epoch of `lock_all`.
        mpi.check("Win_flush_all", unsafe { (mpi.locking.win_flush_all)(self.handle) })
    }

    /// Begins the epoch that [`get_and_flush`](Self::get_and_flush) needs.
    pub fn lock_all(&self) -> Result<()> {
        let mpi = self.ranks.mpi;
        // SAFETY: the window is open, and no epoch has begun.
        mpi.check("Win_lock_all", unsafe {
            (mpi.calls.win_lock_all)(mpi.constants.mode_nocheck, self.handle)
        })
    }

    /// Ends it.
    pub fn unlock_all(&self) -> Result<()> {
        // SAFETY: the window is open, and the epoch has begun.
        self.ranks.mpi.check("Win_unlock_all", unsafe { (self.ranks.mpi.calls.win_unlock_all)(self.handle) })
    }

    /// Frees the window. Collective.
    pub fn close(mut self, wait: &Wait<'_>) -> Result<()> {
        self.ranks.barrier(wait)?;
        // SAFETY: nothing uses the window any more.
        self.ranks.mpi.check("Win_free", unsafe { (self.ranks.mpi.calls.win_free)(&raw mut self.handle) })
    }
}

impl fmt::Debug for LockingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockingWindow").finish_non_exhaustive()
    }
}
