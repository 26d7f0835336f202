//! Written bytes on their way: a journalled staging area on a fast tier, and the threads that move what lies in it.
//!
//! ```text
//!             write_at             seal             drainers                    rename
//! create ───► image on the fast tier ───► checksums, sync ───► copy, verify, sync ───► destination, `latest`
//!             write_at             stage            drainers
//! update ───► redo log, segments ───────► mark, sync ──────────► merged writes in place
//!             full: straight through ──────────────────────────► destination
//! killed:     journal, image, redo log ──► recover ────────────► destination, or a question
//! ```
//!
//! | file | idea |
//! |---|---|
//! | `area`, `settings`, `status` | an area as its users see it: what it may take, what is in it |
//! | `engine` | what a process has of an area, made anew in a forked child |
//! | `room` | the folder of a process in the area, its share of the quota; or memory |
//! | `drainers` | the threads, and which file comes next |
//! | `staged_file`, `image_state`, `image_drain`, `image_manifest`, `image_sums` | new files: written, sealed, copied |
//! | `destination`, `attributes`, `pointer` | a name in an open directory; owner, mode and access list of a published file; the link to the latest one |
//! | `lineage`, `publication`, `destination_changes` | how several versions of a new file are published in order, of one process and of several |
//! | `redo_file`, `redo_state`, `redo_accept`, `redo_keeping`, `redo_drain`, `batch`, `pending`, `close_error` | updates: accepted, read, drained in place |
//! | `redo_log`, `segment`, `memory_map`, `log_record` | the log: recycled segments of checked records, in files or in memory |
//! | `journal`, `journal_v4`, `item_files`, `facts_file`, `stamp`, `item_name` | what outlives the process: what an item is, what its destination looked like |
//! | `recover`, `recovery`, `recover_create`, `recover_update`, `survey`, `discard`, `writers` | what killed processes left, found, finished or removed |
//! | `completion`, `counters`, `range_set` | milestones, counters, sets of bytes |
//! | `process_end` | the end of the process |
//! | `untrusted` | any bytes taken for the files of an area |

mod area;
mod attributes;
mod batch;
mod close_error;
mod completion;
mod counters;
mod destination;
mod destination_changes;
mod discard;
mod drainers;
mod engine;
mod facts_file;
mod image_drain;
mod image_manifest;
mod image_state;
mod image_sums;
mod item_files;
mod item_name;
mod journal;
mod journal_v4;
mod lineage;
mod log_record;
mod memory_map;
mod pending;
mod pointer;
mod process_end;
mod publication;
mod range_set;
mod recover;
mod recover_create;
mod recover_update;
mod recovery;
mod redo_accept;
mod redo_drain;
mod redo_file;
mod redo_keeping;
mod redo_log;
mod redo_state;
mod room;
mod segment;
mod settings;
mod staged_file;
mod stamp;
mod status;
mod survey;
mod untrusted;
mod writers;

pub use area::Area;
pub use completion::Completion;
pub use discard::PreparedDiscard;
pub use drainers::AwaitedDrains;
pub use recover::{RecoverOptions, Recovered, recover};
pub use redo_file::RedoFile;
pub use settings::{AreaPlace, AreaSettings, CloseWhen, DrainSync, StageOptions};
pub use staged_file::{Sealed, StagedFile};
pub use status::{DrainProgress, ItemKind, ItemState, ItemStatus, StageStats};
pub use untrusted::try_untrusted;
