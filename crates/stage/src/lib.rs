//! Written bytes on their way: a journalled staging area on a fast tier, and the threads that move what lies in it.

mod area;
mod completion;
mod recover;
mod redo_file;
mod settings;
mod staged_file;
mod status;

pub use area::Area;
pub use completion::Completion;
pub use recover::{RecoverOptions, Recovered, recover};
pub use redo_file::RedoFile;
pub use settings::{AreaPlace, AreaSettings, CloseWhen, DrainSync, StageOptions};
pub use staged_file::{Sealed, StagedFile};
pub use status::{DrainProgress, ItemKind, ItemState, ItemStatus, StageStats};
