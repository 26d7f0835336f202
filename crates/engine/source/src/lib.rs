//! Bytes, where they live and how to ask for them.
//!
//! It knows nothing of tiers, formats or samples.
//!
//! ```text
//! Origin ──open──► Source ──fetch(ranges)──► bytes
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `range` | byte ranges, checked, and how near ones are joined |
//! | `source` | the contract of a run of bytes |
//! | `origin`, `locator` | the contract of a place that opens sources, and the names it has for them |
//! | `byte_path` | paths of any bytes as text |
//! | `memory` | an origin in memory |
//! | `file/` | an origin over the local file system |
//! | `layers/` | origins over any other: traces, one cache, limits, faults |
//! | `concurrent` | a thread pool for requests that wait for a disk or a network |
//! | `prefetch` | prefetch instructions for memory that is read soon |
//! | `check` | the contracts as functions, for tests of implementations (feature `check`) |

mod byte_path;
#[cfg(feature = "check")]
pub mod check;
mod concurrent;
mod file;
mod layers;
mod locator;
mod memory;
mod origin;
mod prefetch;
mod range;
mod source;

pub use byte_path::{path_of_text, text_of_path};
pub use concurrent::run_concurrently;
pub use file::FileOrigin;
pub use file::file_stat::changed as changed_error;
pub use file::file_system_kind::lies_near;
pub use file::map::mapping;
pub use file::mapping_mode::MappingMode;
pub use file::mountinfo::{Mount, Mounts};
pub use layers::fault::{FaultCounters, FaultOrigin, FaultSchedule};
pub use layers::small_source_cache::SmallSourceCache;
pub use layers::throttle::Throttle;
pub use layers::trace::{Operation, TraceRing, TraceSink, TracedOrigin, TracedRequest};
pub use locator::Locator;
pub use memory::MemoryOrigin;
pub use origin::Origin;
pub use prefetch::prefetch;
pub use range::{ByteRange, Fill, coalesce, coalesce_within};
pub use source::{
    FileState, Source, SourceExt, SourceId, Trust, Version, check_fills, check_ranges, fill_by_fetching,
};
