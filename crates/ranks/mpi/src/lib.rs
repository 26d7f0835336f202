//! Ranks of an MPI job, with whichever MPI is found at run time: Open MPI, MPICH and its kin, or any with the interface of MPI-5.
//!
//! ```text
//! MpiLibrary ─► MpiComm ─┬─ messages: non-blocking collectives, polled until a deadline
//! found once    dup'ed   └─ windows ─┬─ ranks of this host: memory files, mapped; no call of MPI
//!                                    └─ other hosts: one MPI window, one epoch, requests into slabs of our own
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `abi` | handles and constants of the three binary interfaces |
//! | `ffi` | the functions, resolved once |
//! | `find`, `library` | which library: the process's own, the user's, the launcher's |
//! | `lifetime` | initialisation, and what is given back before MPI is finalised |
//! | `pending`, `polling` | calls in flight and their memory; how long one rests between two looks at them |
//! | `losses` | what is known for good: who is gone, who failed, why ranks are out of step |
//! | `ranks` | collective calls that end in time |
//! | `hosts` | which ranks run on one host |
//! | `stall` | the end of calls that cannot be called off |
//! | `slab`, `slabs` | memory that gets write to, and those that never ended |
//! | `rma`, `window_use` | the window of MPI, and who reads through it |
//! | `remote_gets` | gets from ranks of other hosts |
//! | `window`, `comm` | the contracts of `forebay-store` over all that |
//! | `launched` | ranks of an MPI job that work together without MPI |
//! | `probe` | whether ranks can be read while they compute |
//! | `baseline` | what the gets are measured against (feature `baseline`) |

mod abi;
#[cfg(feature = "baseline")]
mod baseline;
mod comm;
mod ffi;
mod find;
mod hosts;
mod launched;
mod library;
mod lifetime;
mod losses;
mod pending;
mod polling;
mod probe;
mod ranks;
mod remote_gets;
mod rma;
mod slab;
mod slabs;
mod stall;
mod window;
mod window_use;

pub use abi::{MpiAbi, MpiHandle};
#[cfg(feature = "baseline")]
pub use baseline::{AllToAll, LockingWindow};
pub use comm::{MpiComm, MpiOptions};
pub use launched::MpiLaunchedComm;
pub use library::MpiLibrary;
pub use lifetime::{finalize, leave_unfinalized};
pub use probe::passive_progress;
