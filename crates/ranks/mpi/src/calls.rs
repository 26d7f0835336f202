//! Calls of MPI that end in time: in flight, polled, given up; their memory, who is gone, and the end of MPI itself.

pub(crate) mod hosts;
pub(crate) mod lifetime;
mod losses;
pub(crate) mod pending;
pub(crate) mod polling;
pub(crate) mod ranks;
pub(crate) mod slab;
mod slabs;
pub(crate) mod stall;
pub(crate) mod window_use;
