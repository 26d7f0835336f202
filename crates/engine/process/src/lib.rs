//! What this process and its host are, may use and have used: the ground floor of the workspace.
//!
//! | file | content |
//! |---|---|
//! | `error` | the one error type of the workspace |
//! | `process` | identity of this process without a system call, and state per process |
//! | `process_tree` | memory that a process and its forked children have taken, in a table that they share |
//! | `budget`, `ranks` | memory and cores that this process may use, and ranks that share the node |
//! | `ledger` | shares of the memory budget that parts of this process have taken |
//! | `work_memory` | memory for long bytes that goes back to the system at once |
//! | `descriptors` | budget of file descriptors for the process |
//! | `hidden_numbers` | numbers of descriptors in a program that does not know of us |
//! | `record_locks` | descriptors of files that the program around us has locked, closed when that drops no lock |
//! | `events` | warnings about skipped or degraded work: for subscribers and for users |
//! | `c_library` | where C libraries are looked for, and which of them are loaded |
//! | `guard` | no panic crosses into C |
//! | `warning` | what a plug-in says once on stderr |
//! | `histogram` | durations of requests, in buckets of even relative width |
//! | `size` | sizes as people write them |
//! | `suggest` | nearest known word for an unknown one |

mod budget;
pub mod c_library;
pub mod descriptors;
mod error;
mod events;
mod guard;
pub mod hidden_numbers;
mod histogram;
mod ledger;
mod process;
mod process_tree;
mod ranks;
pub mod record_locks;
pub mod size;
pub mod suggest;
mod warning;
mod work_memory;

pub use budget::{MemoryLimit, memory_budget, memory_limit, memory_setting};
pub use error::{Error, ErrorKind, Result};
pub use events::{Event, EventKind, take_warnings};
pub use guard::guard;
pub use histogram::{Histogram, LatencySummary};
pub use ledger::{Grant, Holding, Ledger, LedgerReport, Resize, ledger};
#[cfg(target_os = "linux")]
pub use process::forked_token;
pub use process::{Owned, PerProcess, ProcessIdentity, current as current_process};
pub use ranks::{cores_of_rank, listed_count, ranks_on_node};
pub use warning::WarnOnce;
pub use work_memory::{WorkMemory, is_paged};
