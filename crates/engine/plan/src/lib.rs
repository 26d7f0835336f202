//! Which sample comes when, and for which rank: arithmetic, without a file and without a thread.
//!
//! ```text
//! SetIdentity ─► Groups ─► Order ──────► Steps ────► Epoch ─► samples of batch i
//! how many       what lies  permutation   which rank  both     and back: the batch
//! samples        together   (Feistel)     and batch            that uses a sample
//! ```
//!
//! Everything is a formula of the spec, the seed and the epoch: nothing is stored per sample, any process computes any part of
//! it, and to resume is to begin at another position.
//!
//! | file | idea |
//! |---|---|
//! | `seed` | random numbers that are functions |
//! | `permutation` | a shuffle that can be turned round in constant time |
//! | `groups` | samples that are read together |
//! | `order/` | the order of one epoch: full, in blocks, or none |
//! | `subset/`, `draws/`, `sampler` | some samples of a set; samples that are drawn by weight, in rounds, by length; both |
//! | `shard` | which positions of the order a rank uses in which step |
//! | `plan` | all epochs of a rank, batch by batch |
//! | `identity` | by what a set of samples is known |
//! | `state` | where a run is, as plain data |

mod draws;
mod groups;
mod identity;
mod order;
mod permutation;
mod plan;
mod sampler;
mod seed;
mod shard;
mod state;
mod subset;

pub use draws::{BucketDraws, Draws, RoundDraws, WeightedDraws};
pub use groups::{DEFAULT_LANES, Groups};
pub use identity::SetIdentity;
pub use order::{AUTO_LANES, DEFAULT_WINDOW, Order, Shuffle};
pub use permutation::{ORDER_VERSION, Permutation};
pub use plan::{Epoch, Plan, PlanSpec};
pub use sampler::Sampler;
pub use seed::{sample_seed, splitmix64};
pub use shard::{Shard, Steps, StepsSpec, Tail};
pub use state::{LoaderState, Resumed, STATE_VERSION, StateCheck};
pub use subset::Subset;
