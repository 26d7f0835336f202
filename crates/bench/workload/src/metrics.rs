//! What timings say: DLIO's metrics, h5bench's, and ours.
//!
//! | file | idea |
//! |---|---|
//! | `mean_stdev` | mean and standard deviation |
//! | `dlio` | accelerator utilisation (AU) and throughput by DLIO's formulas |
//! | `h5bench` | times and rates by h5bench's formulas |
//! | `summary` | one run in numbers, with latencies, stages and tiers |

mod dlio;
mod h5bench;
mod mean_stdev;
mod summary;

pub(crate) use dlio::block;
pub use dlio::{CheckpointRates, DlioFormula, DlioMetrics, DlioSplit};
pub use h5bench::{H5benchEpoch, H5benchMetrics, H5benchSplit};
pub use mean_stdev::MeanStdev;
pub use summary::{
    AuVerdict, CheckpointSummary, EpochSummary, GenerationSummary, LatencyPoints, RunSummary, SplitSummary,
    StageTime, TierShare, summarise,
};
