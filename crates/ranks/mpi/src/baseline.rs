//! What our gets are measured against: lock, get, unlock, one by one; and batches that all ranks exchange at once.

#![expect(unsafe_code, reason = "hands memory to MPI until a get is done")]

use std::{
    ffi::{c_int, c_void},
    fmt,
    sync::Arc,
};

use forebay_process::{Error, Result};
use forebay_store::{ShardMemory, Wait};

use crate::{
    calls::{pending::int, ranks::Ranks},
    comm::MpiComm,
    library::abi::MpiHandle,
};

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
        ranks.collectively(wait)?.barrier(wait)?;
        let (mpi, constants) = (ranks.mpi, &ranks.mpi.constants);
        let len = isize::try_from(mine.len()).map_err(|_| Error::invalid("a shard beyond 2^63 bytes"))?;
        let mut handle = MpiHandle::UNSET;
        let base: *mut c_void = mine.address().cast();
        // SAFETY: `base` has `len` bytes, which stay as long as this window.
        let code =
            unsafe { (mpi.calls.win_create)(base, len, 1, constants.info_null, ranks.comm, &raw mut handle) };
        mpi.check("Win_create", code)?;
        ranks.collectively(wait)?.barrier(wait)?;
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
                (mpi.baseline.win_lock)(constants.lock_shared, rank, 0, self.handle),
                (mpi.baseline.get)(
                    into.as_mut_ptr().cast(),
                    count,
                    byte,
                    rank,
                    offset,
                    count,
                    byte,
                    self.handle,
                ),
                (mpi.baseline.win_unlock)(rank, self.handle),
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
                (mpi.baseline.get)(
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
        mpi.check("Win_flush_all", unsafe { (mpi.baseline.win_flush_all)(self.handle) })
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
        self.ranks.collectively(wait)?.barrier(wait)?;
        // SAFETY: nothing uses the window any more.
        self.ranks.mpi.check("Win_free", unsafe { (self.ranks.mpi.calls.win_free)(&raw mut self.handle) })
    }
}

impl fmt::Debug for LockingWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockingWindow").finish_non_exhaustive()
    }
}

/// Batches by an exchange of all ranks: who wants what, then the samples. Every rank has to take part in every batch.
pub struct AllToAll {
    ranks: Arc<Ranks>,
    shard: Arc<ShardMemory>,
    sample_len: usize,
}

impl AllToAll {
    /// Exchanges of samples of `sample_len` bytes of the shards of all ranks, of which `shard` is this rank's.
    pub fn new(comm: &MpiComm, shard: Arc<ShardMemory>, sample_len: usize) -> Self {
        Self { ranks: Arc::clone(comm.ranks()), shard, sample_len }
    }

    /// The `wanted` samples, by rank and offset, one behind the other. Collective.
    pub fn batch(&self, wanted: &[(usize, u64)], into: &mut [u8]) -> Result<()> {
        let ranks = self.ranks.size;
        let mut asked: Vec<Vec<u8>> = vec![Vec::new(); ranks];
        let mut slots: Vec<Vec<usize>> = vec![Vec::new(); ranks];
        for (slot, (rank, offset)) in wanted.iter().enumerate() {
            asked[*rank].extend(offset.to_le_bytes());
            slots[*rank].push(slot);
        }
        let mut counts = Vec::new();
        for of_rank in &asked {
            counts.extend(int(of_rank.len())?.to_le_bytes());
        }
        let one_each = vec![4; ranks];
        let told = self.exchange(&counts, &one_each, &one_each)?;
        let asked_lens = asked.iter().map(|of_rank| int(of_rank.len())).collect::<Result<Vec<_>>>()?;
        let told_lens: Vec<c_int> =
            told.chunks_exact(4).map(|len| c_int::from_le_bytes([len[0], len[1], len[2], len[3]])).collect();
        let offsets = self.exchange(&asked.concat(), &asked_lens, &told_lens)?;
        let mut packed = vec![0; offsets.len() / 8 * self.sample_len];
        for (offset, sample) in offsets.chunks_exact(8).zip(packed.chunks_exact_mut(self.sample_len)) {
            let offset = u64::from_le_bytes(std::array::from_fn(|at| offset[at]));
            self.shard.copy_to(offset, sample)?;
        }
        let sample_len = int(self.sample_len)?;
        let scaled = |lens: &[c_int]| lens.iter().map(|len| len / 8 * sample_len).collect::<Vec<_>>();
        let samples = self.exchange(&packed, &scaled(&told_lens), &scaled(&asked_lens))?;
        let order = slots.iter().flatten();
        for (slot, sample) in order.zip(samples.chunks_exact(self.sample_len)) {
            into[slot * self.sample_len..][..self.sample_len].copy_from_slice(sample);
        }
        Ok(())
    }

    fn exchange(&self, sent: &[u8], lens: &[c_int], coming: &[c_int]) -> Result<Vec<u8>> {
        let starts = |lens: &[c_int]| {
            let running = lens.iter().scan(0, |end, len| Some(std::mem::replace(end, *end + len)));
            running.collect::<Vec<c_int>>()
        };
        let (mpi, byte) = (self.ranks.mpi, self.ranks.mpi.constants.byte);
        let mut received = vec![0u8; usize::try_from(coming.iter().sum::<c_int>()).unwrap_or(0)];
        let (from, to) = (starts(lens), starts(coming));
        // SAFETY: both buffers are as long as their lengths say, and the call returns when it is done with them.
        let code = unsafe {
            (mpi.baseline.alltoallv)(
                sent.as_ptr().cast(),
                lens.as_ptr(),
                from.as_ptr(),
                byte,
                received.as_mut_ptr().cast(),
                coming.as_ptr(),
                to.as_ptr(),
                byte,
                self.ranks.comm,
            )
        };
        mpi.check("Alltoallv", code)?;
        Ok(received)
    }
}

impl fmt::Debug for AllToAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllToAll").field("sample_len", &self.sample_len).finish_non_exhaustive()
    }
}
