//! Samples to batches: what to read, in which order, and the threads that do it.

mod order;
mod permutation;
mod seed;
mod shard;

pub use order::{DEFAULT_LANES, DEFAULT_WINDOW, Groups, Order, Shuffle};
pub use permutation::{ORDER_VERSION, Permutation};
pub use seed::sample_seed;
pub use shard::{Shard, Steps, StepsSpec, Tail};
