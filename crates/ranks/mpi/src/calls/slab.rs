//! Memory that gets write to, and gets that fill it.

#![expect(unsafe_code, reason = "hands memory to MPI until a get is done")]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    ffi::c_void,
    mem::ManuallyDrop,
    ops::Range,
    ptr::{self, NonNull},
    sync::Arc,
};

use forebay_process::{Error, ErrorKind, Result};

use crate::{
    calls::{
        pending::{int, test},
        window_use::WindowUse,
    },
    library::{abi::MpiHandle, ffi::LoadedMpi},
};

/// Bytes of a slab: a batch of 128 samples of 8 KiB fits four times, and a long sample is fetched in parts, two at a time.
pub(crate) const SLAB_LEN: usize = 4 << 20;
/// Gets of a slab.
const SLAB_GETS: usize = 1024;
const LAYOUT: Layout = match Layout::from_size_align(SLAB_LEN, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout of whole pages"),
};

/// Memory of [`SLAB_LEN`] bytes. No reference to it is made: MPI writes to parts of it at any time.
pub(crate) struct GetSlab(NonNull<u8>);

// SAFETY: the memory belongs to the slab alone.
unsafe impl Send for GetSlab {}

impl GetSlab {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(LAYOUT) });
        let full = || Error::new(ErrorKind::Full, format!("no memory for {SLAB_LEN} bytes of gets"));
        memory.map(Self).ok_or_else(full)
    }

    fn address(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= SLAB_LEN && len <= SLAB_LEN - at, "bytes of a slab");
        // SAFETY: it lies within the memory.
        unsafe { self.0.as_ptr().add(at) }
    }
}

impl Drop for GetSlab {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout; whoever drops it knows that MPI writes to it no more.
        unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
    }
}

/// Some bytes of a piece.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) rank: usize,
    pub(crate) read: usize,
    pub(crate) piece: usize,
    pub(crate) piece_at: usize,
    pub(crate) len: usize,
}

/// A get, and what it brings.
struct PendingGet {
    request: MpiHandle,
    is_done: bool,
    part: Part,
    slab_at: usize,
}

/// Gets from one rank, one behind the other: those that its reader still waits for.
struct RankGets {
    rank: usize,
    waited_for: Range<usize>,
}

/// A slab and the gets that fill it. Dropped while they are under way, it leaves the memory to MPI.
pub(crate) struct SlabOfGets {
    slab: ManuallyDrop<GetSlab>,
    window: MpiHandle,
    pub(crate) usage: Arc<WindowUse>,
    gets: Vec<PendingGet>,
    ranks: Vec<RankGets>,
    used: usize,
    /// A get failed: MPI might still write, so the slab is never used again.
    is_tainted: bool,
}

/// What became of a get.
pub(crate) enum GetOutcome {
    /// Its bytes lie in the slab, at that place.
    Arrived(Part, usize),
    /// It failed.
    Failed(Part, Error),
}

impl SlabOfGets {
    pub(crate) fn new(slab: GetSlab, window: MpiHandle, usage: Arc<WindowUse>) -> Self {
        let slab = ManuallyDrop::new(slab);
        Self { slab, window, usage, gets: Vec::new(), ranks: Vec::new(), used: 0, is_tainted: false }
    }

    /// How many bytes more there is room for.
    pub(crate) fn room(&self) -> usize {
        if self.gets.len() == SLAB_GETS { 0 } else { SLAB_LEN - self.used }
    }

    /// Starts a get of `part`, which there is room for, from `offset` of its rank's shard.
    pub(crate) fn start(&mut self, mpi: &LoadedMpi, part: Part, offset: u64) -> Result<()> {
        let byte = mpi.constants.byte;
        let (count, target) = (int(part.len)?, int(part.rank)?);
        let at = isize::try_from(offset).map_err(|_| Error::invalid("an offset beyond 2^63"))?;
        let mut request = MpiHandle::UNSET;
        let into: *mut c_void = self.slab.address(self.used, part.len).cast();
        // SAFETY: the slab has that many bytes from there on, which no other get writes to; it stays until the get is done.
        let code = unsafe {
            (mpi.calls.rget)(into, count, byte, target, at, count, byte, self.window, &raw mut request)
        };
        if let Err(error) = mpi.check("Rget", code) {
            self.is_tainted = true;
            return Err(error);
        }
        let index = self.gets.len();
        self.gets.push(PendingGet { request, is_done: false, part, slab_at: self.used });
        self.used += part.len;
        match self.ranks.last_mut().filter(|last| last.rank == part.rank) {
            Some(last) => last.waited_for.end = index + 1,
            None => self.ranks.push(RankGets { rank: part.rank, waited_for: index..index + 1 }),
        }
        Ok(())
    }

    /// Ranks whose gets are waited for.
    pub(crate) fn waited_for(&self) -> impl Iterator<Item = usize> {
        self.ranks.iter().filter(|gets| !gets.waited_for.is_empty()).map(|gets| gets.rank)
    }

    /// True while any get is waited for.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited_for().next().is_some()
    }

    /// How many times gets of one rank follow each other.
    pub(crate) fn rank_count(&self) -> usize {
        self.ranks.len()
    }

    /// The next get of the rank at `index` that has ended, where somebody waits for it. One is looked at: they end in their
    /// order, or nearly so.
    pub(crate) fn next_ended(&mut self, mpi: &LoadedMpi, index: usize) -> Option<GetOutcome> {
        let waited_for = &mut self.ranks[index].waited_for;
        let get = &mut self.gets[waited_for.clone().next()?];
        let outcome = match get.poll(mpi) {
            Ok(false) => return None,
            Ok(true) => GetOutcome::Arrived(get.part, get.slab_at),
            Err(error) => {
                self.is_tainted = true;
                GetOutcome::Failed(get.part, error)
            }
        };
        waited_for.start += 1;
        Some(outcome)
    }

    /// Fills `into` with bytes that have arrived at `slab_at`.
    pub(crate) fn copy_to(&self, slab_at: usize, into: &mut [u8]) {
        let from = self.slab.address(slab_at, into.len());
        // SAFETY: the get that wrote these bytes is done, and no other writes there; the caller's memory is not a slab.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    /// Waits no more for gets from `rank`.
    pub(crate) fn give_up(&mut self, rank: usize) {
        for gets in self.ranks.iter_mut().filter(|gets| gets.rank == rank) {
            gets.waited_for.start = gets.waited_for.end;
        }
    }

    /// Looks at all gets, and gives the ranks of those that are under way.
    pub(crate) fn poll_all(&mut self, mpi: &LoadedMpi) -> impl Iterator<Item = usize> {
        for get in &mut self.gets {
            // Whoever waited for it has long been told.
            self.is_tainted |= get.poll(mpi).is_err();
        }
        self.gets.iter().filter(|get| !get.is_done).map(|get| get.part.rank)
    }

    /// True when no get is under way.
    pub(crate) fn is_done(&self) -> bool {
        self.gets.iter().all(|get| get.is_done)
    }

    /// The memory, when no get is under way and none has failed.
    pub(crate) fn into_slab(self) -> Option<GetSlab> {
        (self.is_done() && !self.is_tainted).then(|| ManuallyDrop::into_inner(self.slab))
    }
}

impl PendingGet {
    fn poll(&mut self, mpi: &LoadedMpi) -> Result<bool> {
        if !self.is_done {
            let tested = test(mpi, &mut self.request, "Rget");
            // A request that failed is no more.
            self.is_done = *tested.as_ref().unwrap_or(&true);
            tested?;
        }
        Ok(self.is_done)
    }
}
