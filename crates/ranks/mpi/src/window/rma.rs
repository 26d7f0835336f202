//! The window of MPI through which ranks of other hosts are read: one epoch for its life.

#![expect(unsafe_code, reason = "hands memory to MPI until a window is freed")]

use std::{
    ffi::c_void,
    sync::{Arc, atomic::Ordering::SeqCst},
};

use forebay_process::{Error, ErrorKind, Result};
use forebay_store::ShardMemory;

use crate::{
    calls::{lifetime, ranks::Ranks, window_use::WindowUse},
    library::abi::MpiHandle,
};

/// A window of MPI over the shards of all ranks.
#[derive(Debug)]
pub(crate) struct RemoteWindow {
    pub(crate) handle: MpiHandle,
    /// By which it is known to [`lifetime`].
    number: u64,
}

impl RemoteWindow {
    /// A window into the memory of all ranks, of which `mine` is this rank's. Collective, and blocking: all ranks are there.
    pub(crate) fn create(ranks: &Ranks, mine: &Arc<ShardMemory>, usage: &Arc<WindowUse>) -> Result<Self> {
        let (mpi, constants) = (ranks.mpi, &ranks.mpi.constants);
        let len = isize::try_from(mine.len())
            .map_err(|_| Error::new(ErrorKind::Full, "a shard beyond 2^63 bytes"))?;
        let base: *mut c_void = mine.address().cast();
        let mut handle = MpiHandle::UNSET;
        let code = ranks.watched("Win_create", |_| {
            // SAFETY: `base` has `len` bytes; they stay mapped until the window is freed, since `lifetime` keeps them.
            unsafe { (mpi.calls.win_create)(base, len, 1, constants.info_null, ranks.comm, &raw mut handle) }
        });
        mpi.check("Win_create", code).map_err(|error| error.hint(NO_RMA))?;
        let number = lifetime::add_window(handle, usage, mine)?;
        // SAFETY: the window was just made.
        mpi.check("Win_set_errhandler", unsafe {
            (mpi.calls.win_set_errhandler)(handle, constants.errors_return)
        })?;
        let code = ranks.watched("Win_lock_all", |_| {
            // SAFETY: the window was just made, and no epoch has begun.
            unsafe { (mpi.calls.win_lock_all)(constants.mode_nocheck, handle) }
        });
        mpi.check("Win_lock_all", code).map_err(|error| error.hint(NO_RMA))?;
        ranks.open_windows.fetch_add(1, SeqCst);
        Ok(Self { handle, number })
    }

    /// Orders what this rank wrote before what others get of it.
    pub(crate) fn sync(&self, ranks: &Ranks) -> Result<()> {
        // SAFETY: the window is open, within its epoch.
        ranks.mpi.check("Win_sync", unsafe { (ranks.mpi.calls.win_sync)(self.handle) })
    }

    /// Frees the window, which nobody reads any more. Collective.
    pub(crate) fn free(&self, ranks: &Ranks) -> Result<()> {
        ranks.open_windows.fetch_sub(1, SeqCst);
        ranks.watched("Win_free", |_| lifetime::free_window(ranks.mpi, self.number))
    }
}

const NO_RMA: &str = "this MPI has no one-sided communication between these hosts (Open MPI over plain TCP has none): \
                      move the bytes over TCP instead (data = \"tcp\")";
