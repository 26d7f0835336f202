//! A data set in the memory of all ranks of a job: every rank holds a shard, any rank reads any sample by a one-sided get.
//!
//! ```text
//! sample ─► Partition ─► member of the replica group ─► Window ─┬─ same host: loads from shared memory
//!           SampleLens    offset in its shard                   └─ other host: one batched get per rank
//! ```
//!
//! `width` ranks form a replica group and hold the whole set between them. Every rank knows where every sample of its group
//! lies: no rank is ever asked.
//!
//! | file | idea |
//! |---|---|
//! | `comm` | the contract of a communicator and of the memory its ranks let each other read |
//! | `wait` | how long a call may wait, and what interrupts it |
//! | `groups` | which ranks form a replica group |
//! | `sample_lens`, `partition` | how long every sample is; which member holds it, and where in its shard |
//! | `shard_memory` | the bytes of one rank: a memfd, or a mapped file on a local disk |
//! | `variable` | what is known of a variable on every rank |
//! | `filling` | variables that are being written, collectively |
//! | `allocate` | memory for them, decided alike on all ranks |
//! | `gather` | which bytes of which rank go where in a batch |
//! | `store` | variables by name, `get` and `get_batch` |
//! | `stats` | what was read from where, and how long it took |
//! | `local_comm` | ranks that are threads of one process |
//! | `check` | the contracts as functions, for tests of implementations (feature `check`) |

mod allocate;
#[cfg(feature = "check")]
pub mod check;
mod comm;
mod filling;
mod gather;
mod groups;
mod local_comm;
mod partition;
mod sample_lens;
mod shard_memory;
mod stats;
mod store;
mod variable;
mod wait;

pub use comm::{Comm, CommThreads, Window, WindowPiece, WindowRead, gone};
pub use filling::{Filling, VariableSpec};
pub use gather::FieldGather;
pub use groups::Groups;
pub use local_comm::LocalComm;
pub use partition::{Balance, Partition};
pub use sample_lens::SampleLens;
pub use shard_memory::{ShardMemory, ShardPlace};
pub use stats::{ReadCount, StoreStats};
pub use store::{Store, StoreOptions};
pub use variable::StoredVariable;
pub use wait::Wait;
