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
//! | `pool` | one descriptor per file, under a budget, safe after a fork |
//! | `peek` | whether a descriptor's number still means a file, asked without holding it |
//! | `prefetch` | memory that is wanted soon, asked for ahead |
//! | `read` | reading a file: at once what is in memory, side by side what is waited for |
//! | `side_by_side` | requests that wait at the same time |
//! | `file_system_kind` | whether a file lies on this machine or behind a network |
//! | `mountinfo` | what is mounted where, as the kernel tells it |
//! | `map` | when files in the page cache are copied from a mapping, and the guard around that |
//! | `process` | which process this is, told without a system call |
//! | `budget`, `ranks` | how much memory and how many cores this process may use, and beside whom |
//! | `ledger` | who in this process has taken how much of it |
//! | `process_tree` | what a process and those it forks have taken, seen by all of them |
//! | `size` | sizes as people write them |
//! | `stamp` | what tells one state of a file from the next |
//! | `object` | an origin over object stores and web servers (feature `object`) |
//! | `trace` | an origin that reports each request to a sink |
//! | `histogram` | how long requests took, in buckets of even relative width |
//! | `events` | what was left out or done otherwise, and why: for subscribers, and for users as warnings |
//! | `work_memory` | memory for long bytes that goes back to the system at once |
//! | `whole` | an origin that reads small, far sources by one request |
//! | `clock` | a line that lets so many bytes pass in a second |
//! | `fault` | an origin that fails and dawdles on a schedule |
//! | `check` | the contracts as functions, for whoever implements them (feature `check`) |

mod budget;
mod byte_path;
#[cfg(feature = "check")]
pub mod check;
mod clock;
pub mod descriptors;
mod error;
mod events;
mod fault;
mod file;
mod file_system_kind;
mod histogram;
mod ledger;
mod locator;
#[cfg_attr(not(all(target_os = "linux", target_pointer_width = "64")), path = "map_absent.rs")]
mod map;
mod memory;
mod mountinfo;
#[cfg(feature = "object")]
mod object;
mod origin;
mod peek;
mod pool;
mod prefetch;
mod process;
mod process_tree;
mod range;
mod ranks;
mod read;
mod side_by_side;
pub mod size;
mod source;
mod stamp;
mod trace;
mod walk;
mod whole;
mod work_memory;

pub use budget::{MemoryLimit, memory_budget, memory_limit, memory_setting};
pub use byte_path::{path_of_text, text_of_path};
pub use clock::Clock;
pub use error::{Error, ErrorKind, Result};
pub use events::{Event, EventKind, take_warnings};
pub use fault::{Counters, FaultOrigin, Schedule};
pub use file::FileOrigin;
pub use file_system_kind::lies_near;
pub use histogram::{Histogram, LatencySummary};
pub use ledger::{Grant, Holding, Ledger, LedgerReport, Resize, ledger};
pub use locator::Locator;
pub use map::{Mapping, mapping};
pub use memory::MemoryOrigin;
pub use mountinfo::{Mount, Mounts};
#[cfg(feature = "object")]
pub use object::ObjectOrigin;
pub use origin::Origin;
pub use prefetch::prefetch;
pub use process::{Owned, PerProcess, ProcessIdentity, current as current_process};
pub use range::{ByteRange, Fill, coalesce};
pub use ranks::{cores_of_rank, listed_count, ranks_on_node};
pub use side_by_side::side_by_side;
pub use source::{
    FileState, Source, SourceExt, SourceId, Trust, Version, check_fills, check_ranges, fill_by_fetching,
};
pub use trace::{Operation, TraceEntry, TraceRing, TraceSink, TracedOrigin, TracedRequest};
pub use whole::WholeOrigin;
pub use work_memory::WorkMemory;
