//! Replays how training reads and checkpoints, natively: data sets are generated, read by an engine, computed on by sleeping.
//!
//! ```text
//! Workload ─► generate ─► engine (BatchMaker) ─► loader in DLIO's order ─► steps, barriers ─► RunTimings ─► report
//!             files       hdf5 | forebay
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `runtime_hdf5`, `parallel_calls` | a libhdf5 found at run time and its errors; calls of parallel builds |
//! | `generate/` | files of every format, written under a temporary name and moved into place |
//! | `generation_record`, `generation_lock` | what the files of a data folder were generated as; one run at a time generates there |
//! | `sample_reader` | one sample of an HDF5 file: open, select, read, close; by a rank alone or by all together |
//! | `parallel_access` | drivers by which ranks of an MPI job open files: MPI-IO, subfiling |
//! | `subfiling` | files of the subfiling driver: what lies beside them, which of them are whole |
//! | `vol_environment` | VOL connectors that a configuration names |
//! | `shared_batches` | memory of batches that worker processes fill |
//! | `frames`, `worker`, `worker_process` | processes that read samples or write files for a rank, and what is sent to them |
//! | `engine/` | what reads the samples of a step: libhdf5, or forebay itself, file by file where sizes differ |
//! | `step_maker`, `rank_orders` | the steps of an epoch as a loader makes them; what ranks know of each other's |
//! | `dataset_files` | from a workload to its files: where they lie, how they are written and read |
//! | `rank_run`, `clock`, `host` | one rank: what it works with, its time, its machine |
//! | `generate_phase`, `train_phase`, `checkpoint_phase` | the phases of a rank |
//! | `epoch_begin` | what comes before the first step of an epoch |
//! | `cold_cache`, `trace`, `phase_trace`, `digest` | files out of the page cache; a trace in DFTracer's form, and what goes into it; a checksum of what was read |
//! | `tier_counts`, `progress`, `interruption` | what tiers served; progress bars; Ctrl-C in a wait |
//! | `run`, `launch_ranks`, `lifeline` | all phases, and what all ranks recorded; ranks without MPI; how child processes are made to end |
//! | `results`, `several` | reports of runs; runs side by side, and grids of parameters |
//! | `args`, `config_file`, `bench_host`, `command`, `summary` | `forebay bench` |

mod args;
mod bench_host;
mod checkpoint_phase;
mod clock;
mod cold_cache;
mod command;
mod config_file;
mod dataset_files;
mod digest;
mod engine;
mod epoch_begin;
mod frames;
mod generate;
mod generate_phase;
mod generation_lock;
mod generation_record;
mod host;
mod interruption;
mod launch_ranks;
mod lifeline;
mod parallel_access;
mod parallel_calls;
mod phase_trace;
mod progress;
mod rank_orders;
mod rank_run;
mod results;
mod run;
mod runtime_hdf5;
mod sample_reader;
mod several;
mod shared_batches;
mod step_maker;
mod subfiling;
mod summary;
mod tier_counts;
mod trace;
mod train_phase;
mod vol_environment;
mod worker;
mod worker_process;

pub use args::BenchArgs;
pub use bench_host::BenchHost;
pub use command::{BenchOutcome, bench};
pub use engine::EngineName;
pub use parallel_access::MpiRanks;
pub use rank_run::{ComputeKind, PageCacheState};
