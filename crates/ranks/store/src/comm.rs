//! Ranks that work together, and the memory that each lets the others read.
//!
//! | file | idea |
//! |---|---|
//! | `local_comm` | ranks that are threads of one process |
//! | `shared_comm` | ranks that are processes of one host |
//! | `node_link` | what ranks of one host share: memory by descriptors, and the certainty who still runs |
//! | `star`, `frame` | collective calls over a star of sockets, and what travels on them |
//! | `rank_states`, `process_end` | who runs, has left, or is gone; how others notice that a process has ended |
//! | `job_name` | the name by which the ranks of a job find each other |

pub(crate) mod frame;
pub(crate) mod job_name;
pub(crate) mod local_comm;
#[cfg(target_os = "linux")]
pub(crate) mod node_link;
#[cfg(target_os = "linux")]
pub(crate) mod process_end;
pub(crate) mod rank_states;
#[cfg(target_os = "linux")]
pub(crate) mod shared_comm;
#[cfg(target_os = "linux")]
pub(crate) mod star;

use std::{fmt, ops::Range, sync::Arc};

use forebay_process::{Error, ErrorKind, Result};

use crate::{store::shard_memory::ShardMemory, wait::Wait};

/// The ranks of a job: who they are, what they tell each other, and windows into their memory.
///
/// # Contract
///
/// - Ranks are numbered from 0; `rank`, `size` and `host_of` never change. Two ranks have one host if they can map each other's
///   memory.
/// - `barrier`, `broadcast`, `all_gather` and `window` are collective: every rank calls them in the same order. Each ends on
///   every rank or is an error there; a rank that is gone makes it an error that names the rank, and later ones fail at once.
/// - `broadcast` gives every rank the bytes of `root`; `all_gather` gives every rank the bytes of all, by rank.
/// - A wait ends by its [`Wait`]. What a rank that gave up has missed is not made up for: later collective calls are errors.
/// - `first_gone` names a rank of which it is certain that it runs no more, at the latest 5 s after it ended without closing
///   its windows. A rank that is gone stays gone.
/// - Where `threads` is [`Any`](CommThreads::Any), many threads may call at once, but collective calls come from one at a time.
///   Where it is [`Caller`](CommThreads::Caller), all calls come from the thread that made the communicator.
pub trait Comm: fmt::Debug + Send + Sync {
    /// The number of this rank.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// The number of the host that `rank` runs on.
    fn host_of(&self, rank: usize) -> usize;

    /// On which threads it may be called.
    fn threads(&self) -> CommThreads;

    /// The first of `ranks` that runs no more. It is asked before every get: a few loads, no system call.
    fn first_gone(&self, ranks: Range<usize>) -> Option<usize>;

    /// Whether [`first_gone`](Self::first_gone) hears of the end of every rank, so that waits for one that lives need no bound.
    fn hears_of_ends(&self) -> bool {
        true
    }

    /// How bytes and messages travel, for reports: `threads`, `shared memory`, `Open MPI 4.1.4, shared memory`.
    fn transport(&self) -> String;

    /// Returns when every rank has called it.
    fn barrier(&self, wait: &Wait<'_>) -> Result<()>;

    /// The bytes of `root`; those of other ranks are not looked at.
    fn broadcast(&self, root: usize, bytes: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<u8>>;

    /// The bytes of every rank.
    fn all_gather(&self, mine: Vec<u8>, wait: &Wait<'_>) -> Result<Vec<Vec<u8>>>;

    /// A window into the shards of all ranks, of which `mine` is this rank's.
    fn window(&self, mine: Arc<ShardMemory>, wait: &Wait<'_>) -> Result<Arc<dyn Window>>;
}

/// The shards of all ranks, as one rank reads them.
///
/// # Contract
///
/// - `publish` is collective: what a rank wrote to its shard before is what every rank reads afterwards. Until then reads may
///   give anything.
/// - `shared` gives the shard of every rank of this rank's host, itself included, and never changes. It stays readable when
///   that rank is gone.
/// - `get` returns when every read has its outcome. One rank's failure leaves the others' reads alone. An outcome of `Ok` means
///   that all pieces are filled; otherwise their bytes may be anything. Pieces of length 0 and reads of no pieces are filled.
///   A piece beyond the shard's end is `Invalid`.
/// - A piece may be of any length, also beyond 2 GiB; one call may name a rank more than once.
/// - `close` is collective. Afterwards nothing is read; a window that is dropped without it leaves nothing behind once the
///   process ends.
pub trait Window: fmt::Debug + Send + Sync {
    /// Makes what every rank wrote readable by all.
    fn publish(&self, wait: &Wait<'_>) -> Result<()>;

    /// The shard of a rank of this host.
    fn shared(&self, rank: usize) -> Option<&ShardMemory>;

    /// Fills the pieces of all reads.
    fn get(&self, reads: &mut [WindowRead<'_>], wait: &Wait<'_>);

    /// Gives up what the ranks share.
    fn close(&self, wait: &Wait<'_>) -> Result<()>;
}

/// What is read of one rank.
#[derive(Debug)]
pub struct WindowRead<'a> {
    /// Of which.
    pub rank: usize,
    /// What, and where it goes.
    pub pieces: Vec<WindowPiece<'a>>,
    /// Whether all pieces were filled.
    pub outcome: Result<()>,
}

/// Consecutive bytes of a shard and where they go.
#[derive(Debug)]
pub struct WindowPiece<'a> {
    /// Where they begin in the shard.
    pub offset: u64,
    /// Where they go.
    pub into: &'a mut [u8],
}

/// On which threads a communicator may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommThreads {
    /// On any.
    Any,
    /// On the one that made it, as MPI below `MPI_THREAD_MULTIPLE` asks.
    Caller,
}

/// The error for a rank that runs no more.
pub fn gone(rank: usize) -> Error {
    Error::new(ErrorKind::Unavailable, format!("rank {rank} is gone")).hint("see its output for the reason")
}
