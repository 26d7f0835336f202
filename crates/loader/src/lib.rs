//! Samples to batches: what to read, in which order, and the threads that do it.
//!
//! ```text
//! SampleSpec ─► SampleSet ─► Plan ──► Run (threads) ─► Batch
//! what it is    where it is   order    Assembler         memory
//!                                      rows ─► batch
//!                                      units ─► cache, spill ─► batch
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `spec` | what a sample is, as the user says it |
//! | `boundary`, `index` | which part of a variable a sample is |
//! | `column`, `set`, `fingerprint` | one field over all files; all samples under one index; by what they are known again |
//! | `join`, `categories`, `sparse` | files that differ as one field: types, integers that stand for names, columns of sparse rows |
//! | `permutation`, `order`, `group`, `shard`, `seed` | which sample comes when, and for whom: arithmetic |
//! | `plan` | which samples are in which batch |
//! | `layout`, `units` | how samples are got: from their places, or by way of decoded units |
//! | `setup`, `shares`, `longest` | what is decided before anything is read; how memory is divided; samples that are too long for it |
//! | `cache`, `ledger`, `bitmap`, `spill`, `spill_folder` | decoded units in memory, by their next use, and on disk when there is no room |
//! | `arena`, `batch`, `convert`, `unpack` | memory that is used again; what is in it; numbers on their way |
//! | `assemble/` | sample numbers to the memory of a batch |
//! | `trouble`, `left_out`, `run/` | a batch, whatever happens to its samples; those of which nothing can be read; an epoch and the threads that make it ahead |
//! | `depth`, `effort` | how many such threads, by how long they wait for data |
//! | `loader`, `samples` | epochs of batches; samples by number |
//! | `schedule` | which bytes samples need, and when: for whoever fetches ahead |
//! | `estimate/` | what an epoch will cost, reckoned and not run |
//! | `options`, `state`, `stats` | what the user may set; where a run is; what it did |

mod arena;
mod assemble;
mod batch;
mod bitmap;
mod boundary;
mod cache;
mod categories;
mod column;
mod convert;
mod depth;
mod effort;
mod estimate;
mod fingerprint;
mod group;
mod index;
mod join;
mod layout;
mod ledger;
mod left_out;
mod loader;
mod longest;
mod options;
mod order;
mod permutation;
mod plan;
mod run;
mod samples;
mod schedule;
mod seed;
mod set;
mod setup;
mod shard;
mod shares;
mod sparse;
mod spec;
mod spill;
mod spill_folder;
mod state;
mod stats;
mod trouble;
mod units;
mod unpack;

pub use arena::{ALIGNMENT, Arena, Buffer};
pub use batch::{Batch, FieldArray, Trouble};
pub use estimate::{EpochCost, Estimate};
pub use loader::{Batches, Check, Loader, Resumed};
pub use options::{OnError, Options, SpillOptions};
pub use order::{AUTO_LANES, DEFAULT_LANES, DEFAULT_WINDOW, Groups, Order, Shuffle};
pub use permutation::{ORDER_VERSION, Permutation};
pub use plan::{Epoch, Plan, PlanSpec};
pub use run::{Next, Run};
pub use samples::Samples;
pub use schedule::{Asked, Schedule};
pub use seed::sample_seed;
pub use set::{FieldFacts, SampleSet};
pub use setup::InForce;
pub use shard::{Shard, Steps, StepsSpec, Tail};
pub use shares::Shares;
pub use spec::{
    AxisLen, AxisName, Boundary, Centres, Convert, Dense, FieldSpec, Offsets, SampleSpec, Unpack, UnpackKind,
};
pub use spill::{Admission, FileSpill, Spill, UnitPlace};
pub use state::{STATE_VERSION, State};
pub use stats::{Stats, Verdict};
pub use unpack::{UnpackedArray, unpack};
