//! Replays how training reads and checkpoints, natively: data sets are generated, read by an engine, computed on by sleeping.
//!
//! ```text
//! Workload ─► generate ─► engine (BatchMaker) ─► loader in DLIO's order ─► steps, barriers ─► RunTimings ─► report
//!             files       hdf5 | forebay
//! ```
//!
//! | module | content |
//! |---|---|
//! | `runtime_hdf5` | a libhdf5 found at run time and its errors; calls of parallel builds |
//! | `generate` | files of every format, written under a temporary name and moved into place |
//! | `reading` | one sample of an HDF5 file, by a rank alone or by all together; drivers of MPI-IO and subfiling |
//! | `workers` | processes that read samples or write files for a rank, and what is sent to them |
//! | `engine` | what reads the samples of a step: libhdf5, or forebay itself, file by file where sizes differ |
//! | `dataset_files` | from a workload to its files: where they lie, how they are written and read |
//! | `ranks` | one rank: what it works with, its time, its machine; ranks without MPI |
//! | `phases` | the phases of a rank: what the files of a folder were generated as, steps of an epoch, checkpoints |
//! | `trace` | a trace in DFTracer's form |
//! | `progress`, `interruption` | progress bars; Ctrl-C in a wait |
//! | `run` | all phases, and what all ranks recorded |
//! | `results` | reports of runs |
//! | `command` | `forebay bench`: arguments, configurations, runs side by side, grids of parameters, a summary |

mod command;
mod dataset_files;
mod engine;
mod generate;
mod interruption;
mod phases;
mod progress;
mod ranks;
mod reading;
mod results;
mod run;
mod runtime_hdf5;
mod trace;
mod workers;

pub use command::{BenchOutcome, args::BenchArgs, bench, bench_host::BenchHost};
pub use engine::EngineName;
pub use ranks::rank_run::{ComputeKind, PageCacheState};
pub use reading::parallel_access::MpiRanks;
