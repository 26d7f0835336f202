//! Samples to batches: what to read, and the threads that do it.
//!
//! ```text
//! SampleSpec ─► SampleSet ─► Plan ──► Run (threads) ─► Batch ─► DLPack
//! what it is    where it is   order    BatchMaker       memory    tensor
//!                                      rows ─► batch
//!                                      units ─► cache, spill ─► batch
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `loader`, `samples` | epochs of batches; samples by number |
//! | `set/` | what a sample is and where it lies: all samples under one index |
//! | `layout/` | how samples are read: from where they are stored, or from decoded units |
//! | `memory/` | what is decided before anything is read; decoded units in memory and on disk |
//! | `assemble/` | batches from files |
//! | `epoch/` | batches, the threads that make them ahead, what the consumer has used of them, and who observes it |
//! | `estimate/` | what an epoch will cost, computed without running it |
//! | `tuning` | what is done for latency alone, with a switch for each |
//! | `options` | what the user may set |
//! | `to_usize` | counts of 64 bits as indexes |

use forebay_container::sample_spec as spec;

mod assemble;
mod epoch;
mod estimate;
mod layout;
mod loader;
mod memory;
mod options;
mod samples;
mod set;
mod to_usize;
mod tuning;

pub use epoch::batch::{Batch, FailedSample, Receipt};
pub use epoch::followed_run::FollowedRun;
pub use epoch::observer::EpochObserver;
pub use epoch::run::{Next, Run};
pub use epoch::schedule::{IndexAccess, Schedule, ScheduledRead};
pub use estimate::{EpochCost, Estimate};
pub use forebay_container::sample_spec::{
    AxisLen, AxisName, Boundary, Centres, Convert, Dense, FieldSpec, FilesAxis, Leads, Offsets, SampleSpec,
    SeriesSpec,
};
pub use loader::{Batches, Loader};
pub use memory::setup::InForce;
pub use memory::shares::Shares;
pub use options::{OnError, Options, SpillOptions};
pub use samples::Samples;
pub use set::origins::AxisOrigins;
pub use set::shuffle_group::set_identity;
pub use set::{FieldFacts, SampleSet};
