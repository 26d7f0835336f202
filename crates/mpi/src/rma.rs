//! Reads from the memory of ranks of other hosts: one window of MPI, one epoch for its life, gets that end in time.
//!
//! MPI has no flush that ends, and no get that can be called off: the memory of a get belongs to MPI until it is done. So gets
//! are requests (`MPI_Rget`) that are polled, and they go to slabs of our own, from where their bytes are copied. A slab whose
//! gets do not end is set aside, and used again once they have: never is the caller's memory written after the call returned.

#![expect(unsafe_code, reason = "hands memory to MPI until a get is done")]

use std::{
    collections::VecDeque,
    ffi::{c_int, c_void},
    mem::ManuallyDrop,
    ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::SeqCst},
};

use forebay_source::{Error, ErrorKind, Result};
use forebay_store::{ShardMemory, Wait, WindowRead, gone};

use crate::{
    abi::MpiHandle,
    lifetime,
    pending::{int, test},
    polling::Polling,
    ranks::Ranks,
    stall::{CallTarget, TO_MEET, TO_START, watched},
};

/// A window of MPI over the shards of all ranks.
pub(crate) struct RemoteWindow {
    handle: MpiHandle,
    /// By which it is known to [`lifetime`].
    number: u64,
    is_unified: bool,
    free: Mutex<Vec<GetSlab>>,
    /// Gets that did not end while somebody waited for them.
    late: Mutex<Vec<SlabOfGets>>,
}

/// Memory that gets write to; MPI's as long as one of them is not done.
struct GetSlab(ManuallyDrop<Box<[u8]>>);

/// A slab and the gets that fill it.
struct SlabOfGets {
    slab: GetSlab,
    gets: Vec<PendingGet>,
    used: usize,
    /// A get failed: MPI might still write, so the slab is never used again.
    is_tainted: bool,
}

/// A get, and which bytes of which piece it brings.
struct PendingGet {
    request: MpiHandle,
    is_done: bool,
    rank: usize,
    read: usize,
    piece: usize,
    piece_at: usize,
    slab_at: usize,
    len: usize,
}

/// Bytes of a slab: a batch of 128 samples of 8 KiB fits four times, and a long sample is fetched in parts, two at a time.
const SLAB_LEN: usize = 4 << 20;
/// Gets of a slab.
const SLAB_GETS: usize = 1024;
/// Slabs that one call has in flight: one is copied while the other is fetched.
const SLABS_IN_FLIGHT: usize = 2;
/// Slabs that are kept for later calls.
const SLABS_KEPT: usize = 8;

impl RemoteWindow {
    /// A window into the memory of all ranks, of which `mine` is this rank's. Collective, and blocking: all ranks are there.
    pub(crate) fn create(ranks: &Ranks, mine: &Arc<ShardMemory>) -> Result<Self> {
        let (mpi, constants) = (ranks.mpi, &ranks.mpi.constants);
        let len = isize::try_from(mine.len())
            .map_err(|_| Error::new(ErrorKind::Full, "a shard beyond 2^63 bytes"))?;
        let base: *mut c_void = mine.address().cast();
        let mut handle = MpiHandle::UNSET;
        // SAFETY: `base` has `len` bytes; they stay mapped until the window is freed, since `lifetime` keeps them.
        let code =
            unsafe { (mpi.calls.win_create)(base, len, 1, constants.info_null, ranks.comm, &raw mut handle) };
        mpi.check("Win_create", code).map_err(|error| error.hint(NO_RMA))?;
        let number = lifetime::add_window(handle, Arc::clone(mine));
        // SAFETY: the window was just made.
        let codes = unsafe {
            [
                (mpi.calls.win_set_errhandler)(handle, constants.errors_return),
                (mpi.calls.win_lock_all)(constants.mode_nocheck, handle),
            ]
        };
        mpi.check("Win_set_errhandler", codes[0])?;
        mpi.check("Win_lock_all", codes[1]).map_err(|error| error.hint(NO_RMA))?;
        let is_unified = is_unified(ranks, handle)?;
        ranks.open_windows.fetch_add(1, SeqCst);
        Ok(Self { handle, number, is_unified, free: Mutex::default(), late: Mutex::default() })
    }

    /// True where what a processor stores is what others get (`MPI_WIN_UNIFIED`); where not, [`sync`](Self::sync) copies it.
    pub(crate) fn is_unified(&self) -> bool {
        self.is_unified
    }

    /// Orders what this rank wrote before what others get of it.
    pub(crate) fn sync(&self, ranks: &Ranks) -> Result<()> {
        // SAFETY: the window is open, within its epoch.
        ranks.mpi.check("Win_sync", unsafe { (ranks.mpi.calls.win_sync)(self.handle) })
    }

    /// Frees the window. Collective.
    pub(crate) fn free(&self, ranks: &Ranks) -> Result<()> {
        if !lock(&self.late).is_empty() {
            return Err(Error::new(ErrorKind::Unavailable, "gets of this window never ended"));
        }
        ranks.open_windows.fetch_sub(1, SeqCst);
        watched("Win_free", TO_MEET, |_| lifetime::free_window(ranks.mpi, self.number))
    }

    /// Fills the pieces of those `reads` that `chosen` names; every piece lies within its shard.
    pub(crate) fn get(&self, ranks: &Ranks, reads: &mut [WindowRead<'_>], chosen: &[usize], wait: &Wait<'_>) {
        for read in chosen {
            let rank = reads[*read].rank;
            reads[*read].outcome = self.await_late(ranks, rank, wait);
        }
        let mut parts = SlabParts { chosen, at: 0, piece: 0, piece_at: 0 };
        let mut in_flight = VecDeque::new();
        loop {
            while in_flight.len() < SLABS_IN_FLIGHT {
                let started =
                    watched("Rget", TO_START, |target| self.start(ranks, reads, &mut parts, target));
                let Some(slab) = started else { break };
                in_flight.push_back(slab);
            }
            let Some(slab) = in_flight.pop_front() else { return };
            self.finish(ranks, slab, reads, wait);
        }
    }

    /// Starts as many gets as a slab takes.
    fn start(
        &self,
        ranks: &Ranks,
        reads: &mut [WindowRead<'_>],
        parts: &mut SlabParts<'_>,
        target: &CallTarget,
    ) -> Option<SlabOfGets> {
        let mut part = parts.next(reads, SLAB_LEN)?;
        let slab = lock(&self.free).pop().unwrap_or_else(GetSlab::new);
        let mut gets = SlabOfGets { slab, gets: Vec::new(), used: 0, is_tainted: false };
        loop {
            let read = part.read;
            target.set(part.rank);
            if let Err(error) = gets.start(ranks, self.handle, part, reads[read].pieces[part.piece].offset) {
                reads[read].outcome = Err(error.at(format!("rank {}", reads[read].rank)));
            }
            let left = SLAB_LEN - gets.used;
            if gets.gets.len() == SLAB_GETS || left == 0 {
                return Some(gets);
            }
            match parts.next(reads, left) {
                Some(next) => part = next,
                None => return Some(gets),
            }
        }
    }

    /// Waits for the gets of a slab and copies what they brought.
    fn finish(&self, ranks: &Ranks, mut slab: SlabOfGets, reads: &mut [WindowRead<'_>], wait: &Wait<'_>) {
        let mut over: Option<String> = None;
        let SlabOfGets { slab: memory, gets, is_tainted, .. } = &mut slab;
        for get in gets.iter_mut() {
            let mut polling = Polling::for_bytes();
            let outcome = loop {
                match get.poll(ranks) {
                    Ok(true) => break Ok(()),
                    Ok(false) => {}
                    Err(error) => {
                        *is_tainted = true;
                        break Err(error.at(format!("rank {}", get.rank)));
                    }
                }
                if let Some(reason) = &over {
                    break Err(no_answer(get.rank, reason));
                }
                if !polling.rest() {
                    continue;
                }
                if let Some(rank) = ranks.first_gone(get.rank..get.rank + 1) {
                    break Err(gone(rank));
                }
                if let Err(error) = wait.go_on(|| format!("rank {} does not answer", get.rank)) {
                    over = Some(error.to_string());
                    ranks.set_silent(get.rank);
                    break Err(error);
                }
            };
            let read = &mut reads[get.read];
            match outcome {
                Ok(()) if read.outcome.is_ok() => {
                    let into = &mut read.pieces[get.piece].into[get.piece_at..get.piece_at + get.len];
                    into.copy_from_slice(&memory.0[get.slab_at..get.slab_at + get.len]);
                }
                Ok(()) => {}
                Err(error) => read.outcome = Err(error),
            }
        }
        self.put_back(slab);
    }

    fn put_back(&self, slab: SlabOfGets) {
        if slab.gets.iter().any(|get| !get.is_done) {
            lock(&self.late).push(slab);
        } else if !slab.is_tainted {
            let mut free = lock(&self.free);
            if free.len() < SLABS_KEPT {
                free.push(slab.slab);
            } else {
                slab.slab.give_back();
            }
        }
    }

    /// True while gets from `rank` that somebody waited for have not ended.
    pub(crate) fn is_silent(&self, ranks: &Ranks, rank: usize) -> bool {
        let mut late = std::mem::take(&mut *lock(&self.late));
        let mut is_silent = false;
        for mut slab in late.drain(..) {
            slab.poll(ranks);
            is_silent |= slab.gets.iter().any(|get| !get.is_done && get.rank == rank);
            self.put_back(slab);
        }
        is_silent
    }

    /// Waits until no earlier get from `rank` is under way: those that never end take one slab each, not one per call.
    fn await_late(&self, ranks: &Ranks, rank: usize, wait: &Wait<'_>) -> Result<()> {
        let mut polling = Polling::for_bytes();
        loop {
            let is_late = self.is_silent(ranks, rank);
            if let Some(rank) = ranks.first_gone(rank..rank + 1) {
                return Err(gone(rank));
            }
            if !is_late {
                ranks.set_heard(rank);
                return Ok(());
            }
            if polling.rest() {
                wait.go_on(|| format!("rank {rank} has not answered an earlier get yet"))?;
            }
        }
    }
}

impl SlabOfGets {
    fn start(&mut self, ranks: &Ranks, window: MpiHandle, part: Part, offset: u64) -> Result<()> {
        let (mpi, byte) = (ranks.mpi, ranks.mpi.constants.byte);
        let (count, target) = (int(part.len)?, int(part.rank)?);
        let at = isize::try_from(offset + part.piece_at as u64)
            .map_err(|_| Error::invalid("an offset beyond 2^63"))?;
        let mut request = MpiHandle::UNSET;
        let into: *mut c_void = self.slab.0[self.used..self.used + part.len].as_mut_ptr().cast();
        // SAFETY: the slab has that many bytes from there on, which no other get writes to; it stays until the get is done.
        let code =
            unsafe { (mpi.calls.rget)(into, count, byte, target, at, count, byte, window, &raw mut request) };
        if let Err(error) = mpi.check("Rget", code) {
            self.is_tainted = true;
            return Err(error);
        }
        self.gets.push(PendingGet {
            request,
            is_done: false,
            rank: part.rank,
            read: part.read,
            piece: part.piece,
            piece_at: part.piece_at,
            slab_at: self.used,
            len: part.len,
        });
        self.used += part.len;
        Ok(())
    }

    fn poll(&mut self, ranks: &Ranks) {
        for get in &mut self.gets {
            // Whoever waited for it has long been told.
            self.is_tainted |= get.poll(ranks).is_err();
        }
    }
}

impl PendingGet {
    fn poll(&mut self, ranks: &Ranks) -> Result<bool> {
        if !self.is_done {
            let tested = test(ranks.mpi, &mut self.request, "Rget");
            // A request that failed is no more.
            self.is_done = *tested.as_ref().unwrap_or(&true);
            tested?;
        }
        Ok(self.is_done)
    }
}

impl GetSlab {
    fn new() -> Self {
        Self(ManuallyDrop::new(vec![0; SLAB_LEN].into_boxed_slice()))
    }

    /// Frees the memory, which MPI uses no more.
    fn give_back(mut self) {
        // SAFETY: it is dropped here and nowhere else; no get is under way.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

/// The bytes of pieces in the order they are asked for, in parts that fit a slab.
struct SlabParts<'a> {
    chosen: &'a [usize],
    at: usize,
    piece: usize,
    piece_at: usize,
}

/// Some bytes of a piece.
#[derive(Clone, Copy)]
struct Part {
    rank: usize,
    read: usize,
    piece: usize,
    piece_at: usize,
    len: usize,
}

impl SlabParts<'_> {
    /// The next part, at most `most` bytes; reads that failed are passed over.
    fn next(&mut self, reads: &[WindowRead<'_>], most: usize) -> Option<Part> {
        loop {
            let index = *self.chosen.get(self.at)?;
            let read = &reads[index];
            if read.outcome.is_err() || self.piece == read.pieces.len() {
                (self.at, self.piece, self.piece_at) = (self.at + 1, 0, 0);
                continue;
            }
            let left = read.pieces[self.piece].into.len() - self.piece_at;
            if left == 0 {
                (self.piece, self.piece_at) = (self.piece + 1, 0);
                continue;
            }
            let len = left.min(most);
            let part = Part { rank: read.rank, read: index, piece: self.piece, piece_at: self.piece_at, len };
            self.piece_at += len;
            return Some(part);
        }
    }
}

fn is_unified(ranks: &Ranks, window: MpiHandle) -> Result<bool> {
    let mpi = ranks.mpi;
    let mut model: *mut c_int = ptr::null_mut();
    let value: *mut *mut c_int = &raw mut model;
    let is_set = mpi.number("Win_get_attr", |calls, flag| {
        // SAFETY: the value of this attribute is the address of a number.
        unsafe { (calls.win_get_attr)(window, mpi.constants.win_model, value.cast(), flag) }
    })?;
    // SAFETY: MPI keeps the number as long as the window.
    Ok(is_set != 0 && !model.is_null() && unsafe { model.read() } == mpi.constants.win_unified)
}

const NO_RMA: &str = "this MPI has no one-sided communication between these hosts (Open MPI over plain TCP has none): \
                      move the bytes over TCP instead (data = \"tcp\")";

fn no_answer(rank: usize, reason: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("rank {rank} had not answered either when a get was given up: {reason}"),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Slabs are moved in and out whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
