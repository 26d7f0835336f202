//! What timings say: DLIO's metrics, h5bench's, and ours.
//!
//! | file | idea |
//! |---|---|
//! | `spread` | mean and standard deviation |
//! | `dlio` | accelerator utilisation (AU) and throughput by DLIO's formulas |
//! | `h5bench` | times and rates by h5bench's formulas |
//! | `summary` | one run in numbers, with latencies, stages and tiers |

mod dlio;
mod h5bench;
mod spread;
mod summary;

pub(crate) use dlio::block;
pub use dlio::{CheckpointRates, DlioFormula, DlioMetrics, DlioSplit};
pub use h5bench::{H5benchEpoch, H5benchMetrics, H5benchSplit};
pub use spread::Spread;
pub use summary::{
    CheckpointSummary, EpochSummary, GenerationSummary, LatencyPoints, RunSummary, SplitSummary, StageTime,
    TierShare, Verdict, summarise,
};
