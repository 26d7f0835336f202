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
//! | directory | content |
//! |---|---|
//! | `area` | an area as its users see it: settings, status, room and quota, drainers, the end of the process |
//! | `create` | new files: image, checksums, copy, attributes, publication in order, the link to the latest one |
//! | `update` | updates of existing files: redo log, accepted, read back, drained in place |
//! | `recover` | items of killed processes: found, finished, discarded, refused |
//! | `on_disk` | files of an item: journals, facts, log records, names, stamps of destinations |
//! | `range_set`, `untrusted` | sets of bytes; any bytes taken for the files of an area |

mod area;
mod create;
mod on_disk;
mod range_set;
mod recover;
mod untrusted;
mod update;

pub use area::Area;
pub use area::completion::Completion;
pub use area::drainers::AwaitedDrains;
pub use area::settings::{AreaPlace, AreaSettings, CloseWhen, DrainSync, StageOptions};
pub use area::status::{DrainProgress, ItemKind, ItemState, ItemStatus, StageStats};
pub use create::staged_file::{Sealed, StagedFile};
pub use recover::discard::PreparedDiscard;
pub use recover::{RecoverOptions, Recovered, recover};
pub use untrusted::try_untrusted;
pub use update::redo_file::RedoFile;
