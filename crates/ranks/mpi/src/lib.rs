//! Ranks of an MPI job, with whichever MPI is found at run time: Open MPI, MPICH and its kin, or any with the interface of MPI-5.
//!
//! ```text
//! MpiLibrary ─► MpiComm ─┬─ messages: non-blocking collectives, polled until a deadline
//! found once    dup'ed   └─ windows ─┬─ ranks of this host: memory files, mapped; no call of MPI
//!                                    └─ other hosts: one MPI window, one epoch, requests into slabs of our own
//! ```
//!
//! | module | content |
//! |---|---|
//! | `library` | which library, its functions, and handles and constants of the three binary interfaces |
//! | `calls` | collective calls that end in time, and gets in flight with their memory; who is gone; initialisation and end |
//! | `window` | the memory of all ranks: the window of MPI, gets from ranks of other hosts |
//! | `comm` | the communicator: with `window` the contracts of `forebay-store` over all that |
//! | `launched` | ranks of an MPI job that work together without MPI |
//! | `probe` | whether ranks can be read while they compute |
//! | `baseline` | what the gets are measured against (feature `baseline`) |

#[cfg(feature = "baseline")]
mod baseline;
mod calls;
mod comm;
mod launched;
mod library;
mod probe;
mod window;

#[cfg(feature = "baseline")]
pub use baseline::{AllToAll, LockingWindow};
pub use calls::lifetime::{finalize, leave_unfinalized};
pub use comm::{MpiComm, MpiOptions};
pub use launched::MpiLaunchedComm;
pub use library::MpiLibrary;
pub use library::abi::{MpiAbi, MpiHandle};
pub use probe::passive_progress;
