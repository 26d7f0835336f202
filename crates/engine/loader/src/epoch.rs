//! Epochs on their way to the consumer: batches, the runs that make them, and where the consumer is.
//!
//! | file | idea |
//! |---|---|
//! | `batch` | samples side by side; its memory, DLPack and the seam `BatchMaker` are the crate `batch`'s |
//! | `make_batch`, `left_out` | a batch and the errors of its samples; batches of which nothing can be read |
//! | `run/` | an epoch and the threads that make it ahead; how many of them, the crate `batch` decides |
//! | `followed_run` | consecutive epochs: a run, and the next one made ahead |
//! | `cursor` | what the consumer has used of its epochs |
//! | `schedule`, `share` | which bytes samples need, and when: for tiers that fetch ahead; a share of the samples that stands for all |
//! | `observer` | who is given the schedule of each epoch, and told how far it is |

pub(crate) mod batch;
pub(crate) mod cursor;
pub(crate) mod followed_run;
pub(crate) mod left_out;
pub(crate) mod make_batch;
pub(crate) mod observer;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod share;
