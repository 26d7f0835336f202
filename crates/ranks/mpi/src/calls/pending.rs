//! Collective calls in flight, with the memory that MPI reads and writes until they are done.

#![expect(unsafe_code, reason = "hands memory to MPI until a call is done")]

use std::{ffi::c_int, mem::ManuallyDrop, ptr};

use forebay_process::{Error, Result};

use crate::library::{abi::MpiHandle, ffi::LoadedMpi};

/// A non-blocking call that was started.
///
/// One that is dropped before it is done leaves its memory to MPI, which may still write to it: a lost rank costs that much.
pub(crate) struct PendingCall {
    mpi: &'static LoadedMpi,
    name: &'static str,
    request: MpiHandle,
    is_done: bool,
    memory: ManuallyDrop<CallMemory>,
}

/// The memory of a call.
#[derive(Debug, Default)]
struct CallMemory {
    sent: Vec<u8>,
    received: Vec<u8>,
    counts: Vec<c_int>,
    displacements: Vec<c_int>,
    made: Option<Box<MpiHandle>>,
}

impl PendingCall {
    /// `MPI_Ibarrier`.
    pub(crate) fn barrier(mpi: &'static LoadedMpi, comm: MpiHandle) -> Result<Self> {
        let mut call = Self::new(mpi, "Ibarrier", CallMemory::default());
        // SAFETY: `comm` is a communicator of this library.
        let code = unsafe { (mpi.calls.ibarrier)(comm, &raw mut call.request) };
        call.started(code)
    }

    /// `MPI_Ibcast`: `bytes` are those of the root, and as many of any value on the other ranks.
    pub(crate) fn broadcast(
        mpi: &'static LoadedMpi,
        comm: MpiHandle,
        root: usize,
        bytes: Vec<u8>,
    ) -> Result<Self> {
        let (count, root) = (int(bytes.len())?, int(root)?);
        let mut call = Self::new(mpi, "Ibcast", CallMemory { received: bytes, ..CallMemory::default() });
        let buffer = call.memory.received.as_mut_ptr();
        // SAFETY: the buffer has `count` bytes, and stays where it is until the call is done or for ever.
        let code = unsafe {
            (mpi.calls.ibcast)(buffer.cast(), count, mpi.constants.byte, root, comm, &raw mut call.request)
        };
        call.started(code)
    }

    /// `MPI_Iallgatherv`: rank `r` sends `lens[r]` bytes.
    pub(crate) fn all_gather(
        mpi: &'static LoadedMpi,
        comm: MpiHandle,
        sent: Vec<u8>,
        lens: &[usize],
    ) -> Result<Self> {
        let counts: Vec<c_int> = lens.iter().map(|len| int(*len)).collect::<Result<_>>()?;
        let mut end = 0;
        let displacements = lens.iter().map(|len| {
            let start = end;
            end += len;
            int(start)
        });
        let displacements: Vec<c_int> = displacements.collect::<Result<_>>()?;
        let memory = CallMemory { received: vec![0; end], sent, counts, displacements, made: None };
        let mut call = Self::new(mpi, "Iallgatherv", memory);
        let (byte, memory) = (mpi.constants.byte, &mut *call.memory);
        // SAFETY: what is received has room for all counts at their displacements; all of it stays where it is until the call
        // is done or for ever.
        let code = unsafe {
            (mpi.calls.iallgatherv)(
                memory.sent.as_ptr().cast(),
                int(memory.sent.len())?,
                byte,
                memory.received.as_mut_ptr().cast(),
                memory.counts.as_ptr(),
                memory.displacements.as_ptr(),
                byte,
                comm,
                &raw mut call.request,
            )
        };
        call.started(code)
    }

    /// `MPI_Comm_idup`: a communicator of the same ranks, whose messages meet no others.
    pub(crate) fn duplicate(mpi: &'static LoadedMpi, comm: MpiHandle) -> Result<Self> {
        let memory = CallMemory { made: Some(Box::new(MpiHandle::UNSET)), ..CallMemory::default() };
        let mut call = Self::new(mpi, "Comm_idup", memory);
        let made: *mut MpiHandle = call.memory.made.as_deref_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: the new handle is written to memory that stays where it is until the call is done or for ever.
        let code = unsafe { (mpi.calls.comm_idup)(comm, made, &raw mut call.request) };
        call.started(code)
    }

    /// True once the call is done. Gives MPI the time to go on with it.
    pub(crate) fn poll(&mut self) -> Result<bool> {
        self.is_done = self.is_done || test(self.mpi, &mut self.request, self.name)?;
        Ok(self.is_done)
    }

    /// What was received, when the call is done.
    pub(crate) fn received(mut self) -> Vec<u8> {
        debug_assert!(self.is_done, "memory that MPI may still write to");
        std::mem::take(&mut self.memory.received)
    }

    /// The communicator that was made, when the call is done.
    pub(crate) fn made(mut self) -> Option<MpiHandle> {
        self.memory.made.take().map(|made| *made)
    }

    fn new(mpi: &'static LoadedMpi, name: &'static str, memory: CallMemory) -> Self {
        Self { mpi, name, request: MpiHandle::UNSET, is_done: false, memory: ManuallyDrop::new(memory) }
    }

    fn started(mut self, code: c_int) -> Result<Self> {
        let started = self.mpi.check(self.name, code);
        self.is_done = started.is_err();
        started?;
        Ok(self)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.is_done {
            // SAFETY: it is dropped here and nowhere else, and MPI uses it no more.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// `MPI_Test`: true once a request is done.
pub(crate) fn test(mpi: &LoadedMpi, request: &mut MpiHandle, name: &str) -> Result<bool> {
    // Longer than the status of any of the interfaces (20, 24 and 32 bytes).
    let mut status = [0u64; 16];
    let mut flag = 0;
    // SAFETY: the request is one that was started and is not done; the status has room.
    let code = unsafe { (mpi.calls.test)(request, &raw mut flag, status.as_mut_ptr().cast()) };
    mpi.check(name, code)?;
    Ok(flag != 0)
}

/// A number as MPI takes it.
pub(crate) fn int(number: usize) -> Result<c_int> {
    c_int::try_from(number)
        .map_err(|_| Error::invalid(format!("{number} is more than MPI counts to in one call")))
}
