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
//! | `range` | consecutive samples, as one piece for each rank |
//! | `restripe` | samples divided anew among ranks |
//! | `store` | variables by name, `get` and `get_batch` |
//! | `stats` | what was read from where, and how long it took |
//! | `load_model` | how long batches would take with more ranks, hosts or another network |
//! | `local_comm` | ranks that are threads of one process |
//! | `node_link` | what ranks of one host share: memory by descriptors, and the certainty who still runs |
//! | `shared_comm` | ranks that are processes of one host |
//! | `star`, `frame` | collective calls over a star of sockets, and what travels on them |
//! | `rank_states`, `process_end` | who runs, has left, or is gone; how others notice that a process has ended |
//! | `job_name` | the name by which the ranks of a job find each other |
//! | `check` | the contracts as functions, for tests of implementations (feature `check`) |

mod allocate;
#[cfg(feature = "check")]
pub mod check;
mod comm;
mod filling;
mod frame;
mod gather;
mod groups;
mod job_name;
mod load_model;
mod local_comm;
#[cfg(target_os = "linux")]
mod node_link;
#[cfg(target_os = "linux")]
mod partition;
#[cfg(target_os = "linux")]
mod process_end;
mod range;
mod rank_states;
mod restripe;
mod sample_lens;
mod shard_memory;
#[cfg(target_os = "linux")]
mod shared_comm;
#[cfg(target_os = "linux")]
mod star;
mod stats;
mod store;
mod variable;
mod wait;

pub use allocate::same_on_every_rank;
pub use comm::{Comm, CommThreads, Window, WindowPiece, WindowRead, gone};
pub use filling::{Filling, VariableSpec, agree};
pub use forebay_scratch::ParentOnly;
pub use frame::{FrameHeader, FrameKind, FrameReader, ReceivedFrame};
pub use gather::{FieldGather, PaddingRows};
pub use groups::ReplicaGroups;
pub use job_name::JobName;
pub use load_model::{ModelAnswer, ModelCase, ModelConstants};
pub use local_comm::LocalComm;
#[cfg(target_os = "linux")]
pub use node_link::{NodeLink, START_PATIENCE};
#[cfg(target_os = "linux")]
pub use partition::{Balance, Partition};
pub use rank_states::{RankState, RankStates};
pub use sample_lens::SampleLens;
pub use shard_memory::{ShardMemory, ShardPlace};
#[cfg(target_os = "linux")]
pub use shared_comm::SharedComm;
#[cfg(target_os = "linux")]
pub use star::{EndedElsewhere, Star, StarCall, StarMessage, StarParts};
pub use stats::{ReadCount, StoreStats};
pub use store::{GET_PATIENCE, Store, StoreOptions};
pub use variable::StoredVariable;
pub use wait::Wait;
