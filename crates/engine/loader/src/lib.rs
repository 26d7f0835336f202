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
//! | `boundary` | which part of a variable a sample is |
//! | `series`, `ride`, `group_parts`, `origins` | boxes that go on from file to file; fields that are the same for all; groups that are samples; where boxes lie |
//! | `column`, `columns`, `set`, `fingerprint` | one field over all files; all samples under one index; by what they are known again |
//! | `join`, `categories`, `sparse`, `variable` | files that differ as one field: types, integers that stand for names, columns of sparse rows; texts and sequences |
//! | `references` | how long texts and sequences are, before any is read |
//! | `shuffle_group` | which samples a block shuffle keeps together; the order itself is the crate `plan`'s |
//! | `layout`, `units`, `unit_slices` | how samples are read: from where they are stored, or from decoded units |
//! | `walk` | the walk over the samples of a batch that reading, `estimate/` and `schedule` share |
//! | `setup`, `shares`, `longest` | what is decided before anything is read; how memory is divided; samples that are too long for it |
//! | `cache`, `ledger`, `horizon` | decoded units in memory, by their next use, and on disk when there is no room |
//! | `batch` | samples side by side; its memory, DLPack and the seam `BatchMaker` are the crate `batch`'s |
//! | `file_maker`, `assemble/`, `convert_sample` | batches from files |
//! | `make_batch`, `left_out` | a batch and the errors of its samples; batches of which nothing can be read |
//! | `run/` | an epoch and the threads that make it ahead; how many of them, the crate `batch` decides |
//! | `tuning` | what is done for latency alone, with a switch for each |
//! | `loader`, `cursor`, `samples` | epochs of batches; what the consumer has used of them; samples by number |
//! | `followed_run` | consecutive epochs: a run, and the next one made ahead |
//! | `observer` | who is given the schedule of each epoch, and told how far it is |
//! | `schedule` | which bytes samples need, and when: for tiers that fetch ahead |
//! | `estimate/`, `share` | what an epoch will cost, computed without running it |
//! | `options` | what the user may set |
//! | `to_usize` | counts of 64 bits as indexes |

use forebay_container::sample_spec as spec;

mod assemble;
mod batch;
mod boundary;
mod cache;
mod categories;
mod column;
mod columns;
mod convert_sample;
mod cursor;
mod estimate;
mod file_maker;
mod fingerprint;
mod followed_run;
mod group_parts;
mod horizon;
mod join;
mod layout;
mod ledger;
mod left_out;
mod loader;
mod longest;
mod make_batch;
mod observer;
mod options;
mod origins;
mod references;
mod ride;
mod run;
mod samples;
mod schedule;
mod series;
mod set;
mod setup;
mod share;
mod shares;
mod shuffle_group;
mod sparse;
mod to_usize;
mod tuning;
mod unit_slices;
mod units;
mod variable;
mod walk;

pub use batch::{Batch, FailedSample, Receipt};
pub use estimate::{EpochCost, Estimate};
pub use followed_run::FollowedRun;
pub use forebay_container::sample_spec::{
    AxisLen, AxisName, Boundary, Centres, Convert, Dense, FieldSpec, FilesAxis, Leads, Offsets, SampleSpec,
    SeriesSpec,
};
pub use loader::{Batches, Loader};
pub use observer::EpochObserver;
pub use options::{OnError, Options, SpillOptions};
pub use origins::AxisOrigins;
pub use run::{Next, Run};
pub use samples::Samples;
pub use schedule::{IndexAccess, Schedule, ScheduledRead};
pub use set::{FieldFacts, SampleSet};
pub use setup::InForce;
pub use shares::Shares;
pub use shuffle_group::set_identity;
