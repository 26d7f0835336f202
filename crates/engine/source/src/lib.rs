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
//! | `file` | an origin over the local file system |
//! | `walk` | the files under a folder |
//! | `pool` | one descriptor per file, under a budget, safe after a fork |
//! | `fd_stat` | `fstat` of a descriptor's number, without holding the descriptor |
//! | `prefetch` | prefetch instructions for memory that is read soon |
//! | `read` | reads by `pread`: first what is in the page cache, the rest concurrently |
//! | `concurrent` | a thread pool for requests that wait for a disk or a network |
//! | `file_system_kind` | whether a file lies on this machine or behind a network |
//! | `mountinfo` | the mount table of the kernel |
//! | `map`, `mapping_mode` | when files in the page cache are copied from a mapping, and the guard around that |
//! | `file_stat` | what `stat` says of a file, to notice that it changed |
//! | `trace` | an origin that reports each request to a sink |
//! | `small_source_cache` | an origin that reads small, far sources by one request, and caches them |
//! | `throttle` | a bandwidth limit that all readers share |
//! | `fault` | an origin that fails and delays on a schedule |
//! | `check` | the contracts as functions, for tests of implementations (feature `check`) |

mod byte_path;
#[cfg(feature = "check")]
pub mod check;
mod concurrent;
mod fault;
mod fd_stat;
mod file;
mod file_stat;
mod file_system_kind;
mod locator;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "map_absent.rs")]
mod map;
mod mapping_mode;
mod memory;
mod mountinfo;
mod origin;
mod pool;
mod prefetch;
mod range;
mod read;
mod small_source_cache;
mod source;
mod throttle;
mod trace;
mod walk;

pub use byte_path::{path_of_text, text_of_path};
pub use concurrent::run_concurrently;
pub use fault::{FaultCounters, FaultOrigin, FaultSchedule};
pub use file::FileOrigin;
pub use file_stat::changed as changed_error;
pub use file_system_kind::lies_near;
pub use locator::Locator;
pub use map::mapping;
pub use mapping_mode::MappingMode;
pub use memory::MemoryOrigin;
pub use mountinfo::{Mount, Mounts};
pub use origin::Origin;
pub use prefetch::prefetch;
pub use range::{ByteRange, Fill, coalesce, coalesce_within};
pub use small_source_cache::SmallSourceCache;
pub use source::{
    FileState, Source, SourceExt, SourceId, Trust, Version, check_fills, check_ranges, fill_by_fetching,
};
pub use throttle::Throttle;
pub use trace::{Operation, TraceRing, TraceSink, TracedOrigin, TracedRequest};
