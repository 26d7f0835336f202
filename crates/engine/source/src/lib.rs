//! Bytes, where they live and how to ask for them.
//!
//! This is the leftmost crate: it knows nothing of tiers, formats or samples.
//!
//! ```text
//! Origin ──open──► Source ──fetch(ranges)──► bytes
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `error` | the one error type of the workspace |
//! | `range` | byte ranges, checked, and how near ones are joined |
//! | `source` | the contract of a run of bytes |
//! | `origin`, `locator` | the contract of a place that opens sources, and the names it has for them |
//! | `byte_path` | paths of any bytes as text |
//! | `memory` | an origin in memory |
//! | `file` | an origin over the local file system |
//! | `walk` | the files under a folder |
//! | `descriptors` | one budget of descriptors for the process |
//! | `hidden_numbers` | numbers of descriptors in a program that does not know of us |
//! | `pool` | one descriptor per file, under a budget, safe after a fork |
//! | `record_locks` | descriptors of files that the program around us has locked, closed when that drops no lock |
//! | `fd_stat` | `fstat` of a descriptor's number, without holding the descriptor |
//! | `prefetch` | prefetch instructions for memory that is read soon |
//! | `read` | reads by `pread`: first what is in the page cache, the rest concurrently |
//! | `concurrent` | a thread pool for requests that wait for a disk or a network |
//! | `file_system_kind` | whether a file lies on this machine or behind a network |
//! | `mountinfo` | the mount table of the kernel |
//! | `map`, `mapping_mode` | when files in the page cache are copied from a mapping, and the guard around that |
//! | `process` | the identity of this process without a system call, and state per process |
//! | `budget`, `ranks` | how much memory and how many cores this process may use, and how many ranks share the node |
//! | `ledger` | which part of this process has taken how much of it |
//! | `process_tree` | what a process and its forked children have taken, in memory that they share |
//! | `size` | sizes as people write them |
//! | `suggest` | unknown words, and the nearest known one |
//! | `file_stat` | what `stat` says of a file, to notice that it changed |
//! | `trace` | an origin that reports each request to a sink |
//! | `histogram` | how long requests took, in buckets of even relative width |
//! | `events` | what was left out or done otherwise, and why: for subscribers, and for users as warnings |
//! | `work_memory` | memory for long bytes that goes back to the system at once |
//! | `small_source_cache` | an origin that reads small, far sources by one request, and caches them |
//! | `throttle` | a bandwidth limit that all readers share |
//! | `fault` | an origin that fails and delays on a schedule |
//! | `check` | the contracts as functions, for tests of implementations (feature `check`) |

mod budget;
mod byte_path;
#[cfg(feature = "check")]
pub mod check;
mod concurrent;
pub mod descriptors;
mod error;
mod events;
mod fault;
mod fd_stat;
mod file;
mod file_stat;
mod file_system_kind;
pub mod hidden_numbers;
mod histogram;
mod ledger;
mod locator;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "map_absent.rs")]
mod map;
mod mapping_mode;
mod memory;
mod mountinfo;
mod origin;
mod pool;
mod prefetch;
mod process;
mod process_tree;
mod range;
mod ranks;
mod read;
pub mod record_locks;
pub mod size;
mod small_source_cache;
mod source;
pub mod suggest;
mod throttle;
mod trace;
mod walk;
mod work_memory;

pub use budget::{MemoryLimit, memory_budget, memory_limit, memory_setting};
pub use byte_path::{path_of_text, text_of_path};
pub use concurrent::run_concurrently;
pub use error::{Error, ErrorKind, Result};
pub use events::{Event, EventKind, take_warnings};
pub use fault::{FaultCounters, FaultOrigin, FaultSchedule};
pub use file::FileOrigin;
pub use file_stat::changed as changed_error;
pub use file_system_kind::lies_near;
pub use histogram::{Histogram, LatencySummary};
pub use ledger::{Grant, Holding, Ledger, LedgerReport, Resize, ledger};
pub use locator::Locator;
pub use map::mapping;
pub use mapping_mode::MappingMode;
pub use memory::MemoryOrigin;
pub use mountinfo::{Mount, Mounts};
pub use origin::Origin;
pub use prefetch::prefetch;
#[cfg(target_os = "linux")]
pub use process::forked_token;
pub use process::{Owned, PerProcess, ProcessIdentity, current as current_process};
pub use range::{ByteRange, Fill, coalesce, coalesce_within};
pub use ranks::{cores_of_rank, listed_count, ranks_on_node};
pub use small_source_cache::SmallSourceCache;
pub use source::{
    FileState, Source, SourceExt, SourceId, Trust, Version, check_fills, check_ranges, fill_by_fetching,
};
pub use throttle::Throttle;
pub use trace::{Operation, TraceRing, TraceSink, TracedOrigin, TracedRequest};
pub use work_memory::WorkMemory;
