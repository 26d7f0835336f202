//! Processes that read samples or write files for a rank, and the memory and messages between them.

mod frames;
pub(crate) mod shared_batches;
pub(crate) mod worker;
pub(crate) mod worker_process;
