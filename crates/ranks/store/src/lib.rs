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
//! | `comm/` | the contract of a communicator and of the memory its ranks let each other read; ranks that are threads, or processes of one host |
//! | `wait` | how long a call may wait, and what interrupts it |
//! | `groups` | which ranks form a replica group |
//! | `store/` | variables by name, and their samples wherever they lie |
//! | `stats` | what was read from where, and how long it took |
//! | `load_model` | how long batches would take with more ranks, hosts or another network |
//! | `check` | the contracts as functions, for tests of implementations (feature `check`) |

#[cfg(feature = "check")]
pub mod check;
mod comm;
mod groups;
mod load_model;
mod stats;
mod store;
mod wait;

pub use comm::frame::{FrameHeader, FrameKind, FrameReader, ReceivedFrame};
pub use comm::job_name::JobName;
pub use comm::local_comm::LocalComm;
#[cfg(target_os = "linux")]
pub use comm::node_link::{NodeLink, START_PATIENCE};
pub use comm::rank_states::{RankState, RankStates};
#[cfg(target_os = "linux")]
pub use comm::shared_comm::SharedComm;
#[cfg(target_os = "linux")]
pub use comm::star::{EndedElsewhere, Star, StarCall, StarMessage, StarParts};
pub use comm::{Comm, CommThreads, Window, WindowPiece, WindowRead, gone};
pub use forebay_scratch::ParentOnly;
pub use groups::ReplicaGroups;
pub use load_model::{ModelAnswer, ModelCase, ModelConstants};
pub use stats::{ReadCount, StoreStats};
pub use store::allocate::same_on_every_rank;
pub use store::filling::{Filling, VariableSpec, agree};
pub use store::gather::{FieldGather, PaddingRows};
#[cfg(target_os = "linux")]
pub use store::partition::{Balance, Partition};
pub use store::sample_lens::SampleLens;
pub use store::shard_memory::{ShardMemory, ShardPlace};
pub use store::variable::StoredVariable;
pub use store::{GET_PATIENCE, Store, StoreOptions};
pub use wait::Wait;
