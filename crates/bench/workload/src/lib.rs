//! AI I/O benchmarks as plain data: what a run reads and writes and when, and what its timings say. No file is opened here.
//!
//! ```text
//! config ─► Workload ─► a runner (another crate) ─► RunTimings ─► metrics ─► report
//! YAML, JSON what to do  reads, writes, sleeps      what it took  AU, rates  CSV, JSON, HTML
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `config/` | DLIO's YAML, h5bench's JSON, our TOML, presets, overrides |
//! | `workload/` | one benchmark, resolved: phases, data set, reader, training, checkpoints |
//! | `suite` | what one configuration file asks for: one or several workloads |
//! | `layout` | where the files of a data set lie |
//! | `order/` | which sample is read when, by which rank and worker |
//! | `checkpoint` | the files of a checkpoint and the sizes of their tensors |
//! | `zip_layout`, `torch_archive` | headers of ZIP archives; the bytes of checkpoint files that `torch.load` reads |
//! | `random` | NumPy's generator and shuffle, draws of times |
//! | `distribution` | distributions of simulated times |
//! | `timings/` | what a run records, per rank, epoch and step |
//! | `metrics/` | what timings say, by DLIO's formulas, h5bench's and ours |
//! | `report/` | CSV, DLIO's JSON, ours, HTML, comparisons, sweeps |

pub mod checkpoint;
pub mod config;
mod distribution;
pub mod layout;
pub mod metrics;
pub mod order;
mod random;
pub mod report;
mod suite;
mod timings;
pub mod torch_archive;
mod words;
mod workload;
pub mod zip_layout;

pub use checkpoint::{CheckpointFile, TensorSpec};
pub use config::{ConfigOptions, ConfigSyntax};
pub use distribution::TimeDistribution;
pub use layout::Split;
pub use order::{BatchOrder, EpochOrder, RankPosition};
pub use random::Mt19937;
pub use suite::{LustreStripes, MpiLaunch, Suite, UnsupportedEntry, VolChoice};
pub use timings::{
    BlockTimings, CheckpointTimings, EpochTimings, GenerationTimings, HostFacts, LatencyCounts, RankTimings,
    RunTimings, StepTimings, TierCounts,
};
pub use workload::{
    CheckpointMode, CheckpointSpec, Compression, DatasetSpec, ElementType, EvaluationSpec, FileFormat,
    FileNaming, Framework, Hdf5Spec, LoaderKind, ModelSpec, OutputSpec, Parallelism, PhaseSet, RankShare,
    ReadType, ReaderSpec, ShuffleMode, StorageKind, StorageSpec, TrainSpec, TransformerSpec, Workload,
};
